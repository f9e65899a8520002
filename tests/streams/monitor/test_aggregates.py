"""The monitor's figures worked out by hand; duplicates and any order of events give the same."""

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.events import (
    SUCCEEDED,
    THROUGHPUT,
    JobAllocated,
    JobCompleted,
    PreferenceList,
    RankedCandidate,
    Shape,
)
from leap.streams.monitor import aggregates, skew
from leap.streams.monitor.aggregates import Monitor
from leap.streams.monitor.attempt import Part

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def listed(
    name: str,
    *ranked: tuple[str, float],
    time: datetime = NOW - 3 * HOUR,
    why: str | None = None,
    model_type: str = "m",
) -> PreferenceList:
    candidates = [
        RankedCandidate(
            hardware_type=hardware_type,
            throughput=throughput,
            lower=0.9 * throughput,
            upper=1.1 * throughput,
            cost_per_hour=1.0,
            throughput_per_cost=throughput,
            score=throughput,
            basis="similar jobs",
        )
        for hardware_type, throughput in ranked
    ]
    return PreferenceList(
        attempt_id=name, model_type=model_type, ranked=tuple(candidates), no_opinion=why, decided_at=time
    )


def allocated(name: str, hardware_type: str, time: datetime = NOW) -> JobAllocated:
    return JobAllocated(attempt_id=name, hardware_type=hardware_type, hosts=1, accelerators=8, allocated_at=time)


def completed(
    name: str, hardware_type: str, measured: float, hours: float = 8.0, time: datetime = NOW, status: str = SUCCEEDED
) -> JobCompleted:
    return JobCompleted(
        attempt_id=name,
        job_name="j",
        hardware_type=hardware_type,
        started_at=time - HOUR,
        finished_at=time,
        status=status,
        accelerator_hours=hours,
        measurements={THROUGHPUT: measured},
    )


EVENTS: list[Part] = [
    listed("right", ("fast", 100.0), ("slow", 50.0)),
    allocated("right", "fast"),
    completed("right", "fast", 105.0),
    listed("wrong", ("fast", 100.0), ("slow", 50.0), model_type="n"),
    completed("wrong", "slow", 100.0, time=NOW - 2 * HOUR),
    listed("empty", why="internal error: KeyError"),
    completed("empty", "fast", 100.0, hours=24.0),
    listed("failed", ("fast", 100.0)),
    completed("failed", "fast", 0.0, status="failed"),
    completed("unlisted", "fast", 100.0, hours=16.0),
    listed("running", ("slow", 10.0)),
    allocated("running", "fast"),
    listed("waiting", ("slow", 10.0)),
]


def monitor_of(events: list[Part]) -> Monitor:
    monitor = Monitor(lambda: NOW.timestamp())
    for event in events:
        monitor.add(event)
    return monitor


def test_figures_equal_values_computed_by_hand() -> None:
    figures = monitor_of(EVENTS).figures()
    assert (figures.lists, figures.no_opinion) == (6, {"internal error": 1})
    assert figures.ranked == pytest.approx(100 * 5 / 6, abs=0.01)
    assert figures.finished == 5
    assert figures.attempts_ranked == 60.0  # right, wrong, failed
    assert figures.hours_ranked == 37.5  # 24 of 64
    assert figures.first_choice == 50.0  # right and failed, of right, wrong, failed, running
    assert figures.accuracy is not None
    assert (figures.scored, figures.accuracy.w20, figures.accuracy.w5) == (2, 50.0, 50.0)
    assert figures.coverage == 50.0  # right, wrong of those and empty, unlisted
    assert figures.interval == 50.0
    assert figures.hourly == ((2, 0.0), (0, 100.0))
    assert figures.model_types == (("m", 1, 100.0), ("n", 1, 0.0))
    assert figures.hardware_types == (("fast", 1, 100.0), ("slow", 1, 0.0))
    assert figures.until == NOW.timestamp()


def test_figures_without_events_are_empty() -> None:
    figures = monitor_of([]).figures()
    assert (figures.until, figures.lists, figures.ranked, figures.accuracy, figures.hourly) == (0.0, 0, None, None, ())


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), max_size=20))
def test_figures_are_independent_of_order_and_duplicates(random: random.Random, again: list[Part]) -> None:
    events = [*EVENTS, *again]
    random.shuffle(events)
    assert monitor_of(events).figures() == monitor_of(EVENTS).figures()


def test_first_list_and_latest_corrections_win() -> None:
    later: list[Part] = [
        listed("right", ("slow", 1.0), time=NOW + HOUR / 2),
        completed("right", "fast", 300.0, time=NOW + HOUR / 2),
        allocated("right", "slow", time=NOW + HOUR / 2),
    ]
    figures = monitor_of([*EVENTS[:3], *later]).figures()
    assert figures.accuracy is not None
    assert (figures.scored, figures.accuracy.w20, figures.first_choice, figures.lists) == (1, 0.0, 0.0, 1)


def test_window_is_24_hours_despite_future_events() -> None:
    old = completed("old", "fast", 1.0, time=NOW - 25 * HOUR)
    far = completed("far", "fast", 1.0, time=NOW + 2 * HOUR)
    monitor = monitor_of([*EVENTS, old, far])
    assert monitor.figures().finished == 5
    early = monitor_of([old, *EVENTS])
    assert early.figures().finished == 5 and len(early) == len(monitor_of(EVENTS))


def test_list_is_kept_a_week_for_its_completion() -> None:
    days = timedelta(days=6)
    figures = monitor_of(
        [listed("long", ("fast", 100.0), time=NOW - days), *EVENTS, completed("long", "fast", 100.0)]
    ).figures()
    assert (figures.lists, figures.finished, figures.scored) == (6, 6, 3)
    monitor = monitor_of([listed("lost", ("fast", 100.0), time=NOW - timedelta(days=8)), *EVENTS])
    monitor.figures()
    assert len(monitor) == len(monitor_of(EVENTS))


def test_number_of_attempts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "MAX_ATTEMPTS", 10)
    monitor = monitor_of([completed(f"c{number}", "fast", 1.0) for number in range(50)])
    assert len(monitor) == 10


def test_newest_attempts_survive_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the start: all lists, then all allocations, then all completions."""
    monkeypatch.setattr(aggregates, "MAX_ATTEMPTS", 100)
    times = {f"a{hour}": NOW - HOUR * hour for hour in range(160, 0, -1)}
    events: list[Part] = [listed(name, ("fast", 100.0), time=time) for name, time in times.items()]
    events += [allocated(name, "fast", time) for name, time in times.items()]
    events += [completed(name, "fast", 100.0, time=time) for name, time in times.items()]
    figures = monitor_of(events).figures()
    assert (figures.lists, figures.finished, figures.scored, figures.coverage) == (
        24,
        25,
        25,
        100.0,
    )  # a day has both its ends


def launched(name: str, last: float | None, time: datetime = NOW) -> PreferenceList:
    """A list that was served `last` as the latest ln throughput of the family ``j``."""
    served = {"family_last": (last or 4.2,) * 2, "family_cold": (float(last is None),) * 2}
    made = listed(name, ("fast", 1.0), ("slow", 1.0), time=time)
    return msgspec.structs.replace(made, family="j", served_history=served)


@pytest.mark.parametrize(
    ("last", "skew"),
    [
        (math.log(100.0), 0.0),  # the newest that had to be known
        (math.log(110.0), 0.0),  # one of yesterday evening, which an artifact of last night knows
        (math.log(90.0), 100.0),  # an older one: the newest was missed
        (math.log(120.0), 100.0),  # one that finished after the list
        (math.log(77.0), 100.0),  # none of its attempts
        (None, 100.0),  # as if it had never run
    ],
)
def test_skew_counts_lists_with_a_stale_history(last: float | None, skew: float) -> None:
    events: list[Part] = [
        completed("a", "fast", 90.0, time=NOW - 60 * HOUR),
        completed("b", "fast", 100.0, time=NOW - 40 * HOUR),
        completed("c", "fast", 110.0, time=NOW - 14 * HOUR),
        completed("d", "fast", 120.0, time=NOW + HOUR / 2),
        completed("failed", "fast", 77.0, time=NOW - 39 * HOUR, status="failed"),
        launched("asked", last),
        listed("none", why="switched off"),
    ]
    for order in (events, events[::-1], events * 2):
        figures = monitor_of(order).figures()
        assert (figures.compared, figures.skew) == (1, skew)


@pytest.mark.parametrize(("ran", "last", "scored"), [(16, 100.0, 1), (8, 200.0, 0)])
def test_accelerators_that_ran_tell_what_is_compared(ran: int, last: float, scored: int) -> None:
    """A list for 16 accelerators, whose family was served what it had reached on as many as ran."""
    shapes = (Shape(hosts=1, accelerators=ran),)
    before = msgspec.structs.replace(completed("b", "fast", 100.0, time=NOW - 40 * HOUR), shapes=shapes)
    asked = msgspec.structs.replace(launched("asked", math.log(last)), accelerators=16)
    after = msgspec.structs.replace(completed("asked", "fast", 90.0, time=NOW + HOUR), shapes=shapes)
    figures = monitor_of([before, asked, after]).figures()
    assert (figures.compared, figures.skew, figures.scored) == (1, 0.0, scored)


def test_skew_ignores_families_without_settled_attempts() -> None:
    figures = monitor_of([completed("c", "fast", 110.0, time=NOW - 14 * HOUR), launched("asked", None)]).figures()
    assert (figures.compared, figures.skew) == (0, None)


def test_skew_sorts_each_family_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists times attempts of a sweep's one family held up the messages for longer than a session."""
    asked: list[str] = []

    class Attempts(dict[str, tuple[float, float, float]]):
        def values(self) -> Any:
            asked.append("values")
            return super().values()

    monitor = monitor_of([completed("a", "fast", 100.0, time=NOW - 40 * HOUR)])
    monkeypatch.setattr(monitor._finished, "_families", {"j": Attempts(monitor._finished._families["j"])})
    served = [("j", NOW.timestamp(), math.log(100.0 + number % 2), math.nan) for number in range(50)]
    assert monitor._finished.skew([*served, ("other", NOW.timestamp(), 0.0, math.nan)]) == (50, 25)
    assert asked == ["values"]


def test_finished_attempts_for_skew_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skew, "MAX_ATTEMPTS", 10)
    events = [
        msgspec.structs.replace(completed(f"c{n}", "fast", 1.0, time=NOW - 40 * HOUR), job_name=f"job-{chr(97 + n)}")
        for n in range(20)
    ]
    lists = [msgspec.structs.replace(launched(f"l{n}", 0.0), family=f"job-{chr(97 + n)}") for n in range(20)]
    assert monitor_of([*events, *lists]).figures().compared == 10


def test_late_list_does_not_count_as_served() -> None:
    """As those of a worker that catches up; an allocation tells better than the start."""
    late = listed("late", ("fast", 100.0), time=NOW)
    figures = monitor_of([late, completed("late", "fast", 100.0)]).figures()
    assert (figures.lists, figures.finished) == (1, 1)
    assert (figures.attempts_ranked, figures.first_choice, figures.scored, figures.coverage) == (0.0, None, 0, 0.0)
    early = listed("late", ("fast", 100.0), time=NOW - 2 * HOUR)
    assert monitor_of([early, completed("late", "fast", 100.0)]).figures().attempts_ranked == 100.0
    placed = allocated("late", "fast", time=NOW - 3 * HOUR)
    assert monitor_of([early, placed, completed("late", "fast", 100.0)]).figures().attempts_ranked == 0.0
