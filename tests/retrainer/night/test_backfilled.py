"""History that a backfill has brought: learned from, kept until it was, and never pruned without a word."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.retrainer.cli.summary import summary
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.record import FILE
from leap.retrainer.night import window
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, Report
from leap.retrainer.night.window import NothingToLearn
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG, MIDNIGHT

DAYS, A_DAY = 40, 8
#: The table ends two months before the night.
START = MIDNIGHT - timedelta(days=DAYS + 70)
FIRST, LAST = START.date(), (START + timedelta(days=DAYS - 1)).date()
PLAN = Plan(night=NIGHT, recipes=("structured",))


class Fleet:
    """Partitions and artifacts after a backfill."""

    def __init__(self, root: Path) -> None:
        self.partitions, self.store = Partitions(root / "partitions"), LocalStore(root / "artifacts")
        self.partitions.ingest(past(DAYS, A_DAY, start=START))

    def night(self, plan: Plan = PLAN) -> Report:
        return Night(self.partitions, self.store, CATALOG).run(plan)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def texts(days: Iterable[date]) -> tuple[str, ...]:
    return tuple(map(str, days))


def test_the_first_night_learns_from_all_of_a_table_and_prunes_nothing(fleet: Fleet) -> None:
    days = fleet.partitions.days()
    for night in (NIGHT, NIGHT + timedelta(days=1)):
        report = fleet.night(replace(PLAN, night=night))
        assert report.promoted, report.reason
        assert (report.window_from, report.trained_on + report.held_out) == (str(FIRST), DAYS * A_DAY)
        assert (report.pruned, report.unlearned, fleet.partitions.days()) == ((), (), days)


def test_what_a_large_fleet_backfills_is_kept_until_it_was_learned_from(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "ENOUGH_ATTEMPTS", 10 * A_DAY)
    days = fleet.partitions.days()
    old = days[: days.index(LAST) - 9]
    report = fleet.night()
    assert report.window_from == str(LAST - timedelta(days=9))
    assert (report.unlearned, report.pruned) == (texts(old), ())
    length = (NIGHT - FIRST).days
    assert (
        f"{len(old)} days, {FIRST} to {old[-1]} before the window, not learned from yet: --window {length}"
        in summary(report)
    )
    report = fleet.night(replace(PLAN, window_days=length))
    assert (report.unlearned, report.pruned) == ((), ())
    report = fleet.night()
    gone = [day for day in old if day < NIGHT - timedelta(days=90)]
    assert report.pruned == texts(gone) and gone
    assert f"{len(gone)} days, {FIRST} to {gone[-1]} removed; --keep-days" in summary(report)


def test_days_kept_as_stated_are_said(fleet: Fleet) -> None:
    report = fleet.night(replace(PLAN, keep_days=100))
    assert report.pruned == texts(FIRST + timedelta(days=n) for n in range((NIGHT - FIRST).days - 100))


def test_partitions_of_before_there_were_records_have_learned_what_their_reports_say(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.night()
    fleet.partitions.files.remove(FILE)
    monkeypatch.setattr(window, "ENOUGH_ATTEMPTS", 10 * A_DAY)
    later = past(1, 1, start=START)[:1]
    later = [msgspec.structs.replace(later[0], attempt_id="backfilled")]
    report = Night(fleet.partitions, fleet.store, CATALOG, ingest=lambda into: into.ingest(later)).run(PLAN)
    assert report.unlearned == (str(later[0].completed.finished_at.date()),), "it has changed since"
    assert len(report.pruned) > 20


@pytest.mark.parametrize(
    ("night", "days", "remedy"),
    [
        (FIRST, None, f"have {DAYS} days, {FIRST} to {LAST}: --date {LAST + timedelta(days=1)}"),
        (NIGHT, 30, f"--window {(NIGHT - FIRST).days} reaches back"),
    ],
)
def test_where_nothing_is_left_the_days_and_the_setting_are_named(
    fleet: Fleet, night: date, days: int | None, remedy: str
) -> None:
    with pytest.raises(NothingToLearn, match=remedy):
        fleet.night(replace(PLAN, night=night, window_days=days))
