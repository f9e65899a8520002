"""Statistics of what finished before a window, carried from night to night.

A window moves on by a day a night: the day that leaves it is merged into the statistics that the night before
kept. So history outlives the partitions, and a night reads little more than its window.
"""

from datetime import date
from io import BytesIO

import numpy as np

from retrainer import states
from retrainer.partitions import Partitions, day_number, day_of
from retrainer.states import RECORD, Records
from retrainer.table import MEASURED, log_target
from retrainer.twin import NEEDED, observations

#: Nights whose statistics are kept, so that each of them can be run again.
KEPT = 7


class Carried:
    """Statistics of one target, in ``statistics/<target>/before=YYYY-MM-DD.npz`` beside the partitions.

    Each file says which partitions it was made of and how long they were. One that has changed since, because
    attempts came weeks late, makes the file stale: it is made again from the one before. What comes later than
    the oldest file reaches is not counted.
    """

    def __init__(self, partitions: Partitions, target: str) -> None:
        self._partitions = partitions
        self._target = target

    def before(self, first: date) -> Records:
        """Statistics of all attempts that finished before a day; keeps them for the nights to come."""
        present = {day: size for day, size in self._partitions.sizes().items() if day < first}
        reach, records = self._newest(first, present)
        for day in sorted(day for day in present if day >= reach):
            rows = self._partitions.read([day], columns=[*NEEDED, MEASURED + self._target])
            records = states.merged([records, observations(rows, log_target(rows, self._target))])
        if reach != first and len(records):
            self._write(first, records, present)
        return records

    def _newest(self, first: date, present: dict[date, int]) -> tuple[date, Records]:
        """The latest kept statistics that hold, and the day that they reach to."""
        kept = [day for day in self._days() if day <= first]
        for day in reversed(kept):
            records, made_of = self._read(day)
            if {other: size for other, size in present.items() if kept[0] <= other < day}.items() <= made_of.items():
                return day, records
        return date.min, states.NONE

    def _days(self) -> list[date]:
        names = self._partitions.files.names(self._name("*"))
        return [date.fromisoformat(name.rsplit("before=", 1)[1].removesuffix(".npz")) for name in names]

    def _read(self, day: date) -> tuple[Records, dict[date, int]]:
        with np.load(BytesIO(self._partitions.files.read(self._name(day.isoformat()))), allow_pickle=False) as arrays:
            records = arrays["records"].astype(RECORD, copy=False)
            return records, {day_of(int(day)): int(size) for day, size in arrays["made_of"]}

    def _write(self, day: date, records: Records, made_of: dict[date, int]) -> None:
        sizes = np.array([(day_number(other), size) for other, size in made_of.items()], np.int64).reshape(-1, 2)
        buffer = BytesIO()
        np.savez(buffer, records=records, made_of=sizes)
        self._partitions.files.write(self._name(day.isoformat()), buffer.getvalue())
        for old in self._days()[:-KEPT]:
            self._partitions.files.remove(self._name(old.isoformat()))

    def _name(self, day: str) -> str:
        return f"statistics/{self._target}/before={day}.npz"
