"""How near predictions come to what was measured."""

import msgspec
import numpy as np

from leap.predictor.features.batch import Floats


class Accuracy(msgspec.Struct, frozen=True):
    """Scores of predictions q̂ of measurements q, in percent but for `ratio`.

    Attributes
    ----------
    w20, w15, w10, w5
        Share with |q̂/q - 1| within so many percent.
    mdape
        Median of |q̂/q - 1|.
    ratio
        Median of q̂/q.
    """

    w20: float
    w15: float
    w10: float
    w5: float
    mdape: float
    ratio: float


def accuracy(predicted: Floats, measured: Floats) -> Accuracy:
    """Score predictions; the arrays are of one shape and not empty.

    >>> accuracy(np.array([1.0, 2.4, 3.0]), np.array([1.0, 2.0, 4.0])).w20
    66.66666666666666
    """
    ratio = predicted / measured
    error = np.abs(ratio - 1.0)
    within = {f"w{percent}": 100.0 * float(np.mean(error <= percent / 100 + 1e-12)) for percent in (20, 15, 10, 5)}
    return Accuracy(**within, mdape=100.0 * float(np.median(error)), ratio=float(np.median(ratio)))
