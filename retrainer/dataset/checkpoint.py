"""Checkpoint of the statistics of what finished before a window, carried from one nightly run to the next.

A window moves on by a day a night: the day that leaves it is merged into the statistics that the night before
kept. So history outlives the partitions, and a night reads little more than its window.
"""

from datetime import date
from io import BytesIO

import numpy as np

from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.feature_table import MEASURED, log_target
from leap.retrainer.dataset.partitions import Partitions, day_number, day_of
from leap.retrainer.dataset.point_in_time import REQUIRED_COLUMNS, observations
from leap.retrainer.dataset.statistics_array import STATISTICS_DTYPE, Records

#: Nights of each length of window whose statistics are kept, so that each of them can be run again.
KEPT = 7


class StatisticsCheckpoint:
    """Statistics of one target, in ``statistics/<target>/window=<days>/before=YYYY-MM-DD.npz`` beside the partitions.

    The length is ``auto`` where it follows from the partitions: those windows begin later from night to night too.

    Each file says which partitions it was made of and how long they were. One that has changed since, because
    attempts came weeks late, makes the file stale: it is made again from the one before. A day before the oldest file
    that comes anew, from a backfill, is added; what comes later than the oldest file reaches to a day that was there is
    not counted. Files of all windows are read, but only those of the same length give way
    to newer ones: nights with a shorter window begin later, and would drive out what longer ones need.
    """

    def __init__(self, partitions: Partitions, target: str, window_days: int | None) -> None:
        self._partitions = partitions
        self._target = target
        self._window = "auto" if window_days is None else window_days

    def before(self, first: date) -> Records:
        """Statistics of all attempts that finished before a day; keeps them for the nights to come."""
        present = {day: size for day, size in self._partitions.sizes().items() if day < first}
        reach, records, new = self._newest(first, present)
        for day in [*new, *sorted(day for day in present if day >= reach)]:
            rows = self._partitions.read([day], columns=[*REQUIRED_COLUMNS, MEASURED + self._target])
            records = statistics_array.merged([records, observations(rows, log_target(rows, self._target))])
        if (new or reach != first) and len(records):
            self._write(first, records, present)
        return records

    def _newest(self, first: date, present: dict[date, int]) -> tuple[date, Records, list[date]]:
        """The day that the latest kept statistics that hold reach to, those, and earlier days that they lack."""
        kept = [(day, name) for day, name in self._kept("*") if day <= first]
        for day, name in reversed(kept):
            records, made_of = self._read(name)
            if {other: size for other, size in present.items() if kept[0][0] <= other < day}.items() <= made_of.items():
                return day, records, sorted(other for other in present if other < kept[0][0] and other not in made_of)
        return date.min, statistics_array.NONE, []

    def _kept(self, window: object) -> list[tuple[date, str]]:
        """Days and names of the files, in order."""
        names = self._partitions.files.names(self._name(window, "*"))
        return sorted((date.fromisoformat(name.rsplit("before=", 1)[1].removesuffix(".npz")), name) for name in names)

    def _read(self, name: str) -> tuple[Records, dict[date, int]]:
        with np.load(BytesIO(self._partitions.files.read(name)), allow_pickle=False) as arrays:
            records = arrays["records"].astype(STATISTICS_DTYPE, copy=False)
            return records, {day_of(int(day)): int(size) for day, size in arrays["made_of"]}

    def _write(self, day: date, records: Records, made_of: dict[date, int]) -> None:
        sizes = np.array([(day_number(other), size) for other, size in made_of.items()], np.int64).reshape(-1, 2)
        buffer = BytesIO()
        np.savez(buffer, records=records, made_of=sizes)
        self._partitions.files.write(self._name(self._window, day.isoformat()), buffer.getvalue())
        for _, old in self._kept(self._window)[:-KEPT]:
            self._partitions.files.remove(old)

    def _name(self, window: object, day: str) -> str:
        return f"statistics/{self._target}/window={window}/before={day}.npz"
