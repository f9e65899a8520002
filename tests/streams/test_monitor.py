"""The monitor's figures worked out by hand; duplicates and any order of events give the same."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import SUCCEEDED, THROUGHPUT, JobAllocated, JobCompleted, PreferenceList, RankedCandidate
from streams import monitor as module
from streams.monitor import Monitor, Part

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def listed(
    name: str, *ranked: tuple[str, float], at: datetime = NOW, why: str | None = None, model_type: str = "m"
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
        attempt_id=name, model_type=model_type, ranked=tuple(candidates), no_opinion=why, decided_at=at
    )


def allocated(name: str, hardware_type: str, at: datetime = NOW) -> JobAllocated:
    return JobAllocated(attempt_id=name, hardware_type=hardware_type, hosts=1, accelerators=8, allocated_at=at)


def completed(
    name: str, hardware_type: str, measured: float, hours: float = 8.0, at: datetime = NOW, status: str = SUCCEEDED
) -> JobCompleted:
    return JobCompleted(
        attempt_id=name,
        job_name="j",
        hardware_type=hardware_type,
        started_at=at - HOUR,
        finished_at=at,
        status=status,
        accelerator_hours=hours,
        measurements={THROUGHPUT: measured},
    )


EVENTS: list[Part] = [
    listed("right", ("fast", 100.0), ("slow", 50.0)),
    allocated("right", "fast"),
    completed("right", "fast", 105.0),
    listed("wrong", ("fast", 100.0), ("slow", 50.0), model_type="n"),
    completed("wrong", "slow", 100.0, at=NOW - 2 * HOUR),
    listed("empty", why="internal error: KeyError"),
    completed("empty", "fast", 100.0, hours=24.0),
    listed("failed", ("fast", 100.0)),
    completed("failed", "fast", 0.0, status="failed"),
    completed("unlisted", "fast", 100.0, hours=16.0),
    listed("running", ("slow", 10.0)),
    allocated("running", "fast"),
    listed("waiting", ("slow", 10.0)),
]


def told(events: list[Part]) -> Monitor:
    found = Monitor(lambda: NOW.timestamp())
    for event in events:
        found.add(event)
    return found


def test_figures_by_hand() -> None:
    found = told(EVENTS).figures()
    assert (found.lists, found.no_opinion) == (6, {"internal error": 1})
    assert found.ranked == pytest.approx(100 * 5 / 6, abs=0.01)
    assert found.finished == 5
    assert found.attempts_ranked == 60.0  # right, wrong, failed
    assert found.hours_ranked == 37.5  # 24 of 64
    assert found.first_choice == 50.0  # right and failed, of right, wrong, failed, running
    assert found.accuracy is not None
    assert (found.scored, found.accuracy.w20, found.accuracy.w5) == (2, 50.0, 50.0)
    assert found.coverage == 50.0  # right, wrong of those and empty, unlisted
    assert found.interval == 50.0
    assert found.hourly == ((2, 0.0), (0, 100.0))
    assert found.model_types == (("m", 1, 100.0), ("n", 1, 0.0))
    assert found.hardware_types == (("fast", 1, 100.0), ("slow", 1, 0.0))
    assert found.until == NOW.timestamp()


def test_nothing_yet() -> None:
    found = told([]).figures()
    assert (found.until, found.lists, found.ranked, found.accuracy, found.hourly) == (0.0, 0, None, None, ())


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), max_size=20))
def test_repetition_and_order_change_nothing(random: random.Random, again: list[Part]) -> None:
    events = [*EVENTS, *again]
    random.shuffle(events)
    assert told(events).figures() == told(EVENTS).figures()


def test_what_was_served_first_counts_and_what_corrects_last() -> None:
    later: list[Part] = [
        listed("right", ("slow", 1.0), at=NOW + HOUR / 2),
        completed("right", "fast", 300.0, at=NOW + HOUR / 2),
        allocated("right", "slow", at=NOW + HOUR / 2),
    ]
    found = told([*EVENTS[:3], *later]).figures()
    assert found.accuracy is not None
    assert (found.scored, found.accuracy.w20, found.first_choice, found.lists) == (1, 0.0, 0.0, 1)


def test_a_day_is_a_day_and_a_wrong_clock_does_not_end_it() -> None:
    old = completed("old", "fast", 1.0, at=NOW - 25 * HOUR)
    far = completed("far", "fast", 1.0, at=NOW + 2 * HOUR)
    monitor = told([*EVENTS, old, far])
    assert monitor.figures().finished == 5
    early = told([old, *EVENTS])
    assert early.figures().finished == 5 and len(early) == len(told(EVENTS))


def test_a_list_waits_a_week_for_its_completion() -> None:
    days = timedelta(days=6)
    found = told([listed("long", ("fast", 100.0), at=NOW - days), *EVENTS, completed("long", "fast", 100.0)]).figures()
    assert (found.lists, found.finished, found.scored) == (6, 6, 3)
    monitor = told([listed("lost", ("fast", 100.0), at=NOW - timedelta(days=8)), *EVENTS])
    monitor.figures()
    assert len(monitor) == len(told(EVENTS))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    monitor = told([completed(f"c{number}", "fast", 1.0) for number in range(50)])
    assert len(monitor) == 10
