"""Statistics carried from night to night equal those over everything that ever finished."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leap.retrainer.dataset import checkpoint as carried
from leap.retrainer.dataset.checkpoint import StatisticsCheckpoint
from leap.retrainer.dataset.feature_table import frame, log_target
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics, observations
from leap.retrainer.dataset.statistics_array import Records, merged
from leap.schemas.events import THROUGHPUT, JobAttempt
from tests.builders import MIDNIGHT, attempt, submission
from tests.retrainer.dataset.test_point_in_time import fleet

FIRST = MIDNIGHT.date()


def on(day: int) -> date:
    return FIRST + timedelta(days=day)


def before(attempts: list[JobAttempt], day: date) -> Records:
    """Statistics of what finished before a day, at once."""
    rows = frame(one for one in attempts if one.completed.finished_at.date() < day)
    return merged([observations(rows, log_target(rows, THROUGHPUT))])


def assert_same(found: Records, expected: Records) -> None:
    for name in ("key", "family", "n", "last", "last_at"):
        assert found[name].tolist() == expected[name].tolist(), name
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-12)
    np.testing.assert_allclose(found["m2"], expected["m2"], rtol=1e-6, atol=1e-12)


def test_history_outlives_the_partitions(tmp_path: Path) -> None:
    attempts = fleet(days=10)
    partitions = Partitions(tmp_path)
    for day in range(1, 10):
        partitions.ingest(one for one in attempts if on(day - 1) <= one.completed.finished_at.date() < on(day))
        assert_same(StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(day - 1)), before(attempts, on(day - 1)))
        partitions.prune([on(day - 2)])
    assert len(partitions.days()) == 1


def test_a_night_reads_only_the_days_that_left_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = fleet(days=10)
    partitions = Partitions(tmp_path)
    partitions.ingest(attempts)
    StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(6))
    read: list[date] = []
    whole = partitions.read

    def watched(days: list[date], columns: list[str]) -> pd.DataFrame:
        read.extend(days)
        return whole(days, columns)

    monkeypatch.setattr(partitions, "read", watched)
    assert_same(StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(8)), before(attempts, on(8)))
    assert_same(StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(8)), before(attempts, on(8)))
    assert read == [on(6), on(7)]


def test_what_comes_weeks_late_is_counted(tmp_path: Path) -> None:
    attempts = fleet(days=10)
    partitions = Partitions(tmp_path)
    partitions.ingest(attempts)
    for day in (4, 5, 6):
        StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(day))
    late = attempt(submission("late", job_name="late", at=MIDNIGHT + timedelta(days=4)), "fast", 7.0)
    partitions.ingest([late])
    assert_same(StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(7)), before([*attempts, late], on(7)))


def test_a_night_of_the_past_takes_what_was_known_then(tmp_path: Path) -> None:
    attempts = fleet(days=10)
    partitions = Partitions(tmp_path)
    partitions.ingest(attempts)
    for day in (8, 3, 5):
        assert_same(StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(day)), before(attempts, on(day)))


def test_only_the_last_nights_are_kept(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    partitions.ingest(fleet(days=12))
    for day in range(1, 12):
        StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(day))
    assert len(list((tmp_path / "statistics" / THROUGHPUT).glob("*/*"))) == carried.KEPT


def test_shorter_windows_do_not_drive_out_what_longer_ones_need(tmp_path: Path) -> None:
    attempts = fleet(days=14)
    partitions = Partitions(tmp_path)
    partitions.ingest(attempts)
    StatisticsCheckpoint(partitions, THROUGHPUT, 30).before(on(3))
    partitions.prune(map(on, range(3)))
    for day in range(5, 5 + 2 * carried.KEPT):
        StatisticsCheckpoint(partitions, THROUGHPUT, 7).before(on(day))
    assert_same(StatisticsCheckpoint(partitions, THROUGHPUT, 30).before(on(4)), before(attempts, on(4)))


def test_a_twin_on_top_of_what_is_carried_is_that_over_everything(tmp_path: Path) -> None:
    attempts = fleet(days=10)
    partitions = Partitions(tmp_path)
    partitions.ingest(attempts)
    rows = partitions.read(on(day) for day in range(6, 20))
    everything = partitions.read(partitions.days())
    statistics = PointInTimeStatistics(
        rows, log_target(rows, THROUGHPUT), StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(6))
    )
    whole = PointInTimeStatistics(everything, log_target(everything, THROUGHPUT))
    asked = rows[rows["submitted_at"] >= (MIDNIGHT + timedelta(days=6)).timestamp()]
    for kind, found in statistics.at_launch(asked).items():
        np.testing.assert_allclose(found, whole.at_launch(asked)[kind], rtol=2e-5, equal_nan=True)
    last = int(MIDNIGHT.timestamp() // 86_400) + 9
    assert_same(statistics.records(last), whole.records(last))


def test_days_that_a_backfill_brings_later_are_counted_once(tmp_path: Path) -> None:
    attempts = fleet(days=14)
    old = [one for one in attempts if one.completed.finished_at.date() < on(5)]
    new = [one for one in attempts if one.completed.finished_at.date() >= on(5)]
    partitions = Partitions(tmp_path)
    partitions.ingest(new)
    for day in (8, 9):
        StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(day))
    partitions.ingest(old)
    for day in (9, 10, 11):
        assert_same(StatisticsCheckpoint(partitions, THROUGHPUT, 3).before(on(day)), before(attempts, on(day)))
