"""What is no part of the suite."""

collect_ignore = ["record_traces.py", "record_hf_traces.py"]  # need PyTorch
