"""What the tests of ``leap doctor`` are made of."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from leap.schemas.topics import load_topics
from leap.streams.doctor.check import CheckContext, CheckFailed
from leap.streams.kafka.clients import CheckedProducer, consumer_config
from leap.streams.runtime.acl import ROLES
from leap.streams.runtime.settings import Settings


@contextmanager
def members(settings: Settings, *workers: str) -> Iterator[None]:
    """One member in each group, that does nothing."""
    with ExitStack() as stack:
        consumers = []
        for worker in workers:
            consumer = Consumer(consumer_config(settings, worker))
            stack.callback(consumer.close)
            role = ROLES[worker].name
            consumer.subscribe(
                [settings.topic(name) for name, topic in load_topics().items() if role in topic.consumers]
            )
            consumers.append(consumer)
        deadline = time.monotonic() + 60
        while not all(consumer.assignment() for consumer in consumers):
            assert time.monotonic() < deadline, "no assignment"
            for consumer in consumers:
                consumer.poll(0.05)
        yield


def send(settings: Settings, topic: str, at_ms: int = 0, partition_key: bytes = b"k") -> None:
    producer = CheckedProducer(settings)
    producer.produce(settings.topic(topic), b"{}", partition_key, timestamp_ms=at_ms)
    producer.flush()


def failure_of(check: Any, context: CheckContext) -> CheckFailed:
    with pytest.raises(CheckFailed) as caught:
        check(context)
    assert caught.value.remedy
    return caught.value
