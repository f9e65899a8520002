"""The audit: exact while the topic of completions has all, and no false alarm once it has not."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from typer.testing import CliRunner

from leap.schemas.codec import encode
from leap.schemas.events import JobAttempt, JobCompleted, JobSubmitted
from leap.schemas.launch import LaunchConfig
from leap.schemas.topics import ATTEMPTS
from leap.streams.cli.history import app
from leap.streams.history.audit import attempts, audit, compare
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key, Observation
from leap.streams.history.worker import history_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.streams.history.test_rebuild import encoded, finish
from tests.streams.history.test_worker import TARGET, send, statistics

DOUBLE = Observation("another/0", 0, "double", TARGET, 1.0, 1.0, (Key("family", "ranker-a"),))


@pytest.fixture
def history(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[HistoryStore]:
    for name, value in topics.to_environment().items():
        monkeypatch.setenv(name, value)
    with connect(topics.redis_url) as client:
        yield HistoryStore(client, topics.redis_prefix)


@pytest.fixture
def expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Completions begin later than they did, as after retention."""

    class Later(Consumer):
        def get_watermark_offsets(self, partition: TopicPartition, *_: Any, **__: Any) -> tuple[int, int]:
            return 1, 2

    monkeypatch.setattr("leap.streams.history.audit.Consumer", Later)


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every broker's first answer is that it does not lead the partition, as when a topic is new."""
    asked = set()

    class Moving(Consumer):
        def get_watermark_offsets(self, partition: TopicPartition, *rest: Any, **_: Any) -> tuple[int, int]:
            if partition.partition not in asked:
                asked.add(partition.partition)
                raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
            return super().get_watermark_offsets(partition, *rest)

    monkeypatch.setattr("leap.streams.history.audit.Consumer", Moving)


def join(settings: Settings, events: list[JobCompleted]) -> None:
    producer = CheckedProducer(settings)
    for event in events:
        submitted = JobSubmitted(
            attempt_id=event.attempt_id,
            job_name=event.job_name,
            model_type=event.model_type or "other",
            submitted_at=event.started_at,
            config=LaunchConfig(num_trainers=1, accelerators_per_trainer=8),
        )
        row = JobAttempt(attempt_id=event.attempt_id, family="any", submitted=submitted, completed=event)
        producer.produce(settings.topic(ATTEMPTS), encode(row))
    producer.flush()


def test_audit_finds_differences_from_the_joined_attempts(topics: Settings, history: HistoryStore) -> None:
    events = finish(300, 8)
    send(topics, encoded(events))
    history_loop(topics).run(until_end=True)
    join(topics, [*events, *events[:20]])
    done = compare(history.buckets(TARGET), attempts(topics, TARGET))
    assert done.compared == len(statistics(topics)) and done.differences == []
    key = Key("family", events[0].job_name.split("-run")[0])
    rows = [row for row in attempts(topics, TARGET) if row[0] != key]
    [difference] = compare(history.buckets(TARGET), rows).differences
    assert difference.key == key and difference.expected is None
    more = [*attempts(topics, TARGET), (Key("family", "new"), 1.0, 0.0)]
    [difference] = compare(history.buckets(TARGET), more).differences
    assert difference.key == Key("family", "new") and difference.stored is None


def test_audit_uses_completions_while_none_has_expired(topics: Settings, history: HistoryStore) -> None:
    events = finish(300, 15)
    send(topics, [*encoded(events), encoded(events)[0], b"broken"])
    history_loop(topics).run(until_end=True)
    send(topics, encoded(finish(50, 16)))  # which the worker has not had yet
    done = audit(topics, history, TARGET)
    assert (done.whole, done.compared, done.differences) == (True, len(statistics(topics)), [])
    assert "0 differ" in CliRunner().invoke(app, ["audit"]).stdout
    unknown = CliRunner().invoke(app, ["audit", "--target", "nope"])
    assert unknown.exit_code == 1 and "no target 'nope': LEAP_TARGETS has throughput" in unknown.stderr
    history_loop(topics).run(until_end=True)
    history.apply([DOUBLE._replace(source=next(iter(history.bucket(TARGET, "ranker-a").fences)), offset=10**6)])
    [difference] = audit(topics, history, TARGET).differences
    assert difference.stored and difference.expected and difference.stored.n == difference.expected.n + 1
    history.remove(TARGET, 0)
    assert len(audit(topics, history, TARGET).differences) == done.compared, "committed, and not in the store"


@pytest.mark.usefixtures("expired")
def test_audit_counts_expired_observations_as_ahead(topics: Settings, history: HistoryStore) -> None:
    events = finish(300, 17)
    send(topics, encoded(events))
    history_loop(topics).run(until_end=True)
    join(topics, events[100:])
    done = audit(topics, history, TARGET)
    assert (done.whole, done.compared, done.differences) == (False, len(statistics(topics)), [])
    printed = CliRunner().invoke(app, ["audit", "--json"])
    assert (printed.exit_code, json.loads(printed.stdout)["ahead"]) == (0, done.ahead) and done.ahead
    assert f"{done.ahead} have more than the topics still keep" in CliRunner().invoke(app, ["audit"]).stdout
    history.remove(TARGET, 0)
    history.apply([DOUBLE])
    assert len(audit(topics, history, TARGET).differences) == done.compared, "it lacks what is still there"
    assert CliRunner().invoke(app, ["audit"]).exit_code == 1


@pytest.mark.usefixtures("moving")
def test_audit_counts_observations_of_a_recreated_topic_as_ahead(topics: Settings, history: HistoryStore) -> None:
    history.apply([DOUBLE])
    done = audit(topics, history, TARGET)
    assert (done.whole, done.ahead, done.differences) == (False, 1, [])
