"""What a window is cut into: few attempts, one day, and what had not finished."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from predictor.jobs import HardwareTable
from predictor.store import LocalStore
from retrainer.night import DEFAULT_RECIPES, Night, Plan
from retrainer.partitions import Partitions
from retrainer.report.figures import figures
from retrainer.report.page import page
from retrainer.report.rows import of_night
from retrainer.window import NothingToLearn, Window, open_window
from schemas.events import THROUGHPUT, JobAttempt
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG, MIDNIGHT


def opened(root: Path, attempts: Sequence[JobAttempt]) -> Window:
    partitions = Partitions(root)
    partitions.absorb(attempts)
    return open_window(partitions, NIGHT, 30, HardwareTable(CATALOG), THROUGHPUT)


@pytest.mark.parametrize(("days", "a_day"), [(1, 5), (1, 8), (2, 4), (5, 1)])
def test_a_night_over_few_attempts_publishes(tmp_path: Path, days: int, a_day: int) -> None:
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    partitions.absorb(past(days, a_day, start=MIDNIGHT + timedelta(days=10 - days)))
    report = Night(partitions, store, CATALOG).run(Plan(night=NIGHT, recipes=DEFAULT_RECIPES))
    assert (report.promoted, report.held_out) == (True, 4)
    assert [row.error for row in report.recipes] == [None, None]
    subject = of_night(partitions, store, THROUGHPUT, NIGHT)
    assert report.artifact in page(subject, list(figures(subject)))


@pytest.mark.parametrize("count", [1, 4])
def test_too_few_attempts_say_how_many_are_needed(tmp_path: Path, count: int) -> None:
    with pytest.raises(NothingToLearn, match=f"^{count} attempts .* where 5 are needed: 4 to judge by and one to"):
        opened(tmp_path, past(1, count, start=MIDNIGHT + timedelta(days=9)))


def test_one_day_is_cut_by_time(tmp_path: Path) -> None:
    window = opened(tmp_path, past(1, 100, start=MIDNIGHT + timedelta(days=9)))
    assert (len(window.training), len(window.held_out)) == (80, 20)
    assert window.training.rows["submitted_at"].max() <= window.held_out.rows["submitted_at"].min()


def test_a_handful_of_the_day_before_is_not_all_there_is_to_train_on(tmp_path: Path) -> None:
    window = opened(tmp_path, past(2, 100, start=MIDNIGHT + timedelta(days=8))[97:])
    assert (len(window.training), len(window.held_out)) == (83, 20)
