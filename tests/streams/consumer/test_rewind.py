"""What was committed and is lost is read again."""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from leap.schemas.codec import encode
from leap.schemas.topics import COMPLETED
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.history.store import HistoryStore
from leap.streams.history.worker import history_loop
from leap.streams.joining.worker import joiner_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message, Rewind
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.streams.history.test_worker import assert_exact, completed, send, statistics
from tests.streams.joining.attempt_parts import completion, submission
from tests.streams.joining.test_worker import rows
from tests.streams.joining.test_worker import send as send_parts


def test_rewind_seeks_back_to_the_given_offset(topics: Settings) -> None:
    producer = CheckedProducer(topics)
    for number in range(300):
        producer.produce(topics.topic(COMPLETED), b"%d" % number, b"%d" % number)
    producer.flush()
    seen: Counter[tuple[int, int]] = Counter()
    rewound: list[int] = []

    def handle(batch: list[Message]) -> None:
        for message in batch:
            assert message.position == message.offset, "there are no gaps in this topic"
        if batch[0].offset >= 10 and not rewound:
            rewound.append(batch[0].partition)
            raise Rewind({(batch[0].topic, batch[0].partition): 4})
        seen.update((message.partition, message.offset) for message in batch)

    BatchLoop(topics, "w", [topics.topic(COMPLETED)], handle, batch_size=20).run(until_end=True)
    assert len(seen) == 300
    again = {position for position, count in seen.items() if count > 1}
    assert {partition for partition, _ in again} == set(rewound)
    assert min(offset for _, offset in again) == 4


@pytest.mark.parametrize("goes_on", [True, False], ids=["while messages come", "while none comes"])
def test_flushed_history_store_is_refilled_from_the_topic(
    topics: Settings, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    if not goes_on:
        monkeypatch.setattr("leap.streams.consumer.partition_watcher.REFRESH_EVERY_S", 0.2)
    events = [completed(number, random.Random(number)) for number in range(400)]
    send(topics, [encode(event) for event in events[:300]])
    loop = history_loop(topics)
    working = threading.Thread(target=loop.run, daemon=True)
    working.start()
    try:
        wait_for(topics, events[:300])
        with connect(topics.redis_url) as client:
            HistoryStore(client, topics.redis_prefix).remove("throughput", 0)
        if goes_on:
            send(topics, [encode(event) for event in events[300:]])
        wait_for(topics, events if goes_on else events[:300])
    finally:
        loop.stop()
        working.join(30)
    assert_exact(topics, events if goes_on else events[:300])


def wait_for(settings: Settings, events: Sequence[object]) -> None:
    while sum(statistic.n for key, statistic in statistics(settings).items() if key.kind == "family") < len(events):
        time.sleep(0.05)  # pytest-timeout ends it


def test_lost_parts_are_consumed_again(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.streams.consumer.partition_watcher.REFRESH_EVERY_S", 0.2)
    names = [f"a-{number}" for number in range(50)]
    send_parts(topics, [submission(name) for name in names])
    joiner_loop(topics).run(until_end=True)
    with connect(topics.redis_url) as client:
        for key in client.scan_iter(f"{topics.redis_prefix}:*"):
            client.delete(key)
    send_parts(topics, [completion(name) for name in names])
    loop = joiner_loop(topics)
    working = threading.Thread(target=loop.run, daemon=True)
    working.start()
    while rows(topics).keys() != set(names):
        time.sleep(0.05)
    loop.stop()
    working.join(30)
