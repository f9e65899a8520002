"""The launcher: what it sends, and that nothing which goes wrong reaches the launch."""

import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.queues import SimpleQueue
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from leap.predictor.features.job_family import family
from leap.schemas.codec import encode
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted, PreferenceList, Shape
from leap.schemas.launch import LaunchConfig
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.launcher import allocated_shapes
from leap.streams.launcher import launcher as module
from leap.streams.launcher.allocated_shapes import AllocatedShapes
from leap.streams.launcher.launcher import Counts, Launcher
from leap.streams.launcher.preference_follower import DEADLINE_EXCEEDED
from leap.streams.runtime.settings import Settings
from tests.forks import in_child
from tests.streams.consumer.fatal import fail

START = datetime(2024, 3, 1, 8, tzinfo=UTC)
CONFIG = LaunchConfig(num_trainers=2, accelerators_per_trainer=8)
ABSENT = Settings.from_environment({"LEAP_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"})


def submission(attempt_id: str = "a-1") -> JobSubmitted:
    return JobSubmitted(
        attempt_id=attempt_id, job_name="bert-20240301", model_type="bert", submitted_at=START, config=CONFIG
    )


ALLOCATION = JobAllocated(attempt_id="a-1", hardware_type="H200-NVL", hosts=2, accelerators=16, allocated_at=START)
COMPLETION = JobCompleted(
    attempt_id="a-1",
    job_name="bert-20240301",
    hardware_type="H200-NVL",
    started_at=START,
    finished_at=START + timedelta(hours=1),
    status="succeeded",
    measurements={"throughput": 812.5},
)
RAN = msgspec.structs.replace(COMPLETION, shapes=(Shape(hosts=2, accelerators=16),))


@pytest.fixture
def absent() -> Iterator[Launcher]:
    with Launcher(ABSENT) as launcher:
        yield launcher
        launcher.close(0.0)


def messages(settings: Settings, topic: str) -> list[Message]:
    return list(read_range(settings, settings.topic(topic), None, None))


def test_events_arrive_whole_under_their_keys(topics: Settings) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    with Launcher(topics) as launcher:
        assert launcher.submitted(submission())
        assert launcher.allocated(ALLOCATION)
        assert launcher.completed(COMPLETION)
        assert launcher.close() == 0
        assert launcher.counts == Counts(queued=3, delivered=3, failed=0, dropped=0)
    for topic, event, key in (
        (SUBMITTED, submission(), b"a-1"),
        (ALLOCATED, ALLOCATION, b"a-1"),
        (COMPLETED, RAN, family("bert-20240301").encode()),
    ):
        (message,) = messages(topics, topic)
        assert (message.key, message.value) == (key, encode(event))
        assert message.timestamp_ms >= before.timestamp() * 1000  # or retention would delete a backfill


def allocation(hosts: int, minutes: int = -1, hardware_type: str = "H200-NVL") -> JobAllocated:
    at = START + timedelta(minutes=minutes)
    return msgspec.structs.replace(
        ALLOCATION, hosts=hosts, accelerators=8 * hosts, allocated_at=at, hardware_type=hardware_type
    )


@pytest.mark.parametrize(
    ("told", "hosts"),
    [
        ([], []),
        ([allocation(2)], [2]),
        ([allocation(4, -1), allocation(2, -9)], [4]),  # corrected before the start
        ([allocation(2), allocation(4, 30), allocation(4, 40)], [2, 4]),  # changed while it ran
        ([allocation(2, 30)], [2]),  # told late
        ([allocation(2, hardware_type="H200 NVL")], []),  # perhaps not the same
    ],
)
def test_completion_states_the_shapes_that_were_allocated(told: list[JobAllocated], hosts: list[int]) -> None:
    shapes = AllocatedShapes()
    for event in told:
        shapes.add(event)
    stated = shapes.stated(COMPLETION)
    assert [shape.hosts for shape in stated.shapes] == hosts
    shapes.add(allocation(7, 50))
    assert shapes.stated(COMPLETION) == stated, "sent again"
    assert shapes.stated(RAN) is RAN, "states its own"


def test_allocations_are_remembered_of_so_many_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocated_shapes, "MAX_ATTEMPTS", 1)
    shapes = AllocatedShapes()
    for name in ("a-1", "a-2"):
        shapes.add(msgspec.structs.replace(ALLOCATION, attempt_id=name))
    assert shapes.stated(COMPLETION) is COMPLETION


def test_fields_are_as_good_as_a_struct(topics: Settings) -> None:
    with Launcher(topics) as launcher:
        assert launcher.submitted(msgspec.to_builtins(submission()))
        assert launcher.completed({**msgspec.structs.asdict(COMPLETION), "region": "east"})
    assert messages(topics, SUBMITTED)[0].value == encode(submission())
    assert b'"region":"east"' in (messages(topics, COMPLETED)[0].value or b"")


@pytest.mark.parametrize(
    "event",
    [
        JobSubmitted(attempt_id="", job_name="b", model_type="b", submitted_at=START, config=CONFIG),
        JobSubmitted(attempt_id="x" * 513, job_name="b", model_type="b", submitted_at=START, config=CONFIG),
        {"attempt_id": "a-1"},
        {},
        {"attempt_id": object()},
        {"x": "y" * 1_100_000},
        None,
        7,
        ALLOCATION,
    ],
)
def test_invalid_event_is_dropped_and_counted(absent: Launcher, event: JobSubmitted) -> None:
    assert absent.submitted(event) is False
    assert absent.counts == Counts(queued=0, delivered=0, failed=0, dropped=1)


def test_broker_away_never_raises_and_the_end_reports_what_was_left(absent: Launcher) -> None:
    for number in range(100):
        assert absent.submitted(submission(f"a-{number}"))
    assert absent.counts == Counts(queued=100, delivered=0, failed=0, dropped=0)
    assert absent.close(0.1) == 100
    assert absent.counts.failed == 100
    assert absent.close() == 0
    assert absent.submitted(submission()) is False


def test_full_queue_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.QUEUE, "queue.buffering.max.messages", 10)
    with Launcher(ABSENT) as launcher:
        assert [launcher.allocated(ALLOCATION) for _ in range(12)] == [True] * 10 + [False] * 2
        assert launcher.counts.dropped == 2
        launcher.close(0.0)


def test_events_that_time_out_are_counted_as_failed() -> None:
    address = {"LEAP_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "LEAP_KAFKA_MESSAGE_TIMEOUT_MS": "20"}
    with Launcher(Settings.from_environment(address)) as launcher:
        assert launcher.submitted(submission())
        assert launcher.close(10.0) == 1
        assert launcher.counts == Counts(queued=1, delivered=0, failed=1, dropped=0)


def test_a_client_that_has_ended_is_replaced(topics: Settings) -> None:
    with Launcher(topics) as launcher:
        assert launcher.submitted(submission("a-0"))
        while not messages(topics, SUBMITTED):
            time.sleep(0.01)
        fail(launcher._producer)
        assert launcher.submitted(submission("a-1"))
        assert launcher.close() == 0
        assert launcher.counts == Counts(queued=2, delivered=2, failed=0, dropped=0)
    assert {message.key for message in messages(topics, SUBMITTED)} == {b"a-0", b"a-1"}


def test_threads_that_hear_of_it_at_once_replace_a_client_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    class Ended:
        def produce(self, *_: object, **__: object) -> None:
            both.wait(60)
            raise KafkaException(KafkaError(KafkaError._FATAL))

    opened: list[Producer] = []

    def opening(config: dict[str, Any]) -> Producer:
        opened.append(Producer(config))
        return opened[-1]

    with Launcher(ABSENT) as launcher:
        monkeypatch.setattr(launcher, "_producer", Ended())
        monkeypatch.setattr(module, "Producer", opening)
        threads = [threading.Thread(target=launcher.submitted, args=(submission(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(opened), launcher.counts.queued) == (1, 2)
        launcher.close(0.0)


def test_what_a_client_holds_that_has_ended_has_failed(absent: Launcher) -> None:
    assert absent.submitted(submission())
    fail(absent._producer)
    assert absent.counts.queued == 1  # nothing is raised to the host
    assert absent.submitted(submission())
    assert absent.counts == Counts(queued=2, delivered=0, failed=1, dropped=0)
    fail(absent._producer)
    assert absent.submitted(submission())
    assert absent.counts == Counts(queued=3, delivered=0, failed=2, dropped=0)


def test_many_threads_lose_nothing(topics: Settings) -> None:
    with Launcher(topics) as launcher:

        def send(thread: int) -> None:
            for number in range(200):
                launcher.submitted(submission(f"{thread}-{number}"))

        threads = [threading.Thread(target=send, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert launcher.close() == 0
        assert launcher.counts == Counts(queued=1600, delivered=1600, failed=0, dropped=0)
    assert len({message.key for message in messages(topics, SUBMITTED)}) == 1600


def _send_in_child(launcher: Launcher, answers: "SimpleQueue[bool]") -> None:
    answers.put(launcher.submitted(submission()))
    answers.put(launcher.close() == 0)


@pytest.mark.filterwarnings("ignore:.*multi-?threaded")  # also of JAX, which other tests may have started
def test_copy_in_a_forked_child_drops(absent: Launcher) -> None:
    context = multiprocessing.get_context("fork")
    answers: SimpleQueue[bool] = context.SimpleQueue()
    child = context.Process(target=_send_in_child, args=(absent, answers))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert [answers.get(), answers.get()] == [False, True]
    assert absent.submitted(submission())


@pytest.mark.filterwarnings("ignore:.*multi-?threaded")
def test_a_copy_forked_while_another_thread_counts_drops_too(absent: Launcher) -> None:
    held, release = threading.Event(), threading.Event()

    def count() -> None:
        with absent._lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=count)
    thread.start()
    assert held.wait(60)
    assert in_child(lambda: str(absent.submitted(submission()))) == "False"
    release.set()
    thread.join(60)


def test_events_of_a_script_that_never_closes_are_sent(topics: Settings) -> None:
    script = """
import os
from leap.streams.launcher.launcher import Launcher
from leap.streams.runtime.settings import Settings
launcher = Launcher(Settings.from_environment(os.environ))
assert launcher.submitted({"attempt_id": "a-1", "job_name": "bert", "model_type": "bert",
    "submitted_at": "2024-03-01T08:00:00Z", "config": {"num_trainers": 1, "accelerators_per_trainer": 8}})
"""
    subprocess.run([sys.executable, "-c", script], env=topics.to_environment() | {"PYTHONPATH": "."}, check=True)
    assert [message.key for message in messages(topics, SUBMITTED)] == [b"a-1"]


def test_preference_list_of_an_attempt_is_heard(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "leap.streams.launcher.preference_follower.READY_S", 60.0
    )  # the topic is new, and what comes before is not heard
    answer = PreferenceList(attempt_id="a-2", model_type="bert", no_opinion="no artifact", decided_at=START)
    producer = CheckedProducer(topics)
    with Launcher(topics, follow_preferences=True) as launcher:
        for attempt_id in ("a-1", "a-2"):
            launcher.submitted(submission(attempt_id))
        for value in (
            b"no JSON",
            encode(msgspec.structs.replace(answer, attempt_id="other")),
            encode(answer),
        ):
            producer.produce(topics.topic(PREFERENCES), value)
        producer.flush()
        assert launcher.preference("a-2", deadline=60.0) == answer
        for attempt_id in ("a-1", "a-2", "other"):  # unanswered, already handed out, of another launcher
            late = launcher.preference(attempt_id, deadline=0.05)
            assert (late.attempt_id, late.ranked) == (attempt_id, ())
            assert late.no_opinion == DEADLINE_EXCEEDED == "deadline exceeded"


def test_preference_with_the_broker_away_is_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.streams.launcher.preference_follower.READY_S", 0.05)
    with Launcher(ABSENT, follow_preferences=True) as launcher:
        launcher.submitted(submission())
        assert launcher.preference("a-1", deadline=0.05).no_opinion == DEADLINE_EXCEEDED
        assert launcher.preference("a-1", deadline=float("nan")).no_opinion == DEADLINE_EXCEEDED
        launcher.close(0.0)
    with Launcher(ABSENT) as launcher:
        assert launcher.preference("a-1", deadline=60.0).no_opinion == DEADLINE_EXCEEDED
