"""Clients, topics and ranges, on whichever broker the tests run."""

import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from leap.schemas.errors import BrokerError
from leap.schemas.topics import COMPLETED, load_topics
from leap.streams.cli.topics import app as topics_app
from leap.streams.cli.worker import app as worker_app
from leap.streams.embedded import free_port
from leap.streams.kafka.clients import MAX_REQUEST_BYTES, CheckedProducer, DeliveryError, admin_config, producer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import TopicError, assert_topics, ensure_topics, topic_ids
from leap.streams.runtime.settings import Settings
from tests.streams.kafka.deletion import delete_topic

T0 = int(time.time() * 1000) - 3_600_000  # what is older than a topic's retention, Kafka deletes when it looks


@dataclass(frozen=True)
class Declared:
    name: str = "some-topic"
    partitions: int = 3
    retention_ms: int = 3_600_000
    cleanup: str = "delete"
    max_message_bytes: int = 1_048_576


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_topics_are_created_once(settings: Settings) -> None:
    declarations = load_topics().values()
    created = ensure_topics(settings, declarations)
    assert created == sorted(settings.topic(topic.name) for topic in declarations)
    assert ensure_topics(settings, declarations) == []
    assert_topics(settings, declarations)


def configured(settings: Settings, name: str) -> dict[str, str | None]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    admin = AdminClient(admin_config(settings))
    [answer] = admin.describe_configs([resource]).values()
    return {key: entry.value for key, entry in answer.result(10).items()}


def test_broker_rejects_messages_from_the_future(settings: Settings) -> None:
    ensure_topics(settings, [Declared()])
    config = configured(settings, settings.topic("some-topic"))
    assert (config["message.timestamp.after.max.ms"], config["retention.ms"]) == ("3600000", "3600000")


def test_topics_are_created_without_the_future_limit_if_unsupported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = AdminClient.create_topics

    def older(self: AdminClient, new: list[NewTopic], **more: Any) -> dict[str, Future[None]]:
        unknown = [topic for topic in new if "message.timestamp.after.max.ms" in (topic.config or {})]
        answers: dict[str, Future[None]] = {topic.topic: Future() for topic in unknown}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(KafkaError.INVALID_CONFIG)))
        return answers or create(self, new, **more)

    monkeypatch.setattr(AdminClient, "create_topics", older)
    assert ensure_topics(settings, [Declared()]) == [settings.topic("some-topic")]
    assert configured(settings, settings.topic("some-topic"))["max.message.bytes"] == "1048576"


def test_topic_error_names_every_difference(settings: Settings) -> None:
    ensure_topics(settings, [Declared()])
    with pytest.raises(TopicError) as caught:
        ensure_topics(settings, [Declared(partitions=4), Declared("another")])
    assert f"{settings.topic('some-topic')} has 3 partitions, 4 declared" in str(caught.value)
    with pytest.raises(TopicError, match="missing-one does not exist: run leap topics ensure"):
        assert_topics(settings, [Declared("missing-one")])


def test_additional_partitions_are_reported_but_accepted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    declarations = load_topics()
    ensure_topics(settings, [Declared(COMPLETED, partitions=15)])
    others = [topic for name, topic in declarations.items() if name != COMPLETED]
    assert ensure_topics(settings, others)
    grown = f"{settings.topic(COMPLETED)} has 15 partitions, 12 declared"
    assert assert_topics(settings, declarations.values()) == [grown]
    with pytest.raises(TopicError, match=grown):
        ensure_topics(settings, declarations.values())
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    check = CliRunner().invoke(topics_app, ["check"])
    assert (check.exit_code, grown in check.stderr) == (1, True)
    monkeypatch.setattr("leap.streams.history.worker.history_loop", lambda settings: None)
    monkeypatch.setattr("leap.streams.consumer.run.run_worker", lambda loop, settings: True)
    worker = CliRunner().invoke(worker_app, ["history"])
    assert (worker.exit_code, grown in worker.stderr) == (0, True)


@pytest.mark.real("the embedded broker takes any name")
def test_invalid_topic_name_raises_topic_error(settings: Settings) -> None:
    with pytest.raises(TopicError, match="cannot be created"):
        ensure_topics(replace(settings, topic_prefix="not allowed/"), [Declared()])


def test_unavailable_broker_raises_broker_error(settings: Settings) -> None:
    alone = replace(settings, kafka={"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    with pytest.raises(BrokerError, match="no broker at"):
        assert_topics(alone, [Declared()])


def test_recreated_topic_has_a_new_id(settings: Settings) -> None:
    name = settings.topic("some-topic")
    ensure_topics(settings, [Declared()])
    first = topic_ids(settings, [name])[name]
    assert topic_ids(settings, [name])[name] == first
    delete_topic(settings, name)
    ensure_topics(settings, [Declared()])
    assert topic_ids(settings, [name])[name] != first


def test_topic_ids_of_a_missing_topic_raise(settings: Settings) -> None:
    with pytest.raises(TopicError, match="nowhere"):
        topic_ids(settings, ["nowhere"])


def test_producer_delivers_key_value_and_timestamp(topics: Settings) -> None:
    producer = CheckedProducer(topics)
    topic = topics.topic(COMPLETED)
    producer.produce(topic, b"\xff\x00", b"key", T0)
    producer.produce(topic, b"", None, T0 + 1)
    producer.flush()
    messages = sorted(read_range(topics, topic), key=lambda message: message.timestamp_ms)
    assert [(m.value, m.key, m.timestamp_ms) for m in messages] == [(b"\xff\x00", b"key", T0), (b"", None, T0 + 1)]
    assert {(m.topic, m.topic_id) for m in messages} == {(topic, topic_ids(topics, [topic])[topic])}


def test_flush_reports_unacknowledged_events_without_a_broker(settings: Settings) -> None:
    alone = replace(settings, kafka={"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    producer = CheckedProducer(alone)
    for _ in range(3):
        producer.produce("anything", b"x")
    with pytest.raises(DeliveryError) as caught:
        producer.flush(0.2)
    assert (caught.value.left, caught.value.failed) == (3, 0)
    producer.flush(0.2)  # they are gone, and will not be sent beside their repetition


@pytest.mark.real("the embedded broker creates topics by itself")
def test_flush_reports_rejected_events_once(topics: Settings) -> None:
    hasty = dict(topics.kafka) | {"topic.metadata.propagation.max.ms": "500"}
    producer = CheckedProducer(replace(topics, kafka=hasty))
    producer.produce(topics.topic("never-created"), b"x")
    producer.produce(topics.topic(COMPLETED), b"x")
    with pytest.raises(DeliveryError, match="never-created") as caught:
        producer.flush()
    assert (caught.value.left, caught.value.failed) == (0, 1)
    producer.produce(topics.topic(COMPLETED), b"y")
    producer.flush()
    assert Counter(m.value for m in read_range(topics, topics.topic(COMPLETED))) == {b"x": 1, b"y": 1}


def test_flush_waits_while_events_are_being_acknowledged(settings: Settings) -> None:
    producer = CheckedProducer(settings)
    left = iter([2, 1, 0, 3])
    producer._producer = MagicMock(flush=lambda seconds: next(left))
    producer._producer.__len__.return_value = 3
    producer.flush(0.1)
    with pytest.raises(DeliveryError, match="3 events not acknowledged, 0 failed"):
        producer.flush(0.1)


def test_event_over_the_request_size_raises(topics: Settings) -> None:
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        CheckedProducer(topics).produce(topics.topic(COMPLETED), bytes(MAX_REQUEST_BYTES + 1))


@pytest.fixture
def hundred(topics: Settings) -> Settings:
    """A topic of 100 messages one second apart in four batches, of which the first partition has none."""
    producer = CheckedProducer(topics)
    for number in range(100):
        producer.produce(topics.topic(COMPLETED), b"%d" % number, b"%d" % number, T0 + number * 1000)
        if number % 25 == 24:
            producer.flush()
    return topics


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, range(100)),
        (20, None, range(20, 100)),
        (None, 20, range(20)),
        (20, 60, range(20, 60)),
        (99, 100, range(99, 100)),
        (100, None, ()),
        (-100, 0, ()),
        (50, 50, ()),
    ],
)
def test_range_filters_by_timestamp(hundred: Settings, start: int | None, end: int | None, expected: range) -> None:
    first = None if start is None else moment(T0 + start * 1000)
    last = None if end is None else moment(T0 + end * 1000)
    messages = list(read_range(hundred, hundred.topic(COMPLETED), first, last))
    assert sorted(int(message.value or b"") for message in messages) == list(expected)
    for number in {message.partition for message in messages}:
        offsets = [message.offset for message in messages if message.partition == number]
        assert offsets == sorted(set(offsets))


def test_range_accepts_unordered_timestamps(topics: Settings) -> None:
    producer = CheckedProducer(topics)
    for second in (5, 1, 9, 3, 7):
        producer.produce(topics.topic(COMPLETED), b"%d" % second, b"one key", T0 + second * 1000)
    producer.flush()
    messages = read_range(topics, topics.topic(COMPLETED), moment(T0 + 3000), moment(T0 + 8000))
    assert [message.value for message in messages] == [b"5", b"3", b"7"]


def test_range_ends_at_the_initial_end_offset(hundred: Settings) -> None:
    producer = CheckedProducer(hundred)
    messages = []
    for message in read_range(hundred, hundred.topic(COMPLETED)):
        messages.append(message)
        producer.produce(hundred.topic(COMPLETED), b"later", message.key)
        producer.flush()
    assert [m.value for m in messages].count(b"later") < 100
    assert sum(m.value != b"later" for m in messages) == 100


def test_range_starts_at_given_offsets(hundred: Settings) -> None:
    name = hundred.topic(COMPLETED)
    whole = list(read_range(hundred, name))
    [first, second, third] = sorted(Counter(message.partition for message in whole))[:3]
    ends = {number: max(m.offset for m in whole if m.partition == number) + 1 for number in (first, second, third)}
    topic_id = whole[0].topic_id
    begins = {(topic_id, first): 2, (topic_id, second): ends[second], ("another", third): 2}
    messages = list(read_range(hundred, name, begins=begins))
    expected = [m for m in whole if m.partition != second and (m.partition != first or m.offset >= 2)]
    assert sorted(messages) == sorted(expected)
    assert min(m.position for m in messages if m.partition == first) == 2


def test_range_of_an_empty_topic_is_empty(topics: Settings) -> None:
    assert list(read_range(topics, topics.topic(COMPLETED))) == []


def test_range_of_a_missing_topic_raises(settings: Settings) -> None:
    with pytest.raises(TopicError, match="nowhere"):
        list(read_range(settings, "nowhere"))


@pytest.mark.real("the embedded broker shows aborted transactions")
def test_range_reads_only_committed_transactions(topics: Settings) -> None:
    topic = topics.topic(COMPLETED)
    producer = Producer(producer_config(topics) | {"transactional.id": topics.topic_prefix})
    producer.init_transactions(30)
    for value, end in ((b"a", True), (b"aborted", False), (b"b", True), (b"aborted too", False)):
        producer.begin_transaction()
        producer.produce(topic, value, b"one key")
        producer.commit_transaction(30) if end else producer.abort_transaction(30)
    assert [message.value for message in read_range(topics, topic)] == [b"a", b"b"]
