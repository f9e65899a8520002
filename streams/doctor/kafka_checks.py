"""Checks of :mod:`leap.streams.doctor.runner` that ask the broker."""

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from leap.schemas.topics import DEAD_LETTERS
from leap.streams.doctor.check import ANSWER_S, AS_OPERATOR, QUIET, CheckContext, CheckFailed, duration
from leap.streams.kafka.clients import consumer_config, offsets_for_times
from leap.streams.runtime.acl import ROLES, grants
from leap.streams.runtime.liveness import Partition

#: Longest that a message may wait for a worker, and furthest that a clock may be ahead.
PATIENCE_S = 600.0
AHEAD_S = 60.0
#: No message is of then, so a broker that finds one does not look for times at all (Tansu answers 0).
NEVER_MS = 7_226_582_400_000
FETCH_S = 1.0
DAY_S = 86_400.0
#: What a user who has other rights is answered.
DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


ALTER = "kafka-configs.sh --alter --entity-type topics --entity-name {} --add-config {}={}"


def broker(context: CheckContext) -> str:
    """Whether one answers."""
    try:
        brokers = context.admin.list_topics(timeout=ANSWER_S).brokers
    except KafkaException as error:
        raise CheckFailed(
            f"{context.settings.bootstrap_servers}: {error.args[0].str()}",
            "start it, or correct LEAP_KAFKA_BOOTSTRAP_SERVERS, or LEAP_KAFKA_SECURITY_PROTOCOL and what goes with it",
        ) from error
    return f"{len(brokers)} at {', '.join(sorted(str(broker) for broker in brokers.values()))}"


def topics(context: CheckContext) -> str:
    """Whether every topic is as declared."""
    declared = context.declared()
    counts = _partition_counts(context)
    missing = sorted(declared.keys() - counts.keys())
    if missing:
        raise CheckFailed(
            f"missing, or hidden from this user: {', '.join(missing)}", "leap topics ensure creates what is missing"
        )
    wrong = {
        name: f"{name} has {counts[name]} partitions where {topic.partitions} are declared"
        for name, topic in declared.items()
        if counts[name] != topic.partitions
    }
    if wrong:
        raise CheckFailed(
            "; ".join(wrong.values()),
            "workers refuse to start on fewer; add partitions with kafka-topics.sh --alter, or declare what is "
            "there in schemas/topics",
        )
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in declared]
    answers = context.admin.describe_configs(resources, request_timeout=ANSWER_S)
    for resource, future in answers.items():
        config, topic = _answer(future), declared[resource.name]
        wanted = {
            "retention.ms": str(topic.retention_ms),
            "cleanup.policy": topic.cleanup,
            "max.message.bytes": str(topic.max_message_bytes),
        }
        for name, value in wanted.items():
            if name in config and config[name].value != value:
                raise CheckFailed(
                    f"{resource.name}: {name} is {config[name].value} where {value} is declared",
                    ALTER.format(resource.name, name, value),
                )
    return f"{len(declared)} as declared"


def replicas(context: CheckContext) -> str:
    """Whether every partition has the copies that it should have."""
    cluster = context.admin.list_topics(timeout=ANSWER_S)
    topics = [cluster.topics[name] for name in context.declared() if name in cluster.topics]
    partitions = [part for topic in topics for part in topic.partitions.values()]
    behind = sum(len(part.isrs) < len(part.replicas) for part in partitions)
    if behind:
        raise CheckFailed(
            f"{behind} of {len(partitions)} partitions lack a replica in sync", "look for a broker that is down"
        )
    fewest = min((len(part.replicas) for part in partitions), default=0)
    if fewest == 1 and len(cluster.brokers) > 1:
        raise CheckFailed(
            f"some partitions have one replica on {len(cluster.brokers)} brokers",
            "reassign them to three brokers, and set LEAP_TOPIC_REPLICATION=3 before topics are created",
            can_wait=True,
        )
    return f"{fewest} of each partition, all in sync"


def rights(context: CheckContext) -> str:
    """Whether this user may do on topics what the role needs, by the broker's own word."""
    needed: dict[str, set[str]] = {}
    for role in context.roles():
        for grant in grants(role, context.settings):
            if grant.resource == "topic":
                needed.setdefault(grant.name, set()).add(grant.operation)
    described = context.admin.describe_topics(
        TopicCollection(list(needed)), include_authorized_operations=True, request_timeout=ANSWER_S
    )
    lacking = []
    for name, future in described.items():
        allowed = _answer(future).authorized_operations
        if allowed is None:
            return "the broker has no authorizer that it could ask"
        names = {operation.name.lower() for operation in allowed}
        lacking += [f"{operation} {name}" for operation in sorted(needed[name] - names)]
    if lacking:
        raise CheckFailed(f"not allowed: {', '.join(lacking)}", "grant it: docs/security.md has the list")
    return f"all that {context.role or 'every role'} needs"


def history(context: CheckContext) -> str:
    """Whether the history workers keep up."""
    return _keeps_up(context, "history")


def joiner(context: CheckContext) -> str:
    """Whether the joiners keep up."""
    return _keeps_up(context, "joiner")


def ranking(context: CheckContext) -> str:
    """Whether the ranking workers keep up."""
    return _keeps_up(context, "ranking")


def dead_letters(context: CheckContext) -> str:
    """Whether messages were set aside since yesterday."""
    partitions = _partitions(context, [context.settings.topic(DEAD_LETTERS)])
    with _consumer(context) as consumer:
        ends = _offsets(consumer, partitions, OFFSET_END)
        since = _offsets(consumer, partitions, int((context.now() - DAY_S) * 1000))
    count = sum(ends[partition] - offset for partition, offset in since.items() if offset >= 0)
    if count:
        raise CheckFailed(
            f"{count} messages set aside in the last day",
            "docs/operations.md#dead-letters: read their reasons, mend whoever sent them, send them again",
            can_wait=True,
        )
    return "none in the last day"


def clocks(context: CheckContext) -> str:
    """Whether a sender's clock is ahead: its messages would be kept too long, and found at the wrong time."""
    partitions = _partitions(context, context.declared())
    with _consumer(context) as consumer:
        if any(offset >= 0 for offset in _offsets(consumer, partitions, NEVER_MS).values()):
            return "the broker does not look for times"
        ahead = _offsets(consumer, partitions, int((context.now() + AHEAD_S) * 1000))
    named = sorted({name for (name, _), offset in ahead.items() if offset >= 0})
    if named:
        raise CheckFailed(
            f"messages of the future in {', '.join(named)}",
            "run an NTP client on the launchers, and on this machine",
            can_wait=True,
        )
    return f"no message is more than {AHEAD_S:.0f} s ahead of this machine"


def _keeps_up(context: CheckContext, worker: str) -> str:
    role = ROLES[worker].name
    names = [name for name, topic in context.declared().items() if role in topic.consumers]
    partitions = _partitions(context, names)
    group = context.settings.topic(worker)
    with _consumer(context, worker) as consumer:
        begins = _offsets(consumer, partitions, OFFSET_BEGINNING)
        ends = _offsets(consumer, partitions, OFFSET_END)
        asked = [TopicPartition(*partition) for partition in partitions]
        committed = {
            (partition.topic, partition.partition): partition.offset
            for partition in consumer.committed(asked, timeout=ANSWER_S)
        }
        lost = sum(max(0, begins[part] - offset) for part, offset in committed.items() if offset >= 0)
        positions = {part: max(committed[part], begins[part]) for part in partitions}
        behind = {part: offset for part, offset in positions.items() if offset < ends[part]}
        waits = _oldest(context, consumer, behind) if behind else 0.0
    count = sum(ends[part] - offset for part, offset in behind.items())
    [described] = context.admin.describe_consumer_groups([group], request_timeout=ANSWER_S).values()
    members = _answer(described)
    idle = members.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)  # some brokers name no members
    workers = "none" if idle else len(members.members) or "some"
    summary = f"{workers} at work on {len(partitions)} partitions, {count:,} messages behind"
    if lost:
        raise CheckFailed(
            f"{lost:,} messages were deleted before they were worked off",
            "start workers, then docs/operations.md#backup-and-restore; longer retention gives more time",
        )
    if idle:
        raise CheckFailed(summary, f"start one: leap worker {worker}", can_wait=not count)
    if waits > PATIENCE_S:
        raise CheckFailed(
            f"{summary}, the oldest for {duration(waits)}",
            "read the log for batches that fail; if there are none, start more workers",
        )
    return summary + (f", the oldest for {duration(waits)}" if count else "")


def _oldest(context: CheckContext, consumer: Consumer, positions: Mapping[Partition, int]) -> float:
    """Seconds that the oldest of the next messages has waited; 0 where none comes within a second."""
    consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])
    times: dict[Partition, int] = {}
    until = time.monotonic() + FETCH_S
    while len(times) < len(positions) and time.monotonic() < until:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            times.setdefault((message.topic() or "", message.partition() or 0), message.timestamp()[1])
    return max((context.now() - timestamp_ms / 1000 for timestamp_ms in times.values()), default=0.0)


@contextmanager
def _consumer(context: CheckContext, group: str = "doctor") -> Iterator[Consumer]:
    """One that never joins its group."""
    consumer = Consumer(consumer_config(context.settings, group) | QUIET)
    try:
        with _asking():
            yield consumer
    finally:
        consumer.close()


def _answer(future: "Future[Any]") -> Any:
    with _asking():
        return future.result(ANSWER_S)


@contextmanager
def _asking() -> Iterator[None]:
    """Turn what the broker refuses into a finding."""
    try:
        yield
    except KafkaException as error:
        text = error.args[0].str()
        if error.args[0].code() in DENIED:
            raise CheckFailed(f"this user may not ask: {text}", AS_OPERATOR, can_wait=True) from error
        raise CheckFailed(
            f"no answer: {text}", "if the broker has just started, try again; else see its log"
        ) from error


def _partition_counts(context: CheckContext) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in context.admin.list_topics(timeout=ANSWER_S).topics.items()}


def _partitions(context: CheckContext, names: Iterable[str]) -> list[Partition]:
    counts = _partition_counts(context)
    missing = [name for name in names if name not in counts]
    if missing:
        raise CheckFailed(f"no topic {', '.join(missing)}", "leap topics ensure")
    return [(name, number) for name in names for number in range(counts[name])]


def _offsets(consumer: Consumer, partitions: Iterable[Partition], at_ms: int) -> dict[Partition, int]:
    """First offset of each partition at or after a time, below 0 where there is none; or its beginning or end."""
    question = [TopicPartition(*partition, at_ms) for partition in partitions]
    answers = offsets_for_times(consumer, question, ANSWER_S)
    return {(answer.topic, answer.partition): answer.offset for answer in answers}
