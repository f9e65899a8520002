"""What a worker does when a client of its ends, or its store is away."""

import subprocess
import sys
from collections.abc import Callable
from unittest.mock import MagicMock

import pytest
from confluent_kafka import TopicPartition
from prometheus_client import REGISTRY

from leap.schemas.topics import COMPLETED
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.topic_admin import TopicError
from leap.streams.runtime import metrics
from leap.streams.runtime.settings import Settings
from tests.streams.consumer.test_batch_loop import send

WORKER = """
import os, sys
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.runtime.settings import Settings
from leap.streams.consumer.run import run_worker
from tests.streams.consumer.fatal import fail

settings = Settings.from_environment(os.environ)
outputs = CheckedProducer(settings)

def handle(batch):
    print("batch", flush=True)
    fail(outputs._producer if "producer" in sys.argv else loop._consumer)
    outputs.produce(settings.topic("dead-letter"), b"x")

loop = BatchLoop(settings, "w", [settings.topic("job-completed")], handle, outputs=outputs)
run_worker(loop, settings)
"""


@pytest.mark.parametrize("client", ["producer", "consumer"])
def test_fatal_client_error_ends_the_worker(topics: Settings, client: str) -> None:
    """In a process of its own: the client would spin on in this one."""
    send(topics, 1)
    environment = topics.to_environment() | {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", WORKER, client]
    worker = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (worker.returncode, worker.stdout.splitlines().count("batch")) == (1, 1), worker.stderr
    assert "KafkaException: KafkaError{code=_FATAL" in worker.stderr


def test_failed_lookup_of_committed_offsets_ends_the_worker(topics: Settings) -> None:
    environment = topics.to_environment() | {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    script = "import leap.streams.consumer.batch_loop; leap.streams.consumer.batch_loop.ANSWER_S = 0.0\n" + WORKER
    command = [sys.executable, "-c", script]
    worker = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert worker.returncode == 1
    assert "committed offsets" in worker.stderr and "StuckError: w: its loop has ended" in worker.stderr


def test_end_offsets_are_refreshed_while_a_batch_waits_for_retry(
    topics: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leap.streams.consumer.partition_watcher.REFRESH_EVERY_S", 0.0)
    send(topics, 1)
    answered: list[float] = []

    def handle(batch: list[Message]) -> None:
        answered.append(REGISTRY.get_sample_value("leap_broker_answered_timestamp_seconds", {"worker": "waits"}) or 0.0)
        if len(answered) < 3:
            metrics.BROKER_ANSWERED.labels("waits").set(0.0)
            raise ConnectionError("the store is away")

    BatchLoop(topics, "waits", [topics.topic(COMPLETED)], handle).run(until_end=True)
    assert len(answered) == 3 and min(answered[1:]) > 0.0


def test_batch_size_is_capped_in_bytes(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.streams.consumer.batch_loop.BATCH_BYTES", 30)
    monkeypatch.setattr("leap.streams.consumer.batch_loop.POLL_SIZE", 1)
    producer = CheckedProducer(topics)
    for number in range(9):
        producer.produce(topics.topic(COMPLETED), b"%020d" % number, b"one partition")
    producer.flush()
    batches: list[list[Message]] = []
    BatchLoop(topics, "large", [topics.topic(COMPLETED)], batches.append).run(until_end=True)
    assert [int(message.value or b"") for batch in batches for message in batch] == list(range(9))
    assert max(map(len, batches)) <= 2


def message(partition: int, offset: int = 100) -> MagicMock:
    values = {"topic": "t", "partition": partition, "offset": offset, "error": None, "headers": None, "key": None}
    raw = MagicMock(**{f"{name}.return_value": value for name, value in values.items()})
    raw.timestamp.return_value, raw.__len__.return_value = (1, 1000), 1
    return raw


def mocked_loop(handle: Callable[[list[Message]], None]) -> tuple[BatchLoop, MagicMock, MagicMock]:
    """A loop that has two partitions, and its consumer and watcher, which a test makes do something."""
    loop = BatchLoop(Settings.from_environment({}), "w", ["t"], handle)
    consumer, watcher = MagicMock(), MagicMock(ids={"t": "id"})
    loop._consumer, loop._watcher, loop._ids = consumer, watcher, watcher.ids
    consumer.committed.side_effect = lambda asked, timeout: [TopicPartition(o.topic, o.partition, 100) for o in asked]
    loop._on_assign(consumer, [TopicPartition("t", 0), TopicPartition("t", 1)])
    return loop, consumer, watcher


def test_messages_of_a_partition_revoked_during_poll_are_dropped() -> None:
    """Another worker has it now: to handle it too would be once too often, and to commit it would be to go back."""

    def consume(most: int, seconds: float) -> list[MagicMock]:
        loop._on_revoke(consumer, [TopicPartition("t", 0), TopicPartition("t", 1)])
        loop._on_assign(consumer, [TopicPartition("t", 1)])
        consumer.consume.side_effect = [[]]
        return [message(1)]

    loop, consumer, _ = mocked_loop(lambda batch: None)
    consumer.poll.return_value, consumer.consume.side_effect = message(0), consume
    assert [(taken.partition, taken.offset) for taken in loop._take()] == [(1, 100)]
    assert loop._at_end == {("t", 1): False}


@pytest.mark.parametrize("fails", [False, True])
def test_on_revocation_what_is_handled_is_committed_and_nothing_else(fails: bool) -> None:
    def handle(batch: list[Message]) -> None:
        if fails:
            raise ConnectionError("the store is away")

    def poll(seconds: float) -> None:  # while the batch waits for its retry, or the loop for messages
        loop._on_revoke(consumer, [TopicPartition("t", 0), TopicPartition("t", 1)])

    loop, consumer, _ = mocked_loop(handle)
    consumer.poll.side_effect, consumer.consume.return_value = poll, []
    loop._process([Message("t", "id", 0, 100, None, b"", 0)])
    loop._take()
    committed = [call.kwargs["offsets"] for call in consumer.commit.call_args_list]
    assert [[(one.partition, one.offset) for one in each] for each in committed] == ([] if fails else [[(0, 101)]])
    assert loop._uncommitted == []


def test_nothing_is_committed_when_an_error_ends_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing revokes; what was handled of a topic that was recreated meanwhile must not become its position."""
    loop, consumer, watcher = mocked_loop(lambda batch: None)
    consumer.poll.side_effect, consumer.consume.return_value = [message(0), message(0, offset=5)], []
    consumer.close.side_effect = lambda: loop._on_revoke(consumer, [TopicPartition("t", 0), TopicPartition("t", 1)])
    watcher.refresh.side_effect = TopicError("t was recreated")
    monkeypatch.setattr("leap.streams.consumer.batch_loop.Consumer", lambda config: consumer)
    monkeypatch.setattr("leap.streams.consumer.batch_loop.PartitionWatcher", lambda *any: watcher)
    with pytest.raises(TopicError):
        loop.run()
    consumer.commit.assert_not_called()
