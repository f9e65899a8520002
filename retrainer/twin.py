"""The offline twin of the running statistics: what a snapshot held at the end of each day.

A training row must see what serving would have seen: the snapshot published before its launch, that is all
that finished by the end of the day before, and not a running value that already holds its own day.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from predictor.features.history import KINDS, SECONDS_PER_DAY, STATISTICS, Statistics
from predictor.jobs import Floats
from predictor.snapshot import Snapshot, key_hash

Ints = NDArray[np.int64]
#: Columns that make up a key of each kind.
COLUMNS: dict[str, tuple[str, ...]] = {
    "family": ("family",),
    "family_hardware": ("family", "hardware_type"),
    "model_type": ("model_type",),
}


@dataclass(frozen=True)
class _States:
    """Statistics of the keys of one kind at the end of each day on which they changed, by key and day."""

    keys: pd.Index
    place: Ints  # key x days + day, ascending
    days: int
    first_day: int
    statistics: Floats

    def at_end_of(self, key: Ints, day: Ints) -> Statistics:
        """(n, 5) state of `key` at the end of `day`; NaN where it had none. Key -1 is unknown."""
        rows = np.full((len(key), len(STATISTICS)), np.nan, dtype=np.float32)
        if not len(self.place):
            return rows
        wanted = key * self.days + np.clip(day - self.first_day, -1, self.days - 1)
        found = np.searchsorted(self.place, wanted, side="right") - 1
        known = (found >= 0) & (key >= 0) & (day >= self.first_day)
        known &= self.place[np.maximum(found, 0)] // self.days == key
        rows[known] = self.statistics[found[known]]
        return rows


class Twin:
    """Statistics of finished attempts, by the day on which they finished.

    Parameters
    ----------
    rows
        Attempts with ``finished_at`` and the columns of `COLUMNS`.
    y
        (n,) ln of the target; rows without one do not count.
    """

    def __init__(self, rows: pd.DataFrame, y: Floats) -> None:
        usable = ~np.isnan(y)
        rows, y = rows[usable], y[usable]
        self._states = {kind: _states(_index(rows, kind), rows["finished_at"].to_numpy(float), y) for kind in KINDS}

    def at_launch(self, rows: pd.DataFrame) -> dict[str, Statistics]:
        """Kind to (n, 5) statistics as known when each row was submitted."""
        yesterday = _day(rows["submitted_at"].to_numpy(float)) - 1
        return {
            kind: states.at_end_of(states.keys.get_indexer(_index(rows, kind)), yesterday)
            for kind, states in self._states.items()
        }

    def snapshot(self, day: int) -> Snapshot:
        """The snapshot at the end of `day` (days since the epoch)."""
        hashes: list[int] = []
        blocks = []
        for kind, states in self._states.items():
            keys = np.arange(len(states.keys), dtype=np.int64)
            found = states.at_end_of(keys, np.full(len(keys), day))
            known = ~np.isnan(found[:, 0])
            names = states.keys[known]
            hashes += [key_hash(kind, *(name if isinstance(name, tuple) else (name,))) for name in names]
            blocks.append(found[known])
        return Snapshot.of(np.array(hashes, dtype=np.uint64), np.concatenate(blocks))


def _day(at: Floats) -> Ints:
    return np.floor(at / SECONDS_PER_DAY).astype(np.int64)


def _index(rows: pd.DataFrame, kind: str) -> pd.Index:
    columns = COLUMNS[kind]
    index: pd.Index
    if len(columns) == 1:
        index = pd.Index(rows[columns[0]].to_numpy(dtype=object))
    else:
        index = pd.MultiIndex.from_frame(rows[list(columns)].astype(object))
    return index


def _states(index: pd.Index, at: Floats, y: Floats) -> _States:
    """Cumulate over the days of every key at once.

    Sums are taken of y minus the key's mean over all days, which keeps them as exact as Welford's updates:
    what is squared is a difference, never y itself.
    """
    codes, keys = pd.factorize(index)
    day = _day(at)
    first_day = int(day.min()) if len(day) else 0
    days = int(day.max()) - first_day + 1 if len(day) else 1
    order = np.lexsort((y, at, codes))
    code, y, at, day = codes[order].astype(np.int64), y[order], at[order], day[order]
    place = code * days + (day - first_day)
    ends = np.flatnonzero(np.r_[place[1:] != place[:-1], True]) if len(place) else np.zeros(0, np.intp)
    starts = np.searchsorted(code, np.arange(len(keys)))
    center = np.bincount(code, y, len(keys)) / np.maximum(np.bincount(code, minlength=len(keys)), 1)
    difference = y - center[code]
    count = np.arange(1, len(y) + 1) - starts[code]
    total = _running(difference, starts, code)
    squares = _running(difference**2, starts, code)
    variance = np.maximum(squares - total**2 / count, 0.0) / np.maximum(count - 1, 1)
    deviation = np.where(count > 1, np.sqrt(variance), np.nan)
    statistics = np.column_stack((count, center[code] + total / count, deviation, y, at / SECONDS_PER_DAY))
    return _States(keys, place[ends], days, first_day, statistics[ends])


def _running(values: Floats, starts: NDArray[np.intp], code: Ints) -> Floats:
    """Cumulative sum that starts anew at each key."""
    total = np.cumsum(values)
    before = np.where(starts > 0, total[np.maximum(starts - 1, 0)], 0.0) if len(total) else np.zeros(len(starts))
    return np.asarray(total - before[code])
