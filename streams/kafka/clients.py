"""Kafka clients: configuration, queries with retries, and a producer that accounts for every event."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from leap.schemas.errors import BrokerError
from leap.streams.kafka.client_log import client_log
from leap.streams.runtime import metrics
from leap.streams.runtime.liveness import Partition
from leap.streams.runtime.settings import Settings
from leap.streams.runtime.tracing import Headers

log = structlog.get_logger(__name__)

# A dead letter carries a message of the maximum size in base64, plus other fields.
MAX_REQUEST_BYTES = 4 * 1024 * 1024
#: Transient errors while a topic is new or a partition changes its leader.
NO_LEADER = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
#: A commit after a rebalance: the messages are redelivered to the new owner of the partition.
REBALANCED = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}

Answer = TypeVar("Answer")


def producer_config(settings: Settings) -> dict[str, Any]:
    """Configuration of an idempotent producer."""
    defaults = {
        "linger.ms": "5",
        "compression.type": "lz4",
        "message.max.bytes": str(MAX_REQUEST_BYTES),
        "queue.buffering.max.kbytes": "32768",  # a slow broker blocks `produce` rather than filling memory
    }
    return defaults | admin_config(settings) | {"enable.idempotence": True, "acks": "all"}


def consumer_config(settings: Settings, group: str) -> dict[str, Any]:
    """Configuration of a consumer that commits manually, after processing.

    The session timeout of 6 s is the broker's default minimum; a killed worker's partitions wait that long.
    Assignment is eager, isolation is read_committed, and metadata is refreshed every 10 s. Fetches and the
    prefetch queue are small, because a fetch is decompressed as a whole before it counts towards the queue.
    """
    defaults = {
        "topic.metadata.refresh.interval.ms": "10000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
        "fetch.message.max.bytes": "32768",
        "queued.max.messages.kbytes": "16384",
        "fetch.queue.backoff.ms": "10",  # a full queue is emptied in milliseconds; the default waits 1 s to fetch again
    }
    fixed = {
        "group.id": settings.topic(group),
        "auto.offset.reset": "earliest",
        "group.protocol": "classic",
        "partition.assignment.strategy": "range,roundrobin",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
    }
    return defaults | admin_config(settings) | fixed


def admin_config(settings: Settings) -> dict[str, Any]:
    """Configuration common to all clients, and sufficient for an admin client.

    The log level is `error`, because librdkafka warns about each property that a kind of client does not use.
    """
    return {"client.id": "leap", "log_level": "3", "logger": client_log} | dict(settings.kafka)


def when_led(ask: Callable[[], Answer], seconds: float) -> Answer:
    """Retry a query while a partition has no leader, which the client itself does not do.

    Raises
    ------
    confluent_kafka.KafkaException
        Any other error immediately, and this one after `seconds`.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in NO_LEADER or time.monotonic() > until:
                raise
        time.sleep(0.1)


def offsets_for_times(consumer: Consumer, asked: list[TopicPartition], seconds: float) -> list[TopicPartition]:
    """`Consumer.offsets_for_times`, retried while any partition has no leader."""

    def ask() -> list[TopicPartition]:
        answers = consumer.offsets_for_times(asked, seconds)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return answers

    return when_led(ask, seconds)


def commit_offsets(consumer: Consumer, positions: Mapping[Partition, int]) -> KafkaError | None:
    """Commit synchronously; returns the broker's error if the partitions were rebalanced meanwhile.

    Raises
    ------
    confluent_kafka.KafkaException
        On any other error.
    """
    offsets = [TopicPartition(*partition, position) for partition, position in positions.items()]
    try:
        answers = consumer.commit(offsets=offsets, asynchronous=False)
        refusals = [answer.error for answer in answers if answer.error is not None]
    except KafkaException as error:
        refusals = [error.args[0]]
    for refusal in refusals:
        if refusal.code() not in REBALANCED:
            raise KafkaException(refusal)
    return refusals[0] if refusals else None


def close_consumer(consumer: Consumer, seconds: float) -> bool:
    """Leave the group and close; False if that takes longer, as it does without a broker."""
    closing = threading.Thread(target=consumer.close, name="close", daemon=True)
    closing.start()
    closing.join(seconds)
    return not closing.is_alive()


def is_fatal(error: KafkaError) -> bool:
    """Whether a client cannot continue after an error.

    The fatal error itself is reported once, by a poll; later calls fail with `_FATAL`, which is not flagged as fatal.
    """
    return error.fatal() or error.code() == KafkaError._FATAL


class DeliveryError(BrokerError):
    """Events were rejected by the broker, or not acknowledged in time.

    Attributes
    ----------
    left
        Events not acknowledged yet.
    failed
        Events rejected or timed out since the last flush.
    """

    def __init__(self, left: int, failed: int, first: str) -> None:
        super().__init__(f"{left} events not acknowledged, {failed} failed{first and ': ' + first}")
        self.left = left
        self.failed = failed


class CheckedProducer:
    """A producer that polls on each event, tracks every delivery report, and flushes within a deadline.

    Not thread-safe. An event is delivered once `flush` has returned; one reported as failed or left may still
    arrive, so sending it again means at-least-once delivery.

    Attributes
    ----------
    ends
        (topic, partition) to the offset after the last event of it that was acknowledged.
    """

    def __init__(self, settings: Settings) -> None:
        self._config = producer_config(settings)
        self._producer = Producer(self._config)
        self._failed = 0
        self._first = ""
        self._fatal = False
        self.ends: dict[Partition, int] = {}

    def produce(
        self, topic: str, value: bytes, key: bytes | None = None, timestamp_ms: int = 0, trace: Headers = ()
    ) -> None:
        """Queue an event; blocks while the queue is full.

        Parameters
        ----------
        topic
            Name on the broker.
        value, key
            Message value and key.
        timestamp_ms
            Message timestamp, milliseconds since 1970; 0 is now.
        trace
            Trace context headers, and others that go with the event.

        Raises
        ------
        confluent_kafka.KafkaException
            If the event exceeds the maximum request size, or after a fatal error.
        """
        while not self._fatal:
            try:
                self._producer.produce(
                    topic, value, key, timestamp=timestamp_ms, headers=list(trace), on_delivery=self._delivered
                )
            except BufferError:
                self._call(self._producer.poll, 0.1)
                continue
            self._call(self._producer.poll, 0)
            return
        self._failed += 1  # `flush` creates a new client

    def flush(self, seconds: float = 30.0) -> None:
        """Wait until every event is acknowledged; give up when `seconds` pass without any acknowledgement.

        Raises
        ------
        DeliveryError
            If an event failed since the last flush, or is not acknowledged.
        """
        left, before = len(self._producer), math.inf
        while 0 < left < before and not self._failed:
            left, before = self._call(self._producer.flush, seconds), left
        if not left and not self._failed:
            return
        error = DeliveryError(left, self._failed, self._first)
        if left:  # or they would be sent in addition to their retry
            self._producer.purge(in_queue=True, in_flight=False)
            self._call(self._producer.poll, 0)
        if self._fatal:
            self._producer = Producer(self._config)
        self._failed, self._first, self._fatal = 0, "", False
        raise error

    def _call(self, action: Callable[[float], int], seconds: float) -> int:
        """Poll or flush; the client raises on a fatal error, even from within a delivery callback."""
        try:
            return action(seconds)
        except BaseException as error:
            if not isinstance(error, Exception | KafkaError):  # the client may raise a KafkaError, no Exception
                raise
            self._fatal, self._failed = True, self._failed + 1
            self._first = self._first or str(error.__cause__ or error)
            return len(self._producer)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic = message.topic() or ""
        if error is None:
            metrics.PRODUCED.labels(topic).inc()
            self.ends[topic, message.partition() or 0] = (message.offset() or 0) + 1
            return
        metrics.UNDELIVERED.labels(topic).inc()
        self._failed += 1
        self._first = self._first or f"{topic}: {error.str()}"
        self._fatal = self._fatal or is_fatal(error)
