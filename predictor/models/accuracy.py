"""Accuracy within k percent, as every report, gate, bench and monitor counts it."""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Names

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


def share_interval(inside: NDArray[np.bool_], group: Names) -> tuple[float, float]:
    """95% interval of a share, in percent: Wilson's, of as many independent attempts as the groups are worth.

    Attempts of one group err together, so (n,) of them say less than n: n is divided by the design effect, the variance
    of the share over groups to that of a binomial (Kish, Survey Sampling, 1965). Where all are inside, or none, a group
    counts as one.

    >>> [round(bound, 1) for bound in share_interval(np.array([True] * 8 + [False] * 2), np.arange(10))]
    [49.0, 94.3]
    >>> [round(bound, 1) for bound in share_interval(np.ones(10, dtype=bool), np.repeat([0, 1], 5))]
    [34.2, 100.0]
    """
    share, (_, code) = float(inside.mean()), np.unique(group, return_inverse=True)
    binomial, count = share * (1 - share) / len(inside), float(code.max() + 1)
    if binomial > 0:
        between = float(np.square(np.bincount(code, inside - share)).sum()) / len(inside) ** 2
        count = max(1.0, len(inside) * min(1.0, binomial / between)) if between > 0 else float(len(inside))
    squared = 1.959964**2
    centre = (share + squared / (2 * count)) / (1 + squared / count)
    half = math.sqrt(squared * (share * (1 - share) / count + squared / (4 * count**2))) / (1 + squared / count)
    return 100 * max(0.0, centre - half), 100 * min(1.0, centre + half)
