"""What a worker does when a client of its ends, or its store is away."""

import pytest
from confluent_kafka import KafkaException
from prometheus_client import REGISTRY

from schemas.topics import COMPLETED, DEAD_LETTERS
from streams import metrics
from streams.consume import BatchLoop, Message
from streams.kafka import CheckedProducer
from streams.settings import Settings
from tests.streams.fatal import fail
from tests.streams.test_batch_loop import send, values


@pytest.mark.parametrize("client", ["producer", "consumer"])
def test_a_client_that_has_ended_ends_the_worker(topics: Settings, client: str) -> None:
    send(topics, 1)
    outputs = CheckedProducer(topics)
    tries: list[int] = []

    def handle(batch: list[Message]) -> None:
        fail(outputs._producer if client == "producer" else loop._consumer)
        tries.extend(values(batch))
        outputs.produce(topics.topic(DEAD_LETTERS), b"x")

    loop = BatchLoop(topics, "w", [topics.topic(COMPLETED)], handle, outputs=outputs)
    with pytest.raises(KafkaException, match="_FATAL"):
        loop.run()
    assert tries == [0]


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
