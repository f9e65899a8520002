"""``leap doctor``: what it finds of brokers, topics and groups."""

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from leap.schemas.topics import COMPLETED, DEAD_LETTERS, PREFERENCES, SUBMITTED, load_topics
from leap.streams.doctor import kafka_checks, lag_checks
from leap.streams.doctor.check import CheckContext
from leap.streams.kafka.clients import admin_config, consumer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.runtime.settings import Settings
from tests.streams.doctor.doctor_parts import failure_of, members, send

HOUR_MS = 3_600_000


def test_doctor_reports_missing_topics(settings: Settings) -> None:
    context = CheckContext(settings)
    assert f"{settings.topic_prefix}{COMPLETED}" in str(failure_of(kafka_checks.topics, context))
    assert "leap topics ensure" in failure_of(kafka_checks.topics, context).remedy
    assert COMPLETED in str(failure_of(lag_checks.history, context))


@pytest.mark.parametrize(
    ("partitions", "config", "problem"),
    [
        (3, {}, "has 3 partitions, 12 declared"),
        (12, {"retention.ms": "1000"}, "retention.ms is 1000, 3024000000 declared"),
        (12, {"retention.ms": "3024000000", "cleanup.policy": "compact"}, "cleanup.policy is compact, delete declared"),
    ],
)
def test_doctor_reports_partitions_and_configs_that_differ_from_the_declaration(
    settings: Settings, partitions: int, config: dict[str, str], problem: str
) -> None:
    admin = AdminClient(admin_config(settings))
    name = settings.topic(COMPLETED)
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
    ensure_topics(settings, [topic for topic in load_topics().values() if topic.name != COMPLETED])
    assert problem in str(failure_of(kafka_checks.topics, CheckContext(settings)))


def metadata(replicas: list[int], in_sync: list[int], brokers: int, name: str) -> Any:
    part = SimpleNamespace(replicas=replicas, isrs=in_sync)
    topics = {name: SimpleNamespace(partitions={0: part})}
    return SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics, brokers=range(brokers)))


def test_doctor_reports_under_replicated_and_single_replica_partitions(topics: Settings) -> None:
    assert kafka_checks.replicas(CheckContext(topics)) == "1 per partition, all in sync"
    context = CheckContext(topics)
    context.__dict__["admin"] = metadata([1, 2, 3], [1, 2], 3, topics.topic(COMPLETED))  # one machine has no replicas
    assert str(failure_of(kafka_checks.replicas, context)) == "1 of 1 partitions are under-replicated"
    context.__dict__["admin"] = metadata([1], [1], 3, topics.topic(COMPLETED))
    assert failure_of(kafka_checks.replicas, context).can_wait


def test_doctor_reports_missing_topic_acls_of_a_role(topics: Settings) -> None:
    def describe(names: Any, **options: Any) -> dict[str, "Future[Any]"]:
        futures: dict[str, Future[Any]] = {topics.topic(name): Future() for name in (SUBMITTED, COMPLETED, PREFERENCES)}
        for future in futures.values():
            future.set_result(SimpleNamespace(authorized_operations=[SimpleNamespace(name="READ")]))
        return futures

    assert kafka_checks.rights(CheckContext(topics))  # of a broker without an authorizer
    context = CheckContext(topics, role="launcher")
    context.__dict__["admin"] = SimpleNamespace(describe_topics=describe)
    assert f"write {topics.topic(SUBMITTED)}" in str(failure_of(kafka_checks.rights, context))


def test_doctor_reports_missing_and_lagging_workers(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_checks, "FETCH_S", 60.0)
    context = CheckContext(topics)
    assert failure_of(lag_checks.history, context).can_wait
    send(topics, COMPLETED, at_ms=int(time.time() * 1000) - 2 * HOUR_MS)
    alone = failure_of(lag_checks.history, context)
    assert not alone.can_wait and alone.remedy == "start a worker: leap worker history"
    with members(topics, "history"):
        late = failure_of(lag_checks.history, context)
        assert "lag 1 messages, oldest waiting for 2 h" in str(late) and not late.can_wait
        done = Consumer(consumer_config(topics, "history"))
    end = [TopicPartition(topics.topic(COMPLETED), number, 1) for number in range(12)]
    done.commit(offsets=end, asynchronous=False)
    done.close()
    assert "lag 0 messages" in str(failure_of(lag_checks.history, context))


@pytest.mark.real("the embedded broker deletes nothing")
def test_doctor_reports_messages_expired_before_processing(topics: Settings) -> None:
    for _ in range(3):
        send(topics, COMPLETED)
    consumer = Consumer(consumer_config(topics, "history"))
    name = topics.topic(COMPLETED)
    [full] = {message.partition for message in read_range(topics, name)}
    consumer.commit(offsets=[TopicPartition(name, full, 1)], asynchronous=False)
    consumer.close()
    admin = AdminClient(admin_config(topics))
    for future in admin.delete_records([TopicPartition(name, full, 3)]).values():
        future.result(30)
    assert "2 messages expired before" in str(failure_of(lag_checks.history, CheckContext(topics)))


def test_doctor_counts_dead_letters_of_the_last_day(topics: Settings) -> None:
    assert kafka_checks.dead_letters(CheckContext(topics)) == "none in the last day"
    send(topics, DEAD_LETTERS)
    send(topics, DEAD_LETTERS)
    problem = failure_of(kafka_checks.dead_letters, CheckContext(topics))
    assert "dead letters in the last day" in str(problem) and problem.can_wait


@pytest.mark.real("the embedded broker lacks timestamp lookup")
def test_doctor_reports_messages_from_the_future(topics: Settings) -> None:
    send(topics, COMPLETED, at_ms=int(time.time() * 1000) + HOUR_MS)
    assert topics.topic(COMPLETED) in str(failure_of(kafka_checks.clocks, CheckContext(topics)))
