"""Exact history: what repeats of a job have reached, by keys from the most specific to the most general.

Every level gives two estimates, of its latest day and of all its days, each with the evidence that a gate weighs:
how many attempts, how far apart, how long ago. A level that is normalised keeps what the attempts reached beyond the
structured prior, so that it speaks for configurations that have not run.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.jobs import Floats, Indices
from predictor.kernel import Arrays, Rows
from predictor.snapshot import Hashes


@dataclass(frozen=True)
class Level:
    """Attempts that agree in these columns."""

    columns: tuple[str, ...]
    normalised: bool = False


_EXACT = ("hardware_type", "accelerators", "batch_size")
LEVELS: tuple[Level, ...] = (
    Level(("family", *_EXACT)),
    Level(("family", *_EXACT[:2])),
    Level(("model_type", *_EXACT)),
    Level(("model_type", *_EXACT[:2])),
    Level(("family", "hardware_type"), normalised=True),
    Level(("family",), normalised=True),
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
    """Statistics by level: (keys,) sorted hashes and (keys, 7) float32 in the order of `STATISTICS`."""

    hashes: tuple[Hashes, ...]
    statistics: tuple[NDArray[np.float32], ...]

    @classmethod
    def of(cls, rows: Rows, y: Floats, prior: Floats) -> "ExactHistory":
        """History of finished attempts.

        Parameters
        ----------
        y
            (n,) ln throughput.
        prior
            (n,) what the structured prior says of the same rows without their family.
        """
        day = np.floor(np.asarray(rows["day"], dtype=float))
        summed = [_summarise(_keys(rows, level), y - prior if level.normalised else y, day) for level in LEVELS]
        return cls(tuple(hashes for hashes, _ in summed), tuple(statistics for _, statistics in summed))

    def estimate(self, rows: Rows, prior: Floats) -> HistoryEstimate:
        """What history says of rows, given (n,) means of the structured prior."""
        day = np.asarray(rows["day"], dtype=float)
        found = [self._find(position, _keys(rows, level)) for position, level in enumerate(LEVELS)]
        means, counts, spreads, ages = [], [], [], []
        for level, statistics in zip(LEVELS, found, strict=True):
            for first in (0, 3):
                means.append(statistics[:, first] + (prior if level.normalised else 0.0))
                counts.append(statistics[:, first + 1])
                spreads.append(statistics[:, first + 2])
                ages.append(np.maximum(day - statistics[:, _DAY], 0.0))
        return HistoryEstimate(*(np.column_stack(parts) for parts in (means, counts, spreads, ages)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects."""
        stored: dict[str, NDArray[Any]] = {}
        for position, (hashes, statistics) in enumerate(zip(self.hashes, self.statistics, strict=True)):
            stored |= {f"hashes.{position}": hashes, f"statistics.{position}": statistics}
        return stored

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "ExactHistory":
        """The history that `arrays` describes."""
        levels = range(len(LEVELS))
        return cls(tuple(stored[f"hashes.{n}"] for n in levels), tuple(stored[f"statistics.{n}"] for n in levels))

    def _find(self, level: int, keys: Hashes) -> Floats:
        hashes, found = self.hashes[level], np.full((len(keys), len(STATISTICS)), np.nan)
        if len(hashes):
            place = np.minimum(np.searchsorted(hashes, keys), len(hashes) - 1)
            known = hashes[place] == keys
            found[known] = self.statistics[level][place[known]]
        return found


def _keys(rows: Rows, level: Level) -> Hashes:
    """(n,) hashes of the level's columns; 0 for a row without a family where the level asks for one."""
    keys = np.zeros(len(rows["day"]), dtype=np.uint64)
    for column in level.columns:
        keys = _mix(keys ^ _hash(np.asarray(rows[column])))
    if "family" in level.columns:
        keys[np.asarray(rows["family"], dtype=str) == ""] = 0
    return keys


def _hash(values: NDArray[Any]) -> Hashes:
    if values.dtype.kind in "biuf":
        return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    names, code = np.unique(values.astype(str), return_inverse=True)
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)[code]


def _mix(keys: Hashes) -> Hashes:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of a key depends on every other."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


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
