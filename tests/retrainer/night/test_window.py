"""What a window is cut into: few attempts, one day, and what had not finished."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.features.batch import Floats, Rows
from leap.predictor.models.structured.estimator import with_refreshed_history
from leap.predictor.models.structured.model import Structured
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night import publish
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import DEFAULT_RECIPES, Plan
from leap.retrainer.night.window import NothingToLearn, Window, open_window
from leap.retrainer.report.figures import figures
from leap.retrainer.report.html_page import page
from leap.retrainer.report.subject import of_night
from leap.schemas.events import THROUGHPUT, JobAttempt
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG, MIDNIGHT


def opened(root: Path, attempts: Sequence[JobAttempt]) -> Window:
    partitions = Partitions(root)
    partitions.ingest(attempts)
    return open_window(partitions, NIGHT, 30, CATALOG, THROUGHPUT)


def running(attempts: Sequence[JobAttempt], hours: float, every: int = 1) -> list[JobAttempt]:
    """The same attempts, of which one in `every` ran so long."""
    made = list(attempts)
    for place in range(0, len(made), every):
        completed = made[place].completed
        later = msgspec.structs.replace(completed, finished_at=completed.started_at + timedelta(hours=hours))
        made[place] = msgspec.structs.replace(made[place], completed=later)
    return made


@pytest.mark.parametrize(("days", "a_day"), [(1, 5), (1, 8), (2, 4), (5, 1)])
def test_a_night_over_few_attempts_publishes(tmp_path: Path, days: int, a_day: int) -> None:
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    partitions.ingest(past(days, a_day, start=MIDNIGHT + timedelta(days=10 - days)))
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
    window = opened(tmp_path, running(past(1, 100, start=MIDNIGHT + timedelta(days=9)), 0.01))
    assert (len(window.training), len(window.held_out)) == (80, 20)
    assert window.training.table["submitted_at"].max() <= window.held_out.table["submitted_at"].min()


def test_a_handful_of_the_day_before_is_not_all_there_is_to_train_on(tmp_path: Path) -> None:
    window = opened(tmp_path, running(past(2, 100, start=MIDNIGHT + timedelta(days=8))[97:], 0.01))
    assert (len(window.training), len(window.held_out)) == (83, 20)


def test_what_was_still_running_at_midnight_is_not_trained_on(tmp_path: Path) -> None:
    attempts = past(10, 60)
    window = opened(tmp_path, running(attempts[:480], 24.0, every=6) + attempts[480:])
    midnight = (MIDNIGHT + timedelta(days=8)).timestamp()
    assert window.training.table["finished_at"].max() < midnight <= window.held_out.table["submitted_at"].min()
    assert (len(window.training), len(window.held_out), len(window.unseen)) == (470, 120, 130)


def test_within_a_first_day_what_had_finished_is_trained_on(tmp_path: Path) -> None:
    attempts = past(1, 100, start=MIDNIGHT + timedelta(days=9))
    window = opened(tmp_path / "short", running(attempts, 3.0))
    assert window.training.table["finished_at"].max() < window.held_out.table["submitted_at"].min()
    assert 20 <= len(window.training) < 80
    window = opened(tmp_path / "long", [one for one in running(attempts, 14.0) if one.submitted.submitted_at.hour < 9])
    assert window.training.table["finished_at"].max() > window.held_out.table["submitted_at"].min()
    assert len(window.held_out) == len(window.unseen) < len(window.training)


def test_what_is_published_learns_what_was_still_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = []

    def noted(model: Structured, rows: Rows, y: Floats) -> Structured:
        learned.append(len(y))
        return with_refreshed_history(model, rows, y)

    monkeypatch.setattr(publish, "with_refreshed_history", noted)
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    attempts = past(10, 20)
    partitions.ingest(running(attempts[:160], 24.0, every=5) + attempts[160:])
    report = Night(partitions, store, CATALOG).run(Plan(night=NIGHT, recipes=("structured",)))
    assert (report.trained_on, report.held_out, learned) == (156, 40, [200])
