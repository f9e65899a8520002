"""What hears the preference lists: from the moment that it is ready, of every partition, whatever fails meanwhile."""

import math
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from leap.schemas.codec import encode
from leap.schemas.events import PreferenceList
from leap.schemas.topics import PREFERENCES
from leap.streams.kafka.clients import CheckedProducer, admin_config
from leap.streams.launcher import preference_follower as module
from leap.streams.launcher.launcher import Launcher
from leap.streams.launcher.preference_follower import PreferenceFollower
from leap.streams.runtime.settings import Settings
from tests.streams.launcher.test_launcher import submission

ABSENT = Settings.from_environment({"LEAP_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"})


def answer(attempt_id: str) -> PreferenceList:
    return PreferenceList(attempt_id=attempt_id, no_opinion="no artifact", decided_at=datetime(2026, 1, 1, tzinfo=UTC))


class FakeMessage:
    """A list, or the end of its partition."""

    def __init__(self, partition: int, offset: int, attempt_id: str | None = None) -> None:
        self._place, self._attempt_id = (partition, offset), attempt_id

    def error(self) -> KafkaError | None:
        return None if self._attempt_id else KafkaError(KafkaError._PARTITION_EOF)

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def value(self) -> bytes:
        return encode(answer(self._attempt_id or ""))


class FakeBroker:
    """A topic in memory, and the consumers that read it."""

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[str]] = [["old"] for _ in range(partitions)]
        self.leaderless: set[int] = set()
        self.assigned: list[dict[int, int]] = []
        self.fail = False

    def consumer(self, _: object) -> "FakeConsumer":
        return FakeConsumer(self)


class FakeConsumer:
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._position: dict[int, int] = {}
        self._ended: set[int] = set()
        self._turn: deque[int] = deque()

    def list_topics(self, topic: str, timeout: float) -> Any:
        partitions = dict.fromkeys(range(len(self._broker.logs)))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[Any]:
        return [
            SimpleNamespace(partition=one.partition, offset=len(self._broker.logs[one.partition]), error=None)
            for one in asked
        ]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._broker.assigned.append({one.partition: one.offset for one in partitions})
        begin = {OFFSET_BEGINNING: 0}
        self._position = {one.partition: begin.get(one.offset, one.offset) for one in partitions}
        self._ended.clear()
        self._turn = deque(self._position)

    def poll(self, timeout: float) -> FakeMessage | None:
        if self._broker.fail:
            self._broker.fail = False
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self._turn.rotate()
        for partition in set(self._turn) - self._broker.leaderless:
            offset, log = self._position[partition], self._broker.logs[partition]
            if offset < len(log):
                self._position[partition] += 1
                self._ended.discard(partition)
                return FakeMessage(partition, offset, log[offset])
            if partition not in self._ended:
                self._ended.add(partition)
                return FakeMessage(partition, offset)
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    made = FakeBroker(2)
    monkeypatch.setattr(module, "Consumer", made.consumer)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    monkeypatch.setattr(module, "READY_S", 0.05)
    return made


@pytest.fixture
def follower(broker: FakeBroker) -> Iterator[PreferenceFollower]:
    made = PreferenceFollower(ABSENT)
    yield made
    made.close()


def test_lists_in_partitions_that_were_added_are_heard(broker: FakeBroker, follower: PreferenceFollower) -> None:
    assert follower.ready(60.0)
    attempts = [f"a-{number}" for number in range(40)]
    for attempt_id in attempts:
        follower.expect(attempt_id)
    broker.logs += [[], []]
    for number, attempt_id in enumerate(attempts):
        broker.logs[number % 4].append(attempt_id)
    assert [follower.wait(attempt_id, 60.0) for attempt_id in attempts] == [answer(one) for one in attempts]
    assert broker.assigned[0] == {0: 1, 1: 1}
    assert {broker.assigned[-1][2], broker.assigned[-1][3]} == {OFFSET_BEGINNING}


def test_a_reader_that_failed_goes_on_where_it_was(broker: FakeBroker, follower: PreferenceFollower) -> None:
    assert follower.ready(60.0)
    for attempt_id in ("a-0", "a-1"):
        follower.expect(attempt_id)
    broker.logs[0].append("a-0")
    assert follower.wait("a-0", 60.0) == answer("a-0")
    broker.logs[1].append("a-1")
    broker.fail = True
    assert follower.wait("a-1", 60.0) == answer("a-1")


def test_it_is_ready_once_every_partition_is_read(broker: FakeBroker) -> None:
    broker.leaderless.add(1)
    follower = PreferenceFollower(ABSENT)
    assert not follower.ready(0.05)
    broker.leaderless.clear()
    assert follower.ready(60.0)
    follower.close()


def test_a_launcher_that_is_ready_hears_an_answer_in_time(topics: Settings) -> None:
    producer = CheckedProducer(topics)
    with Launcher(topics, follow_preferences=True) as launcher:
        assert launcher.ready(60.0)
        launcher.submitted(submission("a-1"))
        producer.produce(topics.topic(PREFERENCES), encode(answer("a-1")))
        producer.flush()
        assert launcher.preference("a-1", deadline=math.inf) == answer("a-1")
    assert not launcher.ready(60.0), "it is closed"


def test_a_launcher_is_not_ready_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READY_S", 0.05)
    with Launcher(ABSENT, follow_preferences=True) as launcher:
        assert not launcher.ready(0.05)
        assert not launcher.ready(math.nan)
    with Launcher(ABSENT) as launcher:
        assert launcher.ready(0.0), "there is nothing that it would have to hear"


@pytest.mark.real("the embedded broker adds no partitions")
def test_lists_in_partitions_added_to_a_real_topic_are_heard(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.2)
    admin, topic = AdminClient(admin_config(topics)), topics.topic(PREFERENCES)
    before = len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
    attempts = [f"a-{number}" for number in range(4 * before)]
    with Launcher(topics, follow_preferences=True) as launcher:
        assert launcher.ready(60.0)
        for attempt_id in attempts:
            launcher.submitted(submission(attempt_id))
        admin.create_partitions([NewPartitions(topic, 2 * before)])[topic].result(30)
        producer = Producer(admin_config(topics))
        while len(producer.list_topics(topic, timeout=30).topics[topic].partitions) < 2 * before:
            pass
        for number, attempt_id in enumerate(attempts):
            producer.produce(topic, encode(answer(attempt_id)), partition=number % (2 * before))
        assert producer.flush(60) == 0
        assert [launcher.preference(attempt_id, 60.0) for attempt_id in attempts] == [answer(one) for one in attempts]
