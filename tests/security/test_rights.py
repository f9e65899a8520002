"""Every program does its job as a user who may do just that: SASL_SSL and ACLs on Kafka, TLS and ACLs on Redis."""

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.rollout import Switch
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night import connectors as edges
from leap.schemas.events import SUCCEEDED, THROUGHPUT, ArtifactPublished
from leap.schemas.topics import COMPLETED, DEAD_LETTERS, SUBMITTED, load_topics
from leap.streams.history.rebuild import rebuild
from leap.streams.history.store import HistoryStore
from leap.streams.history.worker import TARGETS, history_loop
from leap.streams.joining.worker import joiner_loop
from leap.streams.kafka.clients import CheckedProducer, DeliveryError, consumer_config, producer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import TopicError, assert_topics, ensure_topics
from leap.streams.launcher.launcher import Launcher
from leap.streams.monitor.app import LiveMonitor
from leap.streams.ranking.rollout_store import SwitchStore
from leap.streams.ranking.worker import ranking_loop
from leap.streams.redis_store.client import connect
from leap.streams.runtime.acl import ROLES, grants, topics_of
from leap.streams.runtime.settings import Settings
from tests.builders import submission
from tests.security.conftest import House

pytestmark = pytest.mark.real("the embedded pair has neither TLS nor rights")

HOURLY = datetime(2026, 3, 12, 10, tzinfo=UTC)
DENIED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}


@pytest.fixture(scope="session")
def topics(house: House) -> House:
    """The same house, once its operator has created the topics."""
    assert len(ensure_topics(house.settings("operator"), load_topics().values())) == len(load_topics())
    return house


def count(settings: Settings, topic: str) -> int:
    return sum(1 for _ in read_range(settings, settings.topic(topic)))


def test_every_program_does_its_job(
    topics: House, artifact_store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "leap.streams.launcher.preference_follower.READY_S", 60.0
    )  # what comes before it reads is not heard
    house, operator = topics, topics.settings("operator")
    SwitchStore(connect(operator.redis_url), operator.redis_prefix).set("other", Switch(mode="off"), "operator")
    job = submission("a-1", job_name="team/job-3x", model_type="model-3", at=HOURLY)
    ran = {"attempt_id": "a-1", "hardware_type": "fast", "hosts": 2, "accelerators": 16, "allocated_at": HOURLY}
    ended = {
        "attempt_id": "a-1", "job_name": job.job_name, "model_type": job.model_type, "hardware_type": "fast",
        "started_at": HOURLY, "finished_at": HOURLY, "status": SUCCEEDED, "measurements": {THROUGHPUT: 500.0},
    }  # fmt: skip
    with (
        Launcher(house.settings("launcher"), follow_preferences=True) as launcher,
        Launcher(house.settings("scheduler")) as scheduler,
    ):
        assert launcher.submitted(job) and scheduler.allocated(ran) and launcher.completed(ended)
        launcher._producer.flush(60)
        garbage = CheckedProducer(house.settings("launcher"))
        for name in (SUBMITTED, COMPLETED):
            garbage.produce(operator.topic(name), b"garbage")
        garbage.flush()
        stop = threading.Event()
        ranking = replace(house.settings("ranking"), artifacts=str(artifact_store.root))
        ranking_loop(ranking, stop).run(until_end=True)
        stop.set()
        assert [one.hardware_type for one in launcher.preference("a-1", 60.0).ranked]
        assert launcher.counts.failed == scheduler.counts.failed == 0
    for role in ("history", "joiner", "ranking", "monitor"):
        assert_topics(house.settings(role), topics_of(role))
    history_loop(house.settings("history")).run(until_end=True)
    joiner_loop(house.settings("joiner")).run(until_end=True)
    retrainer = house.settings("retrainer")
    partitions = Partitions(tmp_path / "partitions")
    assert edges.ingest_attempts(retrainer)(partitions) == [HOURLY.date()]
    assert len(edges.snapshot(retrainer, THROUGHPUT)(partitions.files).records) == 3
    published = ArtifactPublished(target=THROUGHPUT, artifact="x", promoted=True, reason="test", published_at=HOURLY)
    edges.announce(retrainer)(published)
    with connect(operator.redis_url) as client:
        assert rebuild(operator, HistoryStore(client, operator.redis_prefix), TARGETS).messages == 2
    assert count(operator, DEAD_LETTERS) == 4, "one of ranking and history each, two of the joiner"
    monitor = LiveMonitor(house.settings("monitor"))
    assert monitor.warm_up(datetime.now(UTC)) == 4
    asyncio.run(until_ready(monitor))


async def until_ready(monitor: LiveMonitor) -> None:
    """Run the Faust app until it is in its group with all partitions."""
    stop = asyncio.Event()
    running = asyncio.create_task(monitor.run(stop))
    while not monitor.progress.ready():
        assert not running.done()
        await asyncio.sleep(0.02)
    stop.set()
    await running


@pytest.mark.parametrize("role", sorted(set(ROLES) - {"operator"}))
def test_no_program_does_more_on_the_broker(topics: House, role: str) -> None:
    settings = topics.settings(role)
    allowed = {(grant.resource, grant.operation, grant.name) for grant in grants(role, settings)}
    names = [settings.topic(name) for name in load_topics()]
    written = {name for resource, operation, name in allowed if (resource, operation) == ("topic", "write")}
    read = {name for resource, operation, name in allowed if (resource, operation) == ("topic", "read")}
    assert set(names) - written and set(names) - read
    assert refused_writes(settings, sorted(set(names) - written)) == set(names) - written
    assert refused_reads(settings, sorted(set(names) - read)) == set(names) - read
    others = {group for other in ROLES.values() for group in other.groups} - set(ROLES[role].groups)
    for group in sorted(others):
        assert group_refused(settings, group.replace("*", "x")), group
    with pytest.raises(TopicError, match="cannot be created: Authorization failed"):
        ensure_topics(replace(settings, topic_prefix=f"fleet-{role}-"), load_topics().values())


def refused_writes(settings: Settings, topics: list[str]) -> set[str]:
    refused: set[str] = set()

    def told(error: KafkaError | None, message: Message) -> None:
        assert denied(error), f"{message.topic()}: {error}"
        refused.add(str(message.topic()))

    # Not idempotent, for such a producer fails as a whole where it may write to no topic.
    producer = Producer(producer_config(settings) | {"enable.idempotence": False})
    for topic in topics:
        producer.produce(topic, b"x", on_delivery=told)
    assert producer.flush(20) == 0
    return refused


def refused_reads(settings: Settings, topics: list[str]) -> set[str]:
    """Those that may not be described, and those of the others, which may be written, that may not be fetched."""
    groups = ROLES[str(settings.kafka["sasl.username"])].groups
    consumer = Consumer(consumer_config(settings, groups[0].replace("*", "x")))
    refused = {topic for topic in topics if denied(consumer.list_topics(topic, 20).topics[topic].error)}
    waiting = set(topics) - refused
    consumer.assign([TopicPartition(topic, 0, 0) for topic in waiting])
    while waiting:
        message = consumer.poll(20)
        assert message is not None and denied(message.error())
        waiting.remove(str(message.topic()))
        refused.add(str(message.topic()))
    consumer.close()
    return refused


def denied(error: KafkaError | None) -> bool:
    return error is not None and error.code() in DENIED


def group_refused(settings: Settings, group: str) -> bool:
    consumer = Consumer(consumer_config(settings, group))
    consumer.subscribe([settings.topic(SUBMITTED)])
    while (message := consumer.poll(20)) is not None and message.error() is None:
        pass
    consumer.close()
    return message is not None and denied(message.error())


def test_a_producer_without_rights_says_so_and_can_go_on(topics: House) -> None:
    settings = topics.settings("monitor")
    producer = CheckedProducer(settings)
    for _ in range(2):
        with pytest.raises((DeliveryError, KafkaException), match="authorization failed"):
            producer.produce(settings.topic(SUBMITTED), b"x")
            producer.flush(20)


#: What can be done on a store with and without keys of others, by kind.
OTHERS = [
    "GET other", "SET other 1", "HGETALL other:history:0:{1}:throughput", "DEL fleet", "HSET fleet:elsewhere a b",
    "HGET fleet:{switches}:record a", "SET fleet:history:{generation} 7", "SET fleet:{switches}:current x",
    "EVAL return(redis.call('GET',KEYS[1])) 1 other", "EVAL return(redis.call('FLUSHALL')) 0",
]  # fmt: skip
DANGEROUS = [
    "FLUSHALL", "FLUSHDB", "CONFIG GET *", "CONFIG SET dir /", "KEYS *", "SCAN 0", "RANDOMKEY", "ACL LIST",
    "ACL WHOAMI", "SHUTDOWN", "CLIENT LIST", "CLIENT KILL ID 1", "MONITOR", "REPLICAOF NO ONE", "BGREWRITEAOF", "SAVE",
    "MODULE LIST", "SCRIPT FLUSH", "FUNCTION LIST", "SLOWLOG GET", "INFO", "PUBLISH a b", "SUBSCRIBE a", "SWAPDB 0 1",
    "CLUSTER RESET", "LATENCY RESET", "DBSIZE", "OBJECT ENCODING a", "MIGRATE h 1 k 0 1", "SORT fleet", "RENAME a b",
]  # fmt: skip
REFUSED = "(?i)no permission|ACL failure|user executing the script can't"


@pytest.mark.parametrize("role", [name for name, role in ROLES.items() if role.commands])
def test_no_program_does_more_in_the_store(topics: House, role: str) -> None:
    own = {"operator": {*OTHERS[5:8], "INFO", "SCAN 0"}}.get(role, set())
    with connect(topics.settings(role).redis_url) as client:
        for command in [command for command in (*DANGEROUS, *OTHERS) if command not in own]:
            with pytest.raises(redis.ResponseError, match=REFUSED):
                client.execute_command(*command.split())


@pytest.mark.parametrize("role", [name for name, role in ROLES.items() if not role.commands])
def test_who_has_no_business_in_the_store_is_not_let_in(topics: House, role: str) -> None:
    with pytest.raises(redis.AuthenticationError):
        connect(topics.settings(role).redis_url)
