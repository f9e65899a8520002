"""Ratios and products of the configuration: what one accelerator gets to do."""

import numpy as np

from leap.predictor.features.batch import Floats, JobBatch
from leap.predictor.features.spec import Described

_UNSTATED = "where a term is not stated, or a divisor is 0"

#: Name to formula; b = batch_size (per trainer), a = accelerators_per_trainer, t = num_trainers.
TABLE: dict[str, Described] = {
    "accelerators": Described("t a"),
    "total_batch": Described("b t", "samples", _UNSTATED),
    "batch_per_accelerator": Described("b / a", "samples", _UNSTATED),
    "micro_batch": Described("b / (a gradient_accumulation), 1 where not stated", "samples", _UNSTATED),
    "readers_per_trainer": Described("data_readers / t", "", _UNSTATED),
    "readers_per_accelerator": Described("data_readers / (t a)", "", _UNSTATED),
    "samples_per_reader": Described("b t / data_readers", "samples", _UNSTATED),
    "tokens_per_accelerator": Described("b sequence_length / a", "tokens", _UNSTATED),
    "model_parallel": Described("tensor_parallel pipeline_parallel expert_parallel, each 1 where not stated"),
    "model_replicas": Described("t a / model_parallel"),
}
FEATURES: tuple[str, ...] = tuple(TABLE)


def features(jobs: JobBatch) -> Floats:
    """(n, len(FEATURES)) values; NaN where a term is missing or a divisor is zero."""
    trainers = jobs.number("num_trainers")
    per_trainer = jobs.number("accelerators_per_trainer")
    batch = jobs.number("batch_size")
    readers = jobs.number("data_readers")
    or_one = np.array([jobs.number(name) for name in _ONE_WHERE_NOT_STATED])
    np.copyto(or_one, 1.0, where=np.isnan(or_one))
    accumulation, tensor, pipeline, expert = or_one
    model_parallel = tensor * pipeline * expert
    accelerators = trainers * per_trainer
    readers_or_missing = np.where(readers > 0, readers, np.nan)
    return np.array(
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
    ).T


_ONE_WHERE_NOT_STATED = ("gradient_accumulation", "tensor_parallel", "pipeline_parallel", "expert_parallel")
