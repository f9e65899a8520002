"""A check that cannot fail is none: everything that a verdict tells of can be found."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace as replaced

from leap.predictor.features.job_family import family
from leap.predictor.history.welford import EMPTY, Statistics, update
from leap.schemas.codec import encode
from leap.schemas.events import THROUGHPUT, DeadLetter, JobAttempt, JobCompleted, JobSubmitted, PreferenceList
from leap.streams.history.updates import Key
from leap.streams.kafka.message import Message
from tests.faults import trail
from tests.faults.evidence import Evidence
from tests.faults.lag import Standing
from tests.faults.scene import Scene
from tests.faults.stream import events
from tests.faults.trail import Place
from tests.faults.verdict import MEMORY_MIB, Verdict, judge

AT = datetime(2026, 1, 1, tzinfo=UTC)
PLACE: Place = ("history", "job-completed", "an id", 0)
*STREAM, REFUSED = events(60)
SUBMITTED = {event.attempt_id: event for event in STREAM if isinstance(event, JobSubmitted)}
COMPLETED = {event.attempt_id: event for event in STREAM if isinstance(event, JobCompleted)}


def counted() -> dict[Key, Statistics]:
    found: dict[Key, Statistics] = defaultdict(lambda: EMPTY)
    for event in COMPLETED.values():
        name, hardware_type, model_type = event.job_name, event.hardware_type, event.model_type or ""
        for key in (Key("family", name), Key("family_hardware", name, hardware_type), Key("model_type", model_type)):
            found[key] = update(found[key], math.log(event.measurements[THROUGHPUT]), event.finished_at.timestamp())
    return dict(found)


def letter(worker: str, event: JobCompleted) -> DeadLetter:
    value = encode(event)
    return DeadLetter(topic="t", partition=0, offset=0, value=value, reason="late", worker=worker, rejected_at=AT)


def all_well() -> Evidence:
    assert isinstance(REFUSED, JobCompleted)
    return Evidence(
        statistics=counted(),
        answers=[PreferenceList(attempt_id=name, decided_at=AT) for name in SUBMITTED],
        rows=[
            JobAttempt(attempt_id=name, family=family(event.job_name), submitted=event, completed=COMPLETED[name])
            for name, event in SUBMITTED.items()
        ],
        letters=[letter(worker, REFUSED) for worker in ("history", "joiner")],
        standings=[Standing(PLACE, 100, 100), Standing(("ranking", "job-submitted", "an id", 0), 0, 0)],
        handled={PLACE: [(50, 99), (0, 20), (10, 49), (10, 49)]},
        peak_mib=MEMORY_MIB,
    )


def verdict(evidence: Evidence) -> Verdict:
    assert isinstance(REFUSED, JobCompleted)
    return judge(STREAM, [REFUSED], evidence)


def test_all_well() -> None:
    assert verdict(all_well()) == Verdict(peak_mib=MEMORY_MIB)
    assert verdict(all_well()).good


def only(found: Verdict, field: str) -> int:
    """What one field says, while all others say that all is well."""
    assert not found.good
    rest = replace(found)
    setattr(rest, field, 0)
    assert rest.good
    return int(getattr(found, field))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("lost", lambda held: held._replace(n=held.n - 1)),
        ("doubled", lambda held: held._replace(n=held.n + 1)),
        ("wrong", lambda held: held._replace(mean=held.mean + 1e-6)),
        ("wrong", lambda held: held._replace(m2=held.m2 * 1.00001)),
        ("wrong", lambda held: held._replace(last=held.last + 1e-6)),
        ("wrong", lambda held: held._replace(last_at=held.last_at - 1.0)),
    ],
)
def test_a_statistic_that_is_off(field: str, change: Callable[[Statistics], Statistics]) -> None:
    evidence = all_well()
    key, most = max(counted().items(), key=lambda item: item[1].n)
    assert most.n > 1
    evidence.statistics = counted() | {key: change(most)}
    assert only(verdict(evidence), field) == 1


def test_a_statistic_that_is_not_there_or_should_not_be() -> None:
    evidence = all_well()
    evidence.statistics = {key: held for key, held in counted().items() if key.kind != "model_type"}
    assert only(verdict(evidence), "lost") == len(COMPLETED)
    evidence.statistics = counted() | {Key("family", "nobody's"): update(EMPTY, 1.0, 1.0)}
    assert only(verdict(evidence), "doubled") == 1


def test_answers() -> None:
    evidence = all_well()
    evidence.answers[0] = replaced(evidence.answers[0], no_opinion="unknown model type")
    assert verdict(evidence).no_opinion == {"unknown model type": 1}
    assert verdict(evidence).good
    evidence.answers.pop()
    assert only(verdict(evidence), "unanswered") == 1


def test_rows() -> None:
    evidence = all_well()
    last = evidence.rows.pop()
    assert only(verdict(evidence), "unjoined") == 1
    evidence.rows.append(replaced(last, completed=replaced(last.completed, hardware_type="another")))
    assert only(verdict(evidence), "unjoined") == 1
    evidence.rows[-1:] = [last, replaced(last, attempt_id="nobody's")]
    assert only(verdict(evidence), "unjoined") == 1


def test_letters() -> None:
    evidence = all_well()
    evidence.letters.append(letter("history", next(iter(COMPLETED.values()))))
    assert only(verdict(evidence), "misplaced") == 1
    evidence.letters = evidence.letters[:1]
    assert only(verdict(evidence), "misplaced") == 1


@pytest.mark.parametrize(
    ("spans", "committed", "missing"),
    [
        ([(3, 99)], 100, 3),  # the beginning
        ([(0, 49), (52, 99)], 100, 2),  # the middle
        ([(0, 49), (40, 59), (61, 80), (70, 99)], 100, 1),
        ([(0, 95)], 100, 4),  # the end, which is committed all the same
        ([(0, 99)], 93, 7),  # the end, which is handled all the same
        ([(0, 92)], 93, 7),
        ([(2, 92)], 93, 9),
        ([(0, 99)], 105, 5),  # beyond the end, as of a topic that was there before
        ([], 100, 100),
        ([], 0, 100),
    ],
)
def test_offsets(spans: list[tuple[int, int]], committed: int, missing: int) -> None:
    evidence = all_well()
    evidence.handled = {PLACE: spans}
    evidence.standings[0] = Standing(PLACE, committed, 100)
    assert only(verdict(evidence), "gaps") == missing


def test_what_was_handled_of_a_topic_before_it_was_created_again_does_not_count() -> None:
    evidence = all_well()
    evidence.standings.append(Standing(("history", "job-completed", "another id", 0), 100, 100))
    assert only(verdict(evidence), "gaps") == 100


def test_memory() -> None:
    evidence = all_well()
    evidence.peak_mib = MEMORY_MIB + 0.1
    assert only(verdict(evidence), "peak_mib") == MEMORY_MIB


def test_lag_that_stays_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.scene.RECOVERY_S", 0.0)
    stuck = cast(Scene, SimpleNamespace(lag=lambda: 1, folder="a folder"))
    with pytest.raises(TimeoutError, match="1 messages are left"):
        Scene.await_quiet(stuck)


def test_a_trail_tells_what_was_handled_and_no_more(tmp_path: Path) -> None:
    batch = [Message("t", "id", number, at, None, b"", 0) for number, at in ((0, 7), (1, 0), (0, 8), (0, 11), (1, 1))]
    trail.leave(tmp_path, "history", batch)
    trail.leave(tmp_path, "history", batch[:1])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + b'{"spans":[[["hist')  # a kill in the middle
    first, second = trail.follow(tmp_path)
    zero, one = ("history", "t", "id", 0), ("history", "t", "id", 1)
    assert sorted(first.spans) == [(zero, 7, 8), (zero, 11, 11), (one, 0, 1)]
    assert second.spans == [(zero, 7, 7)]
    assert 1.0 < first.peak_mib < 10_000.0
    assert first.epoch_s == pytest.approx(trail.epoch_s(), abs=1.0)
