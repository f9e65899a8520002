"""The consumed message, and the Rewind signal that asks for re-delivery."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from operator import methodcaller
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaError
from confluent_kafka import Message as RawMessage

from leap.streams.runtime.liveness import Partition
from leap.streams.runtime.tracing import Headers, carried

log = structlog.get_logger(__name__)

#: Clock skew tolerated between a launcher and the producer of its message.
CLOCK_SKEW = timedelta(days=1)
#: Headers of a message that was sent again from the dead letters.
RESENT_FOR, RESENT_FROM = "leap-resent-for", "leap-resent-from"
_WORKERS, _ORIGIN = re.compile(rb"[a-z,]{1,200}"), re.compile(rb"[\w.-]{1,249}/\d{1,10}/\d{1,19}")


class Resent(NamedTuple):
    """What a message says that was sent again after workers had refused it; in headers, so its bytes are the same.

    Attributes
    ----------
    workers
        Those that refused it: the others handled it where it was first.
    origin
        Topic, partition and offset at which it was first.

    Examples
    --------
    >>> sent = Resent(frozenset({"history"}), "job-completed/3/17")
    >>> Resent.of(sent.headers) == sent
    True
    >>> Resent.of([("leap-resent-for", b"history")]) is None
    True
    """

    workers: frozenset[str]
    origin: str

    @property
    def headers(self) -> Headers:
        """As they go with a message."""
        return (RESENT_FOR, ",".join(sorted(self.workers)).encode()), (RESENT_FROM, self.origin.encode())

    @classmethod
    def of(cls, headers: Iterable[tuple[str, str | bytes | None]]) -> "Resent | None":
        """Read the headers; None without them, or if they are malformed."""
        found = {name: value for name, value in headers if isinstance(value, bytes)}
        workers, origin = found.get(RESENT_FOR, b""), found.get(RESENT_FROM, b"")
        if not _WORKERS.fullmatch(workers) or not _ORIGIN.fullmatch(origin):
            return None
        return cls(frozenset(workers.decode().split(",")), origin.decode())


class Message(NamedTuple):
    """A consumed message.

    Attributes
    ----------
    topic
        Name on the broker.
    topic_id
        Id of the topic, which changes when it is recreated; the configured epoch on brokers without ids.
    timestamp_ms
        Message timestamp, milliseconds since 1970.
    position
        Position of the reader before this message; there are no messages from it up to `offset`.
    trace
        Trace context headers.
    resent
        That it was sent again, and for whom.
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
    resent: Resent | None = None

    def concerns(self, worker: str) -> bool:
        """Whether a worker has to handle it: not if it was sent again for others, or it would count twice."""
        return self.resent is None or worker in self.resent.workers

    def event_in_future(self, event_time: datetime) -> bool:
        """Whether `event_time` is later than the message timestamp, beyond clock skew.

        An event from the future would remain the latest forever. It is compared with the message timestamp rather
        than the current time so that a replay decides the same. The producer sets the timestamp, so it may be any
        integer, even outside the calendar.
        """
        return 0 < self.timestamp_ms < (event_time - CLOCK_SKEW).timestamp() * 1000

    @classmethod
    def of(cls, raw: RawMessage, topic_id: str, position: int) -> "Message":
        """Convert a client message; one that could not be decompressed has no value."""
        topic, partition, offset = raw.topic(), raw.partition(), raw.offset()
        assert topic is not None and partition is not None and offset is not None
        timestamp_ms = raw.timestamp()[1]
        if (error := raw.error()) is not None:  # could not be decompressed
            log.warning("message unreadable", topic=topic, partition=partition, offset=offset, error=error.str())
            return cls(topic, topic_id, partition, offset, None, None, timestamp_ms, position)
        headers = _headers(raw)
        trace, resent = (carried(headers), Resent.of(headers)) if headers else ((), None)
        return cls(topic, topic_id, partition, offset, raw.key(), raw.value(), timestamp_ms, position, trace, resent)


def unreadable(error: KafkaError) -> bool:
    """Whether an error concerns the data at one offset, so that fetching it again fails again."""
    return error.code() in (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG)


# For a header name that is not UTF-8 the client returns an invalid object with an exception set. CPython 3.11's
# specialised method call does not check for that and crashes; methodcaller always checks.
_ask_headers = methodcaller("headers")


def _headers(raw: RawMessage) -> Collection[tuple[str, str | bytes | None]]:
    try:
        headers = _ask_headers(raw)
    except SystemError:
        return ()
    return headers.items() if isinstance(headers, dict) else headers or ()


class Rewind(Exception):
    """The store lost updates of committed messages: seek these partitions back to these offsets."""

    def __init__(self, positions: Mapping[Partition, int]) -> None:
        super().__init__(f"seek back to {positions}")
        self.positions = positions
