"""One row per configuration: the repeats that a window holds of it, as their median and number; and their noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.structured.inputs import DAYS_PER_YEAR, YEARS, Inputs

#: Attempts of one configuration within so many days are repeats of one another: the fewest that leave `MOST` units.
DAYS = (1.0, 3.0, 10.0, 30.0)
MOST = 40_000


@dataclass(frozen=True)
class Replicates:
    """(n,) configurations with what was measured, in the order of the time of their last repeat.

    Attributes
    ----------
    y
        Median of the repeats.
    count
        Their number.
    of_row
        (rows,) configuration of each row.
    """

    points: Inputs
    y: Floats
    count: Floats
    of_row: Indices


def aggregate_replicates(points: Inputs, y: Floats) -> Replicates:
    """Gather rows of the same model type, hardware type, numbers and span of days."""
    numbers = np.round(np.delete(points.x, YEARS, axis=1), 6)
    configuration = group_codes(points.model, points.hardware, *numbers.T)
    day = np.floor(points.x[:, YEARS] * DAYS_PER_YEAR + 1e-6)
    for days in DAYS:
        of_row = group_codes(configuration, day // days)
        count = np.bincount(of_row)
        if len(count) <= MOST:
            break
    median = grouped_median(of_row, y, len(count))
    latest = np.full(len(count), -np.inf)
    np.maximum.at(latest, of_row, points.x[:, YEARS])
    order = np.argsort(latest, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    first = np.full(len(count), -1, dtype=np.intp)
    first[of_row[::-1]] = np.arange(len(of_row))[::-1]
    chosen = points.take(first[order])
    chosen.x[:, YEARS] = latest[order]
    return Replicates(chosen, median[order], count[order].astype(float), rank[of_row])


def group_codes(*columns: NDArray[Any]) -> Indices:
    """(n,) integers from 0, equal where every column is; far faster than unique rows."""
    combined = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        distinct, code = np.unique(column, return_inverse=True)
        combined = np.unique(combined * len(distinct) + code, return_inverse=True)[1]
    return combined


def grouped_median(group: Indices, values: Floats, groups: int) -> Floats:
    """(groups,) median of the values of each group; groups without values are NaN."""
    order = np.lexsort((values, group))
    ordered, count = values[order], np.bincount(group, minlength=groups)
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    low = np.minimum(start + np.maximum(count - 1, 0) // 2, len(values) - 1)
    high = np.minimum(start + count // 2, len(values) - 1)
    return np.where(count > 0, (ordered[low] + ordered[high]) / 2, np.nan)


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
