"""Accuracy within k percent, as every report, gate, bench and monitor counts it."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats

#: Slack of the edge: far above the rounding of a quotient or of exp(ln q), far below the resolution of a measurement.
EDGE = 1e-12


class Accuracy(msgspec.Struct, frozen=True):
    """Scores pooled over attempts, in percent but for `n` and `ratio`, rounded as reports show them.

    Attributes
    ----------
    n
        Attempts scored.
    w20, w10, w5
        Share of attempts with |predicted / measured - 1| within 20, 10, 5%.
    mdape
        Median of |predicted / measured - 1|.
    ratio
        Median of predicted / measured.
    coverage
        Share of all attempts that got a prediction.
    """

    n: int
    w20: float
    w10: float
    w5: float
    mdape: float
    ratio: float
    coverage: float = 100.0


def within(predicted: Floats, measured: Floats, percent: float) -> NDArray[np.bool_]:
    """Whether |predicted / measured - 1| is at most `percent`; the edge belongs to it, NaN does not.

    Parameters
    ----------
    predicted, measured
        (n,) samples/s; NaN is no prediction.

    Examples
    --------
    >>> within(np.array([120.0, 80.0, 120.1, np.nan]), np.full(4, 100.0), 20).tolist()
    [True, True, False, False]
    """
    inside: NDArray[np.bool_] = np.abs(predicted / measured - 1.0) <= percent / 100.0 + EDGE
    return inside


def accuracy(predicted: Floats, measured: Floats) -> Accuracy | None:
    """Score (n,) predictions in samples/s; one that is NaN is not covered and not scored. None if none is left.

    >>> accuracy(np.array([100.0, 118.0, np.nan, 150.0]), np.array([100.0, 100.0, 100.0, 100.0]))
    Accuracy(n=3, w20=66.7, w10=33.3, w5=33.3, mdape=18.0, ratio=1.18, coverage=75.0)
    """
    covered = ~np.isnan(predicted)
    if not covered.any():
        return None
    predicted, measured = predicted[covered], measured[covered]
    ratio = predicted / measured
    w20, w10, w5 = (round(100.0 * float(within(predicted, measured, percent).mean()), 1) for percent in (20, 10, 5))
    return Accuracy(
        n=len(ratio),
        w20=w20,
        w10=w10,
        w5=w5,
        mdape=round(100.0 * float(np.median(np.abs(ratio - 1.0))), 1),
        ratio=round(float(np.median(ratio)), 3),
        coverage=round(100.0 * float(covered.mean()), 1),
    )
