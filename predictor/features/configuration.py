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


def features(jobs: JobBatch) -> Floats:
    """(n, len(FEATURES)) values; NaN is missing."""
    return np.asarray(jobs.numbers)
