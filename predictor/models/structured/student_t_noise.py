"""Noise with heavy tails: a few measurements are far off, and must not bend what is near them."""

import numpy as np

from leap.predictor.features.batch import Floats

#: Degrees of freedom of Student's t distribution.
FREEDOM = 3.0


def student_t_reweight(base: Floats, square: Floats) -> Floats:
    """(n,) variances of the noise of each measurement, given its expected square: one step of expectation-maximisation.

    Parameters
    ----------
    base
        (n,) variances if nothing is far off.
    square
        (n,) expected squares of the noise under the variances of the step before.
    """
    return np.asarray(base * np.clip((FREEDOM + square / base) / (FREEDOM + 1.0), 0.5, 1e4))
