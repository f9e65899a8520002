"""What is no part of the suite."""

collect_ignore = ["record_traces.py"]  # needs PyTorch
