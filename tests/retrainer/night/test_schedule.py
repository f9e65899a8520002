"""The daily schedule with a clock that the test moves, and the lock."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from leap.retrainer.night.schedule import run_daily
from leap.retrainer.storage.lease import Busy, night_lock


class Stop(Exception):
    """Ends a schedule that runs for ever."""


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self, start: datetime, until: datetime) -> None:
        self.now = start
        self._until = until

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        if self.now > self._until:
            raise Stop


def nights(start: datetime, days: float, failures: int = 0) -> list[tuple[date, datetime]]:
    clock = Clock(start, start + timedelta(days=days))
    ran: list[tuple[date, datetime]] = []
    tries = 0

    def run(day: date) -> None:
        nonlocal tries
        tries += 1
        if tries <= failures:
            raise RuntimeError("store away")
        ran.append((day, clock.now))

    with pytest.raises(Stop):
        run_daily(run, lambda day: day in {day for day, _ in ran}, now=lambda: clock.now, sleep=clock.sleep)
    return ran


def test_a_missed_night_runs_at_once_then_one_a_day() -> None:
    ran = nights(datetime(2026, 3, 1, 14, 0, tzinfo=UTC), 3)
    assert [day for day, _ in ran] == [date(2026, 3, number) for number in (1, 2, 3, 4)]
    assert ran[0][1] == datetime(2026, 3, 1, 14, 0, tzinfo=UTC)
    assert all(
        timedelta(minutes=30) <= at - datetime(2026, 3, at.day, tzinfo=UTC) <= timedelta(minutes=41)
        for _, at in ran[1:]
    )


def test_before_its_time_the_night_of_yesterday_is_due() -> None:
    assert nights(datetime(2026, 3, 2, 0, 10, tzinfo=UTC), 0.01)[0][0] == date(2026, 3, 1)


def test_a_night_that_fails_is_counted_and_tried_again() -> None:
    before = REGISTRY.get_sample_value("leap_night_failures_total") or 0.0
    ran = nights(datetime(2026, 3, 1, 1, 0, tzinfo=UTC), 0.5, failures=3)
    assert ran == [(date(2026, 3, 1), datetime(2026, 3, 1, 1, 45, tzinfo=UTC))]
    assert REGISTRY.get_sample_value("leap_night_failures_total") == before + 3


@pytest.mark.parametrize("remote", [False, True])
def test_of_two_nights_at_once_one_runs(remote: bool, tmp_path: Path) -> None:
    root = f"memory://{tmp_path.name}" if remote else tmp_path / "partitions"
    for _ in range(2):
        with night_lock(root), pytest.raises(Busy, match="another night is running"), night_lock(root):
            pass
