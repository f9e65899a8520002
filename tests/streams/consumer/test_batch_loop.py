import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client import REGISTRY

from leap.schemas.codec import decode
from leap.schemas.errors import BrokerError
from leap.schemas.events import DeadLetter
from leap.schemas.topics import COMPLETED, DEAD_LETTERS, load_topics
from leap.streams.consumer import batch_loop
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.kafka.clients import CheckedProducer, DeliveryError, commit_offsets, consumer_config
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import TopicError, ensure_topics, topic_ids
from leap.streams.runtime import metrics
from leap.streams.runtime.settings import Settings
from tests.streams.kafka.deletion import delete_topic
from tests.streams.kafka.test_contract import Declared

Place = tuple[int, int]
PARTITIONS = load_topics()[COMPLETED].partitions


def send(settings: Settings, count: int) -> None:
    producer = CheckedProducer(settings)
    for number in range(count):
        producer.produce(settings.topic(COMPLETED), str(number).encode(), str(number).encode())
    producer.flush()


def values(messages: list[Message]) -> list[int]:
    return [int(message.value or b"") for message in messages]


def committed(settings: Settings, group: str) -> int:
    """Sum of the committed offsets of a group, which starts from nothing."""
    consumer = Consumer(consumer_config(settings, group))
    partitions = [TopicPartition(settings.topic(COMPLETED), number) for number in range(PARTITIONS)]
    try:
        return sum(max(0, partition.offset) for partition in consumer.committed(partitions, timeout=10))
    finally:
        consumer.close()


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # pytest-timeout ends it
        time.sleep(0.02)


@contextmanager
def running(loop: BatchLoop) -> Iterator[None]:
    failures: list[Exception] = []

    def work() -> None:
        try:
            loop.run()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.stop()
        thread.join(30)
    assert not thread.is_alive()
    assert not failures


class Journal:
    """What a loop handles, has acknowledged and commits; one of its steps fails twice.

    Each is by partition: the first offset that it has not reached.
    """

    def __init__(self, settings: Settings, broken: str) -> None:
        self.handled: dict[int, int] = {}
        self.acknowledged: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.wrong: list[object] = []  # an assertion would be retried as any error of a batch
        self._broken, self._calls = broken, 0
        topic = settings.topic(COMPLETED)
        self.loop = BatchLoop(settings, "w", [topic], self.handle, outputs=self, batch_size=20)

    def _step(self, step: str) -> None:
        self._calls += step == self._broken
        if step == self._broken and self._calls in (2, 3):
            if step != "commit":
                self.handled = dict(self.committed)  # all that is not committed is to be handled again
            raise ConnectionError(f"{step} fails")
        if step == self._broken and self._calls == 4 and self.loop.progress.ready():
            self.wrong.append("ready while failing")

    def handle(self, batch: list[Message]) -> None:
        self._step("handle")
        for message in batch:
            if message.offset != self.handled.get(message.partition, 0):
                self.wrong.append((message.partition, message.offset, self.handled))
            self.handled[message.partition] = message.offset + 1

    def flush(self) -> None:
        self._step("flush")
        self.acknowledged = dict(self.handled)

    def commit(self, consumer: object, positions: dict[tuple[str, int], int]) -> None:
        self._step("commit")
        self.committed |= {number: position for (_, number), position in positions.items()}
        if not self.committed.items() <= self.acknowledged.items():
            self.wrong.append(("committed", self.committed, "of", self.acknowledged))
        commit_offsets(self.loop._consumer, positions)


@pytest.mark.parametrize("every_s", [0.0, 60.0], ids=["each batch", "when idle"])
@pytest.mark.parametrize("broken", ["", "handle", "flush", "commit"])
def test_only_what_is_acknowledged_is_committed(
    topics: Settings, monkeypatch: pytest.MonkeyPatch, broken: str, every_s: float
) -> None:
    """And whatever fails, all that is not committed is handled again, in order, before anything else."""
    send(topics, 60)
    journal = Journal(topics, broken)
    monkeypatch.setattr("leap.streams.consumer.batch_loop.COMMIT_EVERY_S", every_s)
    monkeypatch.setattr("leap.streams.consumer.batch_loop.commit_offsets", journal.commit)
    journal.loop.run(until_end=True)
    assert not journal.wrong
    assert committed(topics, "w") == sum(journal.committed.values()) == 60


def test_dead_letters_are_flushed_before_the_commit(topics: Settings) -> None:
    class Broken(CheckedProducer):
        flushes: list[int]

        def flush(self, seconds: float = 30.0) -> None:
            self.flushes.append(committed(topics, "w"))
            super().flush(seconds)
            if len(self.flushes) == 1:
                raise DeliveryError(1, 0, "")

    send(topics, 10)
    outputs = Broken(topics)
    outputs.flushes = []
    dead_letters = DeadLetters(topics, outputs, "w")

    def handle(batch: list[Message]) -> None:
        for message in batch:
            dead_letters.add(message, "no good")

    BatchLoop(topics, "w", [topics.topic(COMPLETED)], handle, outputs=outputs).run(until_end=True)
    assert outputs.flushes[:2] == [0, 0]
    assert committed(topics, "w") == 10
    letters = [decode(m.value, DeadLetter) for m in read_range(topics, topics.topic(DEAD_LETTERS))]
    places = {(letter.partition, letter.offset): letter.value for letter in letters}
    sent = {(m.partition, m.offset): m.value for m in read_range(topics, topics.topic(COMPLETED))}
    assert places == sent
    assert len(letters) > len(sent)  # the first batch twice, and nothing lost


def test_second_worker_takes_half_of_the_partitions(topics: Settings) -> None:
    send(topics, 100)
    seen: dict[str, list[int]] = {"a": [], "b": []}
    topic = [topics.topic(COMPLETED)]
    with running(BatchLoop(topics, "w", topic, lambda batch: seen["a"].extend(values(batch)))):
        wait_until(lambda: len(seen["a"]) == 100)
        with running(BatchLoop(topics, "w", topic, lambda batch: seen["b"].extend(values(batch)))):
            while not seen["b"]:
                send(topics, 100)
        alone = len(seen["a"])
        send(topics, 100)
        sent = sum(1 for _ in read_range(topics, topic[0]))
        wait_until(lambda: committed(topics, "w") == sent)
    assert len(seen["a"]) >= alone + 100
    assert len(seen["a"]) + len(seen["b"]) >= sent


def test_failing_worker_drops_messages_of_revoked_partitions(topics: Settings) -> None:
    send(topics, 200)
    broken = threading.Event()
    broken.set()
    seen: set[int] = set()
    tried: list[set[int]] = []

    def failing(batch: list[Message]) -> None:
        tried.append({message.partition for message in batch})
        if broken.is_set():
            raise ConnectionError("the store is away")
        seen.update(values(batch))

    topic = [topics.topic(COMPLETED)]
    with running(BatchLoop(topics, "w", topic, failing)):
        wait_until(lambda: len(tried) > 1)
        with running(BatchLoop(topics, "w", topic, lambda batch: seen.update(values(batch)))):
            wait_until(lambda: bool(seen))
            wait_until(lambda: len(tried[-1]) < PARTITIONS)
            broken.clear()
            wait_until(lambda: len(seen) == 200)
    assert committed(topics, "w") == 200


def test_batch_longer_than_max_poll_interval_is_redelivered(topics: Settings) -> None:
    send(topics, 50)
    slow = Settings.from_environment(topics.to_environment() | {"LEAP_KAFKA_MAX_POLL_INTERVAL_MS": "1000"})
    seen: list[int] = []

    def handle(batch: list[Message]) -> None:
        if not seen:
            time.sleep(2)
        seen.extend(values(batch))

    with running(BatchLoop(slow, "w", [slow.topic(COMPLETED)], handle)):
        wait_until(lambda: committed(topics, "w") == 50)
    assert set(seen) == set(range(50))


WORKER = """
import json, os, sys, time
import structlog
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.runtime.settings import Settings

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
settings = Settings.from_environment(os.environ)

def handle(batch):
    for message in batch:
        print(json.dumps([message.partition, message.offset]))
    print("null", flush=True)
    if "hang" in sys.argv:
        time.sleep(60)

BatchLoop(settings, "w", [settings.topic("job-completed")], handle, batch_size=40).run(until_end=True)
"""


def places(output: str) -> list[Place]:
    return [(position[0], position[1]) for line in output.splitlines() if (position := json.loads(line))]


def test_uncommitted_batch_of_a_killed_worker_is_redelivered(topics: Settings, tmp_path: Path) -> None:
    send(topics, 100)
    environment = topics.to_environment() | {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    first = subprocess.Popen([sys.executable, "-c", WORKER, "hang"], env=environment, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    taken = places("".join(iter(first.stdout.readline, "null\n")))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = subprocess.run(
        [sys.executable, "-c", WORKER], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    again = places(second.stdout)
    assert set(taken) <= set(again)
    assert len(again) == len(set(again)) == 100


def test_missing_topic_raises_at_startup(settings: Settings) -> None:
    loop = BatchLoop(settings, "w", [settings.topic(COMPLETED)], lambda batch: None)
    with pytest.raises(TopicError, match="job-completed"):
        loop.run()


@pytest.mark.real("librdkafka crashes when the embedded broker does this")
def test_recreated_topic_is_read_from_its_beginning(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.streams.consumer.partition_watcher.REFRESH_EVERY_S", 0.2)
    seen: list[Message] = []
    topic = topics.topic(COMPLETED)
    send(topics, 50)
    failures: list[Exception] = []

    def work() -> None:
        try:
            BatchLoop(topics, "w", [topic], seen.extend).run()
        except TopicError as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    wait_until(lambda: committed(topics, "w") == 50)
    delete_topic(topics, topic)
    ensure_topics(topics, load_topics().values())
    send(topics, 70)
    thread.join()
    assert "recreated" in str(failures[0])
    BatchLoop(topics, "w", [topic], seen.extend).run(until_end=True)
    now = topic_ids(topics, [topic])[topic]
    assert set(values([m for m in seen if m.topic_id == now])) == set(range(70))
    assert committed(topics, "w") == 70


def test_counters_start_at_0_and_lag_is_removed_on_revocation(topics: Settings) -> None:
    topic = topics.topic(COMPLETED)
    loop = BatchLoop(topics, "told", [topic], lambda batch: None)
    labels = {"worker": "told", "topic": topic}
    assert REGISTRY.get_sample_value("leap_dead_letters_total", labels) == 0.0
    assert REGISTRY.get_sample_value("leap_batch_failures_total", {"worker": "told"}) == 0.0
    send(topics, 3)
    metrics.LAG.labels("told", topic, "0").set(7)
    loop.run(until_end=True)
    assert REGISTRY.get_sample_value("leap_consumed_total", labels) == 3.0
    assert REGISTRY.get_sample_value("leap_lag_messages", labels | {"partition": "0"}) is None


def test_a_run_to_the_end_gives_up_on_a_batch_that_goes_on_failing(
    topics: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_loop, "END_S", 3.0)

    def fail(batch: list[Message]) -> None:
        raise OSError("no space left")

    send(topics, 1)
    with pytest.raises(OSError, match="no space left"):
        BatchLoop(topics, "w", [topics.topic(COMPLETED)], fail).run(until_end=True)


def test_a_run_to_the_end_says_what_it_waits_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of one partition, which another member of the group has."""
    monkeypatch.setattr(batch_loop, "END_S", 2.0)
    topic = settings.topic("some-topic")
    ensure_topics(settings, [Declared(partitions=1)])
    other = BatchLoop(settings, "w", [topic], lambda batch: None)
    with running(other):
        wait_until(lambda: bool(other._at_end))
        second = BatchLoop(settings, "w", [topic], lambda batch: None)
        second._on_assign = lambda consumer, partitions: consumer.assign([])  # type: ignore[method-assign]
        with pytest.raises(BrokerError, match=f"waited 2 s for a partition of {topic}; does another process read"):
            second.run(until_end=True)
