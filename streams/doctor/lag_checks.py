"""Checks of :mod:`leap.streams.doctor.runner` of the consumer lag of the workers."""

import time
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, ConsumerGroupState, TopicPartition

from leap.streams.doctor.check import ANSWER_S, CheckContext, CheckFailed, duration
from leap.streams.doctor.kafka_queries import offsets, open_consumer, partitions_of, result
from leap.streams.runtime.acl import ROLES
from leap.streams.runtime.liveness import Partition

#: Longest acceptable wait of a message for its worker.
MAX_WAIT_S = 600.0
FETCH_S = 1.0


def history(context: CheckContext) -> str:
    """History workers run and keep up."""
    return _check_lag(context, "history")


def joiner(context: CheckContext) -> str:
    """Joiners run and keep up."""
    return _check_lag(context, "joiner")


def ranking(context: CheckContext) -> str:
    """Ranking workers run and keep up."""
    return _check_lag(context, "ranking")


def _check_lag(context: CheckContext, worker: str) -> str:
    role = ROLES[worker].name
    names = [name for name, topic in context.declared().items() if role in topic.consumers]
    partitions = partitions_of(context, names)
    group = context.settings.topic(worker)
    with open_consumer(context, worker) as consumer:
        begins = offsets(consumer, partitions, OFFSET_BEGINNING)
        ends = offsets(consumer, partitions, OFFSET_END)
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
    members = result(described)
    idle = members.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
    workers = f" ({len(members.members)} workers)" if members.members else ""  # some brokers do not list members
    state = "not running" if idle else f"running{workers}, {len(partitions)} partitions assigned"
    summary = f"{state}, lag {count:,} messages"
    if lost:
        raise CheckFailed(
            f"{lost:,} messages expired before they were processed",
            "start workers, then see docs/operations.md#backup-and-restore; a longer retention leaves more time",
        )
    if idle:
        raise CheckFailed(summary, f"start a worker: leap worker {worker}", can_wait=not count)
    if waits > MAX_WAIT_S:
        raise CheckFailed(
            f"{summary}, oldest waiting for {duration(waits)}",
            "check the log for failing batches; if there are none, start more workers",
        )
    return summary + (f", oldest waiting for {duration(waits)}" if count else "")


def _oldest(context: CheckContext, consumer: Consumer, positions: Mapping[Partition, int]) -> float:
    """Age in seconds of the oldest of the next messages; 0 if none can be fetched within a second."""
    consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])
    times: dict[Partition, int] = {}
    until = time.monotonic() + FETCH_S
    while len(times) < len(positions) and time.monotonic() < until:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            times.setdefault((message.topic() or "", message.partition() or 0), message.timestamp()[1])
    return max((context.now() - timestamp_ms / 1000 for timestamp_ms in times.values()), default=0.0)
