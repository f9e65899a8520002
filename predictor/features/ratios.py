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
    accumulation = np.nan_to_num(jobs.number("gradient_accumulation"), nan=1.0)
    model_parallel = np.ones(len(jobs))
    for group in ("tensor_parallel", "pipeline_parallel", "expert_parallel"):
        model_parallel = model_parallel * np.nan_to_num(jobs.number(group), nan=1.0)
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
