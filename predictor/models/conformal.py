"""Interval of a prediction, calibrated on rows that the model has not seen (split conformal prediction).

With n held-out residuals, the ceil((n + 1) · level)-th smallest of |y − mean| / spread covers the next row with
a probability of at least `level`, whatever the model (Lei et al. 2018, Distribution-Free Predictive Inference
for Regression). Rows are calibrated by group, since a family with history errs less than one without.
"""

import math
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

NOMINAL = 0.8
# With fewer rows the quantile of a group wavers by more than 10 points, and the group joins the others.
MIN_GROUP = 50
# In ln throughput: up to there its exponential is finite.
MAX_BOUND = 700.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Half widths of the interval, in ln throughput, or in predicted spreads where the model has a spread.

    Attributes
    ----------
    level
        Share of rows that the interval should cover.
    overall
        Half width over all held-out rows.
    groups
        Half width of each group that was calibrated by itself.
    """

    level: float
    overall: float
    groups: dict[str, float]

    def bounds(self, mean: Floats, spread: Floats | None, group: NDArray[np.str_]) -> tuple[Floats, Floats]:
        """Lower and upper bound of each row, in ln throughput.

        A row of a group that was not calibrated gets the widest interval: nothing is known of its errors.

        Parameters
        ----------
        mean, spread
            (rows,) prediction and its predicted standard deviation, given or not as in `calibrate`.
        group
            (rows,) group of each row.

        Examples
        --------
        >>> interval = Interval(0.8, overall=0.2, groups={"known": 0.1})
        >>> lower, upper = interval.bounds(np.array([2.0, 2.0]), None, np.array(["known", "new"]))
        >>> lower.tolist(), upper.tolist()
        ([1.9, 1.8], [2.1, 2.2])
        """
        widest = max(self.overall, *self.groups.values()) if self.groups else self.overall
        half = np.array([self.groups.get(name, widest) for name in group.tolist()])
        if spread is not None:
            half = half * spread
        return np.maximum(mean - half, -MAX_BOUND), np.minimum(mean + half, MAX_BOUND)


def calibrate(
    y: Floats, mean: Floats, spread: Floats | None, group: NDArray[np.str_], level: float = NOMINAL
) -> Interval:
    """Calibrate on held-out rows.

    Parameters
    ----------
    y, mean
        (rows,) measured and predicted ln throughput.
    spread
        (rows,) predicted standard deviation, positive, or None: then the interval has one width a group.
    group
        (rows,) what the prediction rests on.

    Raises
    ------
    ValueError
        There are too few rows for any interval of this level, or a spread is not positive.
    """
    if spread is not None and not (spread > 0).all():
        raise ValueError("a predicted spread is zero, negative or missing; the model must give a positive one")
    errors = np.abs(y - mean) if spread is None else np.abs(y - mean) / spread
    names, sizes = np.unique(group, return_counts=True)
    return Interval(
        level=level,
        overall=_quantile(errors, level),
        groups={
            str(name): _quantile(errors[group == name], level)
            for name, size in zip(names, sizes, strict=True)
            if size >= MIN_GROUP
        },
    )


def least_rows(level: float = NOMINAL) -> int:
    """Held-out rows that an interval of this level needs.

    >>> least_rows(), least_rows(0.9)
    (4, 9)
    """
    return next(rows for rows in count(1) if _rank(rows, level) <= rows)


def _rank(rows: int, level: float) -> int:
    return math.ceil((rows + 1) * level)


def _quantile(errors: Floats, level: float) -> float:
    rank = _rank(len(errors), level)
    if rank > len(errors):
        raise ValueError(f"{len(errors)} held-out rows are too few for an interval of {level:.0%}: hold out more")
    return float(np.partition(errors, rank - 1)[rank - 1])
