"""What a worker does when a client of its ends, or its store is away."""

import subprocess
import sys
from unittest.mock import MagicMock

import pytest
from confluent_kafka import TopicPartition
from prometheus_client import REGISTRY

from leap.schemas.topics import COMPLETED
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
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


def test_messages_of_a_partition_revoked_during_poll_are_dropped() -> None:
    """Another worker has it now: to handle it too would be once too often, and to commit it would be to go back."""

    def message(partition: int) -> MagicMock:
        values = {"topic": "t", "partition": partition, "offset": 100, "error": None, "headers": None, "key": None}
        raw = MagicMock(**{f"{name}.return_value": value for name, value in values.items()})
        raw.timestamp.return_value, raw.__len__.return_value = (1, 1000), 1
        return raw

    def consume(most: int, seconds: float) -> list[MagicMock]:
        loop._on_revoke(consumer, [TopicPartition("t", 0), TopicPartition("t", 1)])
        loop._on_assign(consumer, [TopicPartition("t", 1)])
        consumer.consume.side_effect = [[]]
        return [message(1)]

    loop = BatchLoop(Settings.from_environment({}), "w", ["t"], lambda batch: None)
    loop._consumer, loop._watcher, loop._ids = MagicMock(), MagicMock(), {"t": "id"}
    consumer = loop._consumer
    consumer.committed.side_effect = lambda asked, timeout: [TopicPartition(o.topic, o.partition, 100) for o in asked]
    consumer.poll.return_value, consumer.consume.side_effect = message(0), consume
    loop._on_assign(consumer, [TopicPartition("t", 0), TopicPartition("t", 1)])
    assert [(taken.partition, taken.offset) for taken in loop._take()] == [(1, 100)]
    assert loop._at_end == {("t", 1): False}
