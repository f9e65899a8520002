"""Read a time range of a topic, outside any consumer group."""

import math
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as RawMessage

from leap.schemas.errors import BrokerError
from leap.streams.kafka.clients import consumer_config, offsets_for_times, when_led
from leap.streams.kafka.message import Message, unreadable
from leap.streams.kafka.topic_admin import TopicError, topic_ids
from leap.streams.runtime.settings import Settings

BATCH = 1_000
#: Short, because the end of a partition is only reported by a poll that returns nothing.
WAIT_S = 0.02
TIMEOUT_S = 30.0


def read_range(
    settings: Settings,
    topic: str,
    start: datetime | None = None,
    end: datetime | None = None,
    begins: Mapping[tuple[str, int], int] | None = None,
) -> Iterator[Message]:
    """Read the messages with a timestamp in [start, end), each partition in order, up to its current end.

    Timestamps need not ascend, so `end` only filters. A broker that answers every lookup by time with 0 costs a longer
    read but no message. Messages that cannot be decompressed have no timestamp and are left out.

    Parameters
    ----------
    settings
        Where the broker is.
    topic
        Name on the broker.
    start, end
        Times with a time zone; None means from the beginning, to the end.
    begins
        (topic id, partition) to the offset to start from instead.

    Raises
    ------
    TopicError
        If the topic does not exist.
    BrokerError
        If none answers, or no message arrives for 30 s before the end.
    """
    first = 0 if start is None else _milliseconds(start)
    last = math.inf if end is None else _milliseconds(end)
    for message in read_on(settings, topic, begins or {}, first_ms=first):
        if first <= message.timestamp_ms < last:
            yield message


def read_on(
    settings: Settings,
    topic: str,
    begins: Mapping[tuple[str, int], int],
    group: str | None = None,
    first_ms: int = 0,
) -> Iterator[Message]:
    """Read all messages from `begins` on, each partition in order, up to its current end.

    The end of a partition is the high watermark of its first fetch, or the end-of-partition event where a
    transaction marker comes last. Raises as :func:`read_range` does.

    Parameters
    ----------
    begins
        (topic id, partition) to the offset to start from; a partition without one starts at `first_ms`.
    group
        Consumer group with whose rights it reads, and which it does not join.
    first_ms
        Timestamp, milliseconds since 1970; 0 is the beginning.
    """
    topic_id = topic_ids(settings, [topic])[topic]
    consumer = Consumer(consumer_config(settings, group or f"range-{uuid.uuid4()}"))
    try:
        starts = _starts(consumer, topic, first_ms)
        positions = {number: begins[topic_id, number] for number in starts if (topic_id, number) in begins}
        ends: dict[int, int] = {}
        for raw in _until_ends(consumer, topic, starts | positions, ends):
            number, offset = raw.partition() or 0, raw.offset() or 0
            message = Message.of(raw, topic_id, positions.get(number, offset if first_ms else 0))
            positions[number] = offset + 1
            if message.offset < ends[number]:
                yield message
    finally:
        consumer.close()


def committed(settings: Settings, group: str, topic: str) -> dict[tuple[str, int], int]:
    """(topic id, partition) to the offset that a consumer group has committed, of those where it has."""
    topic_id = topic_ids(settings, [topic])[topic]
    consumer = Consumer(consumer_config(settings, group))
    try:
        asked = [TopicPartition(topic, number) for number in _starts(consumer, topic, 0)]
        answers = when_led(lambda: consumer.committed(asked, timeout=TIMEOUT_S), TIMEOUT_S)
    finally:
        consumer.close()
    return {(topic_id, answer.partition): answer.offset for answer in answers if answer.offset >= 0}


def _until_ends(consumer: Consumer, topic: str, starts: dict[int, int], ends: dict[int, int]) -> Iterator[RawMessage]:
    """Messages from `starts` until each partition has reached its end, which is put into `ends` at its first one."""
    remaining = dict(starts)
    consumer.assign([TopicPartition(topic, number, offset) for number, offset in starts.items()])
    received_at = time.monotonic()
    while remaining:
        batch = consumer.consume(BATCH, WAIT_S)
        if any(raw.partition() in remaining for raw in batch):  # others go on for ever where messages keep coming
            received_at = time.monotonic()
        elif time.monotonic() - received_at > TIMEOUT_S:
            raise BrokerError(f"{topic}: no message for {TIMEOUT_S:.0f} s from partitions {sorted(remaining)}")
        for raw in batch:
            number, offset = raw.partition(), raw.offset() or 0
            if number not in remaining:
                continue  # beyond the end
            if _at_end(raw):
                del remaining[number]
                continue
            if raw.error() is not None:
                consumer.seek(TopicPartition(topic, number, offset + 1))
            if number not in ends:
                ends[number] = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)[1]
            if offset >= ends[number] - 1:
                del remaining[number]
            yield raw


def _starts(consumer: Consumer, topic: str, first: int) -> dict[int, int]:
    """Start offset of each partition that has messages since `first` (milliseconds since 1970)."""
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    if not first:
        return dict.fromkeys(partitions, OFFSET_BEGINNING)
    starts = {}
    asked = [TopicPartition(topic, number, first) for number in partitions]
    for answer in offsets_for_times(consumer, asked, TIMEOUT_S):
        if answer.offset >= 0:  # -1: no message that late
            starts[answer.partition] = answer.offset
    return starts


def _at_end(raw: RawMessage) -> bool:
    error = raw.error()
    if error is None or unreadable(error):
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise TopicError(f"{raw.topic()} was deleted")
    raise KafkaException(error)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
