"""Features of the launch configuration, as the launcher stated it."""

import numpy as np

from leap.predictor.features.batch import NUMBERS, Floats, JobBatch
from leap.predictor.features.spec import Described

_UNITS = {"batch_size": "samples per step and trainer", "sequence_length": "tokens per sample"}
_FORMULAS = {"activation_checkpointing": "1 if stated and true, 0 if false"}
_ALWAYS = ("num_trainers", "accelerators_per_trainer")

#: The numbers of a launch configuration.
TABLE: dict[str, Described] = {
    name: Described(
        _FORMULAS.get(name, "as stated"), _UNITS.get(name, ""), "" if name in _ALWAYS else "where not stated"
    )
    for name in NUMBERS
}
FEATURES: tuple[str, ...] = tuple(TABLE)


def shape_text(num_trainers: float, accelerators_per_trainer: float, batch_size: float | None) -> str:
    """Text that is the same for jobs of one shape.

    >>> shape_text(2, 8, 256.0), shape_text(1, 0.5, None), shape_text(1, 1, float("nan"))
    ('2 x 8, batch 256', '1 x 0.5', '1 x 1')
    """
    batch = f", batch {batch_size:g}" if batch_size and batch_size > 0 else ""
    return f"{num_trainers:g} x {accelerators_per_trainer:g}{batch}"


def features(jobs: JobBatch) -> Floats:
    """(n, len(FEATURES)) values; NaN is missing."""
    return np.asarray(jobs.numbers)
