"""What a worker does when a client of its ends, or its store is away."""

import subprocess
import sys

import pytest
from prometheus_client import REGISTRY

from schemas.topics import COMPLETED
from streams import metrics
from streams.consume import BatchLoop, Message
from streams.settings import Settings
from tests.streams.test_batch_loop import send

WORKER = """
import os, sys
from streams.consume import BatchLoop
from streams.kafka import CheckedProducer
from streams.settings import Settings
from streams.worker import run_worker
from tests.streams.fatal import fail

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
def test_a_client_that_has_ended_ends_the_worker(topics: Settings, client: str) -> None:
    """In a process of its own: the client would spin on in this one."""
    send(topics, 1)
    environment = topics.to_environment() | {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", WORKER, client]
    worker = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (worker.returncode, worker.stdout.splitlines().count("batch")) == (1, 1), worker.stderr
    assert "KafkaException: KafkaError{code=_FATAL" in worker.stderr


def test_the_broker_is_asked_while_a_batch_waits(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.lookout.LOOK_EVERY_S", 0.0)
    send(topics, 1)
    answered: list[float] = []

    def handle(batch: list[Message]) -> None:
        answered.append(REGISTRY.get_sample_value("leap_broker_answered_timestamp_seconds", {"worker": "waits"}) or 0.0)
        if len(answered) < 3:
            metrics.BROKER_ANSWERED.labels("waits").set(0.0)
            raise ConnectionError("the store is away")

    BatchLoop(topics, "waits", [topics.topic(COMPLETED)], handle).run(until_end=True)
    assert len(answered) == 3 and min(answered[1:]) > 0.0
