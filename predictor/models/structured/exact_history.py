"""Exact history: what repeats of a job have reached, by keys from the most specific to the most general.

Every level gives two estimates, of its latest day and of all its days, each with the evidence that a gate weighs:
how many attempts, how far apart, how long ago.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices, Rows
from leap.predictor.history.hash_index import Keys
from leap.predictor.history.key_table import KeyTable
from leap.predictor.history.sorted_hashes import Hashes
from leap.predictor.models.arrays import Arrays

#: Columns in which the attempts of a level agree.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("family", "hardware_type", "configuration"),
    ("family", "hardware_type", "accelerators"),
    ("model_type", "hardware_type", "accelerators", "batch_size"),
    ("model_type", "hardware_type", "accelerators"),
)
#: Most keys of a level; the most recent stay.
MAX_KEYS = 250_000
#: Statistics of one key: of its latest day, then of all its days.
STATISTICS: tuple[str, ...] = ("median", "count", "spread", "median_all", "count_all", "spread_all", "day")
_DAY = STATISTICS.index("day")


@dataclass(frozen=True)
class HistoryEstimate:
    """Estimates of (n,) rows by (e,) experts: latest day and all days of each level in turn; NaN where there is none.

    Attributes
    ----------
    mean
        (n, e) ln throughput.
    count
        (n, e) attempts.
    spread
        (n, e) interquartile range of ln throughput.
    age
        (n, e) days since the latest.
    """

    mean: Floats
    count: Floats
    spread: Floats
    age: Floats


@dataclass(frozen=True)
class ExactHistory:
    """`STATISTICS` by the keys of `LEVELS`."""

    table: KeyTable

    @classmethod
    def of(cls, rows: Rows, y: Floats) -> "ExactHistory":
        """History of finished attempts with (n,) ln throughput."""
        day = np.floor(np.asarray(rows["day"], dtype=float))
        keys = Keys.from_rows(rows)
        return cls(KeyTable.of([_summarise(keys.of(columns), y, day) for columns in LEVELS]))

    def estimate(self, day: Floats, keys: Keys) -> HistoryEstimate:
        """What history says of rows, given their (n,) day and their keys."""
        statistics = self.table.find([keys.of(columns) for columns in LEVELS], missing=np.nan).transpose(2, 1, 0)
        experts = np.empty((3, len(day), len(LEVELS), 2))
        experts[..., 0], experts[..., 1] = statistics[:3], statistics[3:6]
        mean, count, spread = experts.reshape(3, len(day), 2 * len(LEVELS))
        age = np.maximum(day[:, None] - statistics[_DAY], 0.0).repeat(2, axis=1)
        return HistoryEstimate(mean, count, spread, age)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects."""
        return {"hashes": self.table.hashes, "values": self.table.values}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "ExactHistory":
        """The history that `arrays` describes."""
        if "hashes.0" in stored:  # as artifacts had them before
            levels = range(len(LEVELS))
            return cls(KeyTable.of([(stored[f"hashes.{n}"], stored[f"statistics.{n}"]) for n in levels]))
        return cls(KeyTable.from_arrays(stored["hashes"], stored["values"], len(STATISTICS)))


def _summarise(keys: Hashes, values: Floats, day: Floats) -> tuple[Hashes, NDArray[np.float32]]:
    kept = np.flatnonzero((keys != 0) & np.isfinite(values))
    keys, values, day = keys[kept], values[kept], day[kept]
    hashes, code = np.unique(keys, return_inverse=True)
    latest = np.full(len(hashes), -np.inf)
    np.maximum.at(latest, code, day)
    recent = day == latest[code]
    statistics = np.column_stack(
        (
            *_quartiles(code[recent], values[recent], len(hashes)),
            *_quartiles(code, values, len(hashes)),
            latest,
        )
    )
    newest = np.sort(np.argsort(-latest, kind="stable")[:MAX_KEYS])
    return hashes[newest], statistics[newest].astype(np.float32)


def _quartiles(group: Indices, values: Floats, groups: int) -> tuple[Floats, Floats, Floats]:
    """(groups,) median, count and interquartile range of the values of each group, none of them empty."""
    ordered = values[np.lexsort((values, group))]
    count = np.bincount(group, minlength=groups)
    start = np.concatenate(([0], np.cumsum(count)[:-1])) if groups else np.zeros(0, dtype=int)

    def quantile(share: float) -> Floats:
        position = start + share * (count - 1)
        low = np.floor(position).astype(int)
        high = np.ceil(position).astype(int)
        return np.asarray(ordered[low] + (position - low) * (ordered[high] - ordered[low]))

    return quantile(0.5), count.astype(float), quantile(0.75) - quantile(0.25)
