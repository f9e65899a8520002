"""Point-in-time recomputation of the running statistics: what a snapshot held at the end of each day.

A training row must see what serving would have seen: the snapshot published before its launch, that is all
that finished by the end of the day before, and not a running value that already holds its own day.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.features.history import KINDS, SECONDS_PER_DAY, STATISTICS, Statistics, pooled
from leap.predictor.history.snapshot import PER_ACCELERATOR_MARK, Snapshot
from leap.predictor.history.sorted_hashes import Hashes, locate
from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.statistics_array import Records

Ints = NDArray[np.int64]
#: Columns that make up a key of each kind.
COLUMNS: dict[str, tuple[str, ...]] = {
    "family": ("family",),
    "family_hardware": ("family", "hardware_type"),
    "model_type": ("model_type",),
}
#: Columns that the statistics are made of, beside the target.
REQUIRED_COLUMNS: tuple[str, ...] = ("family", "hardware_type", "model_type", "finished_at", "stated_accelerators")
_MARK = np.uint64(PER_ACCELERATOR_MARK)


class PointInTimeStatistics:
    """Statistics of finished attempts, by the day on which they finished.

    Parameters
    ----------
    rows
        Attempts with the columns of `REQUIRED_COLUMNS`.
    y
        (n,) ln of the target; rows without one do not count.
    before
        Statistics of what finished before the first of them.
    """

    def __init__(self, rows: pd.DataFrame, y: Floats, before: Records = statistics_array.NONE) -> None:
        records, last = statistics_array.cumulative_merge(np.concatenate([before, observations(rows, y)]))
        day = _day(records["last_at"])
        ends = last | np.r_[day[1:] != day[:-1], last[-1:]]
        self._records, day = records[ends], day[ends]
        self._keys, code = np.unique(self._records["key"], return_inverse=True)
        self._first_day = int(day.min()) if len(day) else 0
        self._days = int(day.max()) - self._first_day + 1 if len(day) else 1
        self._key_day: Ints = code.astype(np.int64) * self._days + (day - self._first_day)
        self._statistics = statistics_array.statistics(self._records)

    def at_launch(self, rows: pd.DataFrame) -> dict[str, Statistics]:
        """Kind to (n, 5) statistics as known when each row was submitted; NaN is no history."""
        return self._history(rows, _day(rows["submitted_at"].to_numpy(float)) - 1)

    def at_the_end(self, rows: pd.DataFrame) -> dict[str, Statistics]:
        """As `at_launch`, as if each row was submitted after all that has finished."""
        return self._history(rows, np.full(len(rows), self._first_day + self._days))

    def _history(self, rows: pd.DataFrame, day: Ints) -> dict[str, Statistics]:
        """Statistics at the end of the (n,) day of each row."""
        accelerators = (rows["num_trainers"] * rows["accelerators_per_trainer"]).to_numpy(float)
        history = {}
        for kind in KINDS:
            hashes = _hashes(rows, kind)
            plain, per_accelerator = (self._at(keys, day) for keys in (hashes, hashes ^ _MARK))
            history[kind] = pooled(plain, per_accelerator, accelerators)
        return history

    def records(self, day: int) -> Records:
        """Statistics at the end of `day` (days since the epoch)."""
        position = self._find(self._keys, np.full(len(self._keys), day))
        records: Records = self._records[position[position >= 0]]
        return records

    def snapshot(self, day: int) -> Snapshot:
        """The snapshot at the end of `day` (days since the epoch)."""
        return statistics_array.snapshot(self.records(day))

    def _at(self, keys: Hashes, day: Ints) -> Statistics:
        """(n, 5) statistics of keys at the end of a day; NaN where there are none."""
        position = self._find(keys, day)
        found = np.full((len(keys), len(STATISTICS)), np.nan, dtype=np.float32)
        found[position >= 0] = self._statistics[position[position >= 0]]
        return found

    def _find(self, keys: Hashes, day: Ints) -> Ints:
        """(n,) position of the record of a key at the end of a day; -1 where there is none."""
        if not len(self._key_day):
            return np.full(len(keys), -1)
        code, present = locate(self._keys, keys)
        wanted = code * self._days + np.minimum(day - self._first_day, self._days - 1)
        position = np.searchsorted(self._key_day, wanted, side="right") - 1
        known = present & (day >= self._first_day) & (position >= 0)
        known &= self._key_day[np.maximum(position, 0)] // self._days == code
        return np.where(known, position, -1)


def observations(rows: pd.DataFrame, y: Floats) -> Records:
    """One record an attempt with a target and key; per accelerator where its completion states the shape."""
    usable = ~np.isnan(y)
    rows, y = rows[usable], y[usable]
    finished_at = rows["finished_at"].to_numpy(float)
    accelerators = rows["stated_accelerators"].to_numpy(float)
    stated = ~np.isnan(accelerators)
    y, mark = np.where(stated, y - np.log(accelerators), y), np.where(stated, _MARK, np.uint64(0))
    family = _hashes(rows, "family")
    of_family = {"family": family, "family_hardware": family, "model_type": np.zeros_like(family)}
    return np.concatenate(
        [statistics_array.observed(_hashes(rows, kind) ^ mark, of_family[kind], y, finished_at) for kind in KINDS]
    )


def _day(time: Floats) -> Ints:
    return np.floor(time / SECONDS_PER_DAY).astype(np.int64)


def _hashes(rows: pd.DataFrame, kind: str) -> Hashes:
    return statistics_array.hashes(kind, *(rows[name] for name in COLUMNS[kind]))
