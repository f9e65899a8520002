"""Which rows a night learns from and which it is judged on, relative to its date."""

from dataclasses import dataclass
from datetime import date, timedelta

import pandas as pd

from predictor.features.history import SECONDS_PER_DAY
from predictor.jobs import HardwareTable
from retrainer.partitions import Partitions, day_number
from retrainer.table import log_target
from retrainer.training import Data, prepare
from retrainer.twin import Twin

#: Attempts that the held-out days must have together; a quiet day takes the day before it along.
LEAST_HELD_OUT = 200
#: Columns that running statistics need of a day before the window.
_HISTORY_COLUMNS = ["family", "hardware_type", "model_type", "finished_at"]


class NothingToLearn(ValueError):
    """The window has too few attempts; the text says what was found and what to do."""


@dataclass(frozen=True)
class Window:
    """Rows of one night.

    Attributes
    ----------
    first, last
        First day, and the day before the night.
    missing
        Days of the window without a partition.
    training, held_out
        Attempts submitted before and on the held-out days.
    twin
        Offline statistics over everything that finished by `last`.
    """

    first: date
    last: date
    missing: tuple[date, ...]
    training: Data
    held_out: Data
    twin: Twin


def open_window(partitions: Partitions, night: date, days: int, table: HardwareTable, target: str) -> Window:
    """Read the `days` days before `night`, with their history as known at each launch.

    Raises
    ------
    NothingToLearn
        If there are too few attempts to train on and to judge by.
    """
    first, last = night - timedelta(days=days), night - timedelta(days=1)
    present = partitions.days()
    wanted = [first + timedelta(days=offset) for offset in range(days)]
    rows = partitions.read(day for day in present if first <= day <= last)
    twin = _twin(partitions, [day for day in present if day < first], rows, target)
    data = prepare(rows, table, twin, target)
    start = _held_out_from(data, night)
    training, held_out = data.where(data.submitted_day < start), data.where(data.submitted_day >= start)
    if not len(training) or not len(held_out):
        raise NothingToLearn(
            f"{len(data)} attempts with a positive {target} from {first} to {last}, {len(held_out)} of them held out: "
            "nothing to train on. Check `leap worker joiner`, or widen the window with --window"
        )
    return Window(first, last, tuple(day for day in wanted if day not in present), training, held_out, twin)


def _twin(partitions: Partitions, earlier: list[date], rows: pd.DataFrame, target: str) -> Twin:
    measured = f"measured_{target}"
    before = partitions.read(earlier, columns=[*_HISTORY_COLUMNS, measured]) if earlier else rows.iloc[:0]
    everything = pd.concat([before, rows], ignore_index=True)
    return Twin(everything, log_target(everything, target))


def _held_out_from(data: Data, night: date) -> int:
    """First held-out day: the latest days that together have enough attempts, at most a fifth of all."""
    enough = min(LEAST_HELD_OUT, len(data) // 5)
    start = day_number(night) - 1
    if len(data):
        start = min(start, int(data.rows["submitted_at"].max() // SECONDS_PER_DAY))
    while int((data.submitted_day >= start).sum()) < enough:
        start -= 1
    return start
