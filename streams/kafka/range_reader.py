"""Read a topic from one time to another, outside any consumer group."""

import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as RawMessage

from leap.streams.kafka.clients import consumer_config, offsets_for_times
from leap.streams.kafka.message import Message, unreadable
from leap.streams.kafka.topic_admin import TopicError, topic_ids
from leap.streams.runtime.settings import Settings

BATCH = 1_000
#: Short: nothing tells that a partition has ended but a call that waits in vain.
WAIT_S = 0.02
TIMEOUT_S = 30.0


def read_range(
    settings: Settings,
    topic: str,
    start: datetime | None = None,
    end: datetime | None = None,
    begins: Mapping[tuple[str, int], int] | None = None,
) -> Iterator[Message]:
    """Read the messages whose time is in [start, end), each partition in order, up to where it ends now.

    The end of a partition is what its first fetch reports, or the end-of-partition event where a
    transaction's marker comes last. Times need not ascend, so `end` only filters. A broker that answers 0 to
    every question for a time costs a longer read and no message. What cannot be unpacked has no time: it
    is left out.

    Parameters
    ----------
    settings
        Where the broker is.
    topic
        Name on the broker.
    start, end
        Times with a time zone; none is from the beginning, to the end.
    begins
        By topic id and partition an offset to begin at, in place of the beginning.

    Raises
    ------
    TopicError
        If the topic does not exist.
    TimeoutError
        If nothing comes for 30 s before the end.
    """
    topic_id = topic_ids(settings, [topic])[topic]
    begins = begins or {}
    first = 0 if start is None else _milliseconds(start)
    last = None if end is None else _milliseconds(end)
    consumer = Consumer(consumer_config(settings, f"range-{uuid.uuid4()}"))
    try:
        open_partitions = _starts(consumer, topic, first)
        positions = {number: begins[topic_id, number] for number in open_partitions if (topic_id, number) in begins}
        open_partitions |= positions
        consumer.assign([TopicPartition(topic, number, offset) for number, offset in open_partitions.items()])
        ends: dict[int, int] = {}
        heard_at = time.monotonic()
        while open_partitions:
            batch = consumer.consume(BATCH, WAIT_S)
            if batch:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > TIMEOUT_S:
                raise TimeoutError(f"{topic}: nothing for {TIMEOUT_S:.0f} s from partitions {sorted(open_partitions)}")
            for raw in batch:
                number = raw.partition()
                if number not in open_partitions:
                    continue  # past where it ended when we began
                if _at_end(raw):
                    del open_partitions[number]
                    continue
                offset = raw.offset() or 0
                if raw.error() is not None:
                    consumer.seek(TopicPartition(topic, number, offset + 1))
                message = Message.of(raw, topic_id, positions.get(number, offset if first else 0))
                positions[number] = offset + 1
                if number not in ends:
                    ends[number] = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)[1]
                if message.offset >= ends[number] - 1:
                    del open_partitions[number]
                if (
                    message.offset < ends[number]
                    and first <= message.timestamp_ms
                    and (last is None or message.timestamp_ms < last)
                ):
                    yield message
    finally:
        consumer.close()


def _starts(consumer: Consumer, topic: str, first: int) -> dict[int, int]:
    """Find where each partition that has anything since `first` (milliseconds) is to be read from."""
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    if not first:
        return dict.fromkeys(partitions, OFFSET_BEGINNING)
    starts = {}
    asked = [TopicPartition(topic, number, first) for number in partitions]
    for answer in offsets_for_times(consumer, asked, TIMEOUT_S):
        if answer.offset >= 0:  # -1: none so late
            starts[answer.partition] = answer.offset
    return starts


def _at_end(raw: RawMessage) -> bool:
    error = raw.error()
    if error is None or unreadable(error):
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise TopicError(f"{raw.topic()} does not exist any more")
    raise KafkaException(error)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
