"""What a worker does when a client of its ends, or its store is away."""

import pytest
from confluent_kafka import KafkaException

from schemas.topics import COMPLETED, DEAD_LETTERS
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
