"""A message as workers see it, and the wish to see some again."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from operator import methodcaller
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaError
from confluent_kafka import Message as RawMessage

from leap.streams.runtime.liveness import Partition
from leap.streams.runtime.tracing import Headers, carried

log = structlog.get_logger(__name__)

#: How far the clocks of a launcher and of whoever wrote its message may differ.
AHEAD = timedelta(days=1)


class Message(NamedTuple):
    """A message as it stands in a topic.

    Attributes
    ----------
    topic
        Name on the broker.
    topic_id
        Id of this incarnation of the topic; the configured epoch where the broker has none.
    timestamp_ms
        Milliseconds since 1970.
    position
        Where its reader stood: between this and the offset the partition has nothing.
    trace
        Trace context of its headers.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    position: int = 0
    trace: Headers = ()

    def event_in_future(self, event_time: datetime) -> bool:
        """Tell whether this was written before a moment that it reports as past.

        One event from the future would be "the last" for ever. What counts is when the message was written, not
        what the time is now: so a replay tells the same. That time is whatever its producer wrote, also one that no
        calendar has.
        """
        return 0 < self.timestamp_ms < (event_time - AHEAD).timestamp() * 1000

    @classmethod
    def of(cls, raw: RawMessage, topic_id: str, position: int) -> "Message":
        """Read what the client holds; what it could not unpack has no value."""
        topic, partition, offset = raw.topic(), raw.partition(), raw.offset()
        assert topic is not None and partition is not None and offset is not None
        timestamp_ms = raw.timestamp()[1]
        if (error := raw.error()) is not None:  # one that cannot be unpacked
            log.warning("no message to read", topic=topic, partition=partition, offset=offset, error=error.str())
            return cls(topic, topic_id, partition, offset, None, None, timestamp_ms, position)
        trace = carried(_headers(raw))
        return cls(topic, topic_id, partition, offset, raw.key(), raw.value(), timestamp_ms, position, trace)


def unreadable(error: KafkaError) -> bool:
    """Tell whether an error is of what stands at one offset: whoever asks again is told so again."""
    return error.code() in (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG)


# Of a header whose name is not UTF-8 the client makes what is no object, and sets an error. Where a method is called
# directly and often, CPython 3.11 does not look for errors, and such an object ends the process; here it always looks.
_ask_headers = methodcaller("headers")


def _headers(raw: RawMessage) -> Iterable[tuple[str, str | bytes | None]]:
    try:
        headers = _ask_headers(raw)
    except SystemError:
        return ()
    return headers.items() if isinstance(headers, dict) else headers or ()


class Rewind(Exception):
    """What was committed is lost where it was kept: read these partitions again, each from this offset."""

    def __init__(self, positions: Mapping[Partition, int]) -> None:
        super().__init__(f"to be read again: {positions}")
        self.positions = positions
