"""Ratios and products of the configuration: what one accelerator gets to do."""

import numpy as np

from predictor.jobs import Floats, Jobs

#: Name to formula, b = batch_size per trainer, a = accelerators_per_trainer, t = num_trainers.
FEATURES: tuple[str, ...] = (
    "accelerators",  # t a
    "total_batch",  # b t
    "batch_per_accelerator",  # b / a
    "micro_batch",  # b / (a gradient_accumulation)
    "readers_per_trainer",  # data_readers / t
    "readers_per_accelerator",  # data_readers / (t a)
    "samples_per_reader",  # b t / data_readers
    "tokens_per_accelerator",  # b sequence_length / a
    "model_parallel",  # tensor x pipeline x expert, 1 where not stated
    "model_replicas",  # t a / model_parallel
)


def features(jobs: Jobs) -> Floats:
    """(n, len(FEATURES)) values; NaN where a term is missing or a divisor is zero."""
    trainers = jobs.number("num_trainers")
    per_trainer = jobs.number("accelerators_per_trainer")
    batch = jobs.number("batch_size")
    readers = jobs.number("data_readers")
    accumulation, *groups = (_or_one(jobs.number(name)) for name in _ONE_WHERE_NOT_STATED)
    model_parallel = groups[0] * groups[1] * groups[2]
    accelerators = jobs.accelerators
    readers_or_missing = np.where(readers > 0, readers, np.nan)
    return np.column_stack(
        (
            accelerators,
            batch * trainers,
            batch / per_trainer,
            batch / (per_trainer * accumulation),
            readers / trainers,
            readers / accelerators,
            batch * trainers / readers_or_missing,
            batch * jobs.number("sequence_length") / per_trainer,
            model_parallel,
            accelerators / model_parallel,
        )
    )


_ONE_WHERE_NOT_STATED = ("gradient_accumulation", "tensor_parallel", "pipeline_parallel", "expert_parallel")


def _or_one(column: Floats) -> Floats:
    return np.where(np.isnan(column), 1.0, column)
