"""Which rows a nightly run trains on and which it is judged on, relative to its date."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import HardwareTable
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.history.definitions import Definitions
from leap.predictor.models.conformal import least_rows
from leap.retrainer.dataset.checkpoint import StatisticsCheckpoint
from leap.retrainer.dataset.feature_table import MEASURED, log_target
from leap.retrainer.dataset.partitions import Partitions, day_number
from leap.retrainer.dataset.point_in_time import REQUIRED_COLUMNS, PointInTimeStatistics
from leap.retrainer.dataset.statistics_array import Records
from leap.retrainer.dataset.training_set import TrainingSet, build_training_set
from leap.retrainer.night.anomaly_checks import unusual_gaps, window_anomalies
from leap.schemas.errors import LeapError
from leap.schemas.hardware import Catalog

Mask = NDArray[np.bool_]

#: A window has so many days, and more of them while it has fewer attempts.
LEAST_DAYS = 30
ENOUGH_ATTEMPTS = 100_000
#: Attempts that the held-out days must have together; a quiet day takes the day before it along.
LEAST_HELD_OUT = 200
#: Attempts without which there is no night: those that an interval needs, and one to train on.
LEAST_ATTEMPTS = least_rows() + 1


class NothingToLearn(LeapError, ValueError):
    """The window has too few attempts; the text says what was found and what to do."""


@dataclass(frozen=True)
class Window:
    """Rows of one nightly run.

    Attributes
    ----------
    first, last
        First day, and the day before the night.
    missing
        Days of the window without a partition.
    anomalies
        Why its rows are not to be trusted, if they are not.
    training, held_out
        Attempts that had finished before the first held-out one could be launched, and those held out.
    unseen
        All that training did not see: the held-out, and those that were still running then.
    statistics
        Point-in-time statistics over everything that has finished.
    catalog
        With an entry for every type that ran and whose chip is listed only in another form or memory size.
    definitions
        Of every model type, as known after the window. Rows without one have what was known before the held-out.
    """

    first: date
    last: date
    missing: tuple[date, ...]
    anomalies: tuple[str, ...]
    training: TrainingSet
    held_out: TrainingSet
    unseen: TrainingSet
    statistics: PointInTimeStatistics
    catalog: Catalog
    definitions: Definitions


def open_window(
    partitions: Partitions,
    night: date,
    days: int | None,
    catalog: Catalog,
    target: str,
    max_missing: int | None = None,
) -> Window:
    """Read the `days` days before `night`, with their history as known at each launch.

    An attempt that finished in the window but was submitted before it is history, not a row to learn from.

    Parameters
    ----------
    days
        None follows from the partitions: 30 days, or as many more as it takes to have 100,000 attempts.
    max_missing
        Days without attempts that are tolerated after the first that has some; None follows from the partitions, see
        :func:`leap.retrainer.night.anomaly_checks.unusual_gaps`.

    Raises
    ------
    NothingToLearn
        If there are too few attempts to train on and to judge by.
    """
    present = [day for day in partitions.days() if day < night]
    length = days or _days_back(partitions, present, night)
    first, last = night - timedelta(days=length), night - timedelta(days=1)
    wanted = [first + timedelta(days=offset) for offset in range(length)]
    missing = tuple(day for day in wanted if day not in present)
    rows = partitions.read(wanted)
    checkpoint = StatisticsCheckpoint(partitions, target, days)
    statistics = _statistics(partitions, rows, checkpoint.before(first), night, target)
    if max_missing is None:
        gaps, allowed = unusual_gaps(present)
    else:
        gaps, allowed = [day for day in missing if present and day > present[0]], max_missing
    reasons = window_anomalies(rows, log_target(rows, target), gaps, allowed)
    catalog = catalog.with_siblings(rows["hardware_type"].dropna().unique())
    launched = rows[rows["submitted_at"] >= day_number(first) * SECONDS_PER_DAY]
    attempts = build_training_set(launched, HardwareTable(catalog), statistics, target)
    if len(attempts) < LEAST_ATTEMPTS:
        raise NothingToLearn(
            f"{len(attempts)} attempts with a positive {target} from {first} to {last}, where {LEAST_ATTEMPTS} are "
            f"needed: {least_rows()} to judge by and one to train on. {_remedy(partitions.days(), first, night)}"
        )
    training, held_out = split_latest(attempts, day_number(night))
    kept = partitions.definitions()
    known = kept.updated(attempts.pairs.jobs)
    attempts = attempts.described(kept.updated(attempts.where(training).pairs.jobs))
    unseen = attempts.where(~training)
    return Window(
        first,
        last,
        missing,
        reasons,
        attempts.where(training),
        attempts.where(held_out),
        unseen,
        statistics,
        catalog,
        known,
    )


def _days_back(partitions: Partitions, present: Sequence[date], night: date) -> int:
    """Days of a window whose length is not stated."""
    count, reach = 0, LEAST_DAYS
    for day in reversed(present):
        if count >= ENOUGH_ATTEMPTS:
            break
        count += len(partitions.read([day], columns=["attempt_id"]))
        reach = max(reach, (night - day).days)
    return reach


def _remedy(present: Sequence[date], first: date, night: date) -> str:
    """Which days there are, and the option that leads to them."""
    if not present:
        return "There are no partitions yet. Check `leap worker joiner`, or `leap learn` a table of past jobs"
    days = f"The partitions have {len(present)} days, {present[0]} to {present[-1]}"
    if present[-1] >= night:
        return f"{days}: --date {present[-1] + timedelta(days=1)} learns from all of them"
    if present[0] < first:
        return f"{days}: --window {(night - present[0]).days} reaches back to the first of them"
    return f"{days}, all in the window. Check that completions measure the target (LEAP_TARGETS)"


def _statistics(
    partitions: Partitions, rows: pd.DataFrame, before: Records, night: date, target: str
) -> PointInTimeStatistics:
    """What finished since midnight is in it too: no row sees that, but the store has it."""
    columns = [*REQUIRED_COLUMNS, MEASURED + target]
    today = partitions.read([night], columns=columns)
    everything = pd.concat([rows.reindex(columns=columns), today], ignore_index=True) if len(today) else rows
    return PointInTimeStatistics(everything, log_target(everything, target), before)


def split_latest(attempts: TrainingSet, night: int) -> tuple[Mask, Mask]:
    """(n,) attempts to train on and held-out ones: the latest days that together have enough, at most a fifth of all.

    What had not finished by the midnight before them is neither. Where too few had finished by then (the first day of
    a fleet), the latest attempts are held out; where too few had finished before those, all earlier are trained on.
    `night` is the day after the last.
    """
    finished = attempts.table["finished_at"].to_numpy(float)
    enough = max(least_rows(), min(LEAST_HELD_OUT, len(attempts) // 5))
    latest = min(night - 1, int(attempts.submitted_day.max()))
    count = np.bincount(np.maximum(latest - attempts.submitted_day, 0)).cumsum()
    start = latest - int(np.searchsorted(count, enough))
    held_out = attempts.submitted_day >= start
    training = ~held_out & (finished < start * SECONDS_PER_DAY)
    if np.count_nonzero(training) >= enough:
        return training, held_out
    held_out = np.arange(len(attempts)) >= len(attempts) - enough
    training = ~held_out & (finished < attempts.pairs.jobs.submitted_at[-enough])
    return training if np.count_nonzero(training) >= enough else ~held_out, held_out
