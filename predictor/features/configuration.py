"""Features of the launch configuration, as the launcher stated it."""

import numpy as np

from predictor.jobs import NUMBERS, Floats, Jobs

FEATURES: tuple[str, ...] = NUMBERS


def features(jobs: Jobs) -> Floats:
    """(n, len(FEATURES)) values; NaN is missing."""
    return np.asarray(jobs.numbers)
