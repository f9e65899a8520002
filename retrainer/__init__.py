"""The night: partitions, feature table, training, evaluation, publishing."""
