"""Running mean, variance and latest value of a stream, without keeping it.

B. P. Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 4
(1962); merging after T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample
variance", The American Statistician 37 (1983).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

#: Largest size of a value: its square, and the sum of 2^53 squares, stay finite.
MAX_VALUE = 1e140


class Statistics(NamedTuple):
    """What is known of the values seen so far.

    Attributes
    ----------
    n
        How many they are.
    mean
        Their mean; 0 when there are none.
    m2
        Sum of their squared differences from the mean, never negative.
    last
        The value at the greatest event time, and the greatest of those where several share it: so the order
        of arrival does not matter. NaN when there are none.
    last_at
        That event time, in seconds since the epoch; minus infinity when there are none.

    Examples
    --------
    >>> seen = EMPTY
    >>> for value, at in ((2.0, 10.0), (4.0, 30.0), (9.0, 20.0)):
    ...     seen = update(seen, value, at)
    >>> seen.n, seen.mean, seen.variance, seen.last
    (3, 5.0, 13.0, 4.0)
    """

    n: int
    mean: float
    m2: float
    last: float
    last_at: float

    @property
    def variance(self) -> float:
        """Sample variance, m2 / (n - 1); NaN for fewer than two values."""
        return self.m2 / (self.n - 1) if self.n > 1 else math.nan

    @property
    def deviation(self) -> float:
        """Sample standard deviation; NaN for fewer than two values."""
        return math.sqrt(self.variance) if self.n > 1 else math.nan


EMPTY = Statistics(0, 0.0, 0.0, math.nan, -math.inf)


def update(statistics: Statistics, value: float, time: float) -> Statistics:
    """Add one value, measured at the event time `time`.

    Raises
    ------
    ValueError
        If the value or its time is not finite, or the value is beyond `MAX_VALUE`.
    """
    check(value, time)
    n = statistics.n + 1
    difference = value - statistics.mean
    mean = statistics.mean + difference / n
    m2 = statistics.m2 + max(0.0, difference * (value - mean))
    last_at, last = _later(statistics, time, value)
    return Statistics(n, mean, m2, last, last_at)


def merge(a: Statistics, b: Statistics) -> Statistics:
    """Statistics of the values of both; those of nothing change nothing.

    Examples
    --------
    >>> merge(EMPTY, EMPTY) is EMPTY
    True
    >>> merge(of([1.0, 2.0], [1, 2]), of([6.0], [3])).mean
    3.0
    """
    if not b.n:
        return a
    if not a.n:
        return b
    n = a.n + b.n
    difference = b.mean - a.mean
    mean = a.mean + difference * b.n / n
    m2 = a.m2 + b.m2 + difference * difference * a.n * b.n / n
    last_at, last = _later(a, b.last_at, b.last)
    return Statistics(n, mean, m2, last, last_at)


def of(values: ArrayLike, ats: ArrayLike) -> Statistics:
    """Statistics of a whole batch.

    Parameters
    ----------
    values, ats
        (n,) values and their event times.

    Raises
    ------
    ValueError
        As `update`, or if the two differ in length.
    """
    value, time = np.asarray(values, dtype=np.float64), np.asarray(ats, dtype=np.float64)
    if value.ndim != 1 or value.shape != time.shape:
        raise ValueError(f"one event time for each value is expected, not {time.shape} for {value.shape}")
    if not len(value):
        return EMPTY
    check(float(np.abs(value).max()), float(np.abs(time).max()))
    mean = float(value.mean())
    difference = value - mean
    # The mean is rounded, so the differences do not quite sum to zero: the second term takes that out.
    m2 = max(0.0, float(difference @ difference) - float(difference.sum()) ** 2 / len(value))
    last_at = float(time.max())
    return Statistics(len(value), mean, m2, float(value[time == last_at].max()), last_at)


def check(value: float, time: float) -> None:
    """Refuse what must never reach a running statistic: one NaN would stay in it for ever.

    Raises
    ------
    ValueError
        If one of them is not finite, or the value is beyond `MAX_VALUE`.
    """
    if not (-MAX_VALUE <= value <= MAX_VALUE and math.isfinite(time)):
        raise ValueError(f"value {value} at time {time}: a finite value of at most {MAX_VALUE} is expected")


def _later(statistics: Statistics, time: float, value: float) -> tuple[float, float]:
    return max((statistics.last_at, statistics.last), (time, value))
