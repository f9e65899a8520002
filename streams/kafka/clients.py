"""Kafka clients: their configuration, and a producer that accounts for every event."""

import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from leap.streams.runtime import metrics
from leap.streams.runtime.settings import Settings
from leap.streams.runtime.tracing import Headers

log = structlog.get_logger(__name__)

# A dead letter carries a message of the largest size in base64 beside other fields.
MAX_REQUEST_BYTES = 4 * 1024 * 1024
#: What brokers answer for a moment when a topic is new or its leader moves.
NO_LEADER = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}

Answer = TypeVar("Answer")


def producer_config(settings: Settings) -> dict[str, Any]:
    """Configuration of an idempotent producer."""
    defaults = {
        "linger.ms": "5",
        "compression.type": "lz4",
        "message.max.bytes": str(MAX_REQUEST_BYTES),
        "queue.buffering.max.kbytes": "32768",  # what is sent slowly waits in `produce`, not in memory
    }
    return defaults | admin_config(settings) | {"enable.idempotence": True, "acks": "all"}


def consumer_config(settings: Settings, group: str) -> dict[str, Any]:
    """Configuration of a consumer that commits by hand, after the work.

    A session of 6 s is the shortest that brokers allow by default: so long a killed worker's partitions
    wait. Assignment is eager; no message of an aborted transaction is seen. Leaders and partitions that moved are
    found after 10 s. A fetch is unpacked whole, whatever it grows to, before it counts as fetched ahead: hence small
    ones, and little ahead.
    """
    defaults = {
        "topic.metadata.refresh.interval.ms": "10000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": "32768",
        "queued.max.messages.kbytes": "16384",
    }
    fixed = {
        "group.id": settings.topic(group),
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
    """Configuration of an administrator: what all clients share.

    Only errors are logged, because librdkafka warns of each property that one kind of client does not have.
    """
    return {"client.id": "leap", "log_level": "3"} | dict(settings.kafka)


def when_led(ask: Callable[[], Answer], seconds: float) -> Answer:
    """Ask about partitions, and ask again while one has no leader, which the client itself does not.

    Raises
    ------
    confluent_kafka.KafkaException
        Any other answer at once, and that one when `seconds` are over.
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
    """Offsets of partitions at times, with `when_led`: of several brokers one may refuse while the others answer."""

    def ask() -> list[TopicPartition]:
        answers = consumer.offsets_for_times(asked, seconds)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return answers

    return when_led(ask, seconds)


def is_fatal(error: KafkaError) -> bool:
    """Tell whether a client cannot go on after an error.

    The fatal error itself is told once, by a poll; calls after it are refused with one that is not called fatal.
    """
    return error.fatal() or error.code() == KafkaError._FATAL


class DeliveryError(RuntimeError):
    """Events were refused by the broker, or not acknowledged in time.

    Attributes
    ----------
    left
        Events still without an answer.
    failed
        Events that the broker refused, or that timed out, since the last flush.
    """

    def __init__(self, left: int, failed: int, first: str) -> None:
        super().__init__(f"{left} events are not acknowledged and {failed} failed{first and ': ' + first}")
        self.left = left
        self.failed = failed


class CheckedProducer:
    """A producer that polls on each event, hears of every delivery, and flushes within a deadline.

    Used from one thread. An event counts when `flush` has returned; one that was reported as failed or left
    may still arrive, so whoever sends it again sends it at least once.
    """

    def __init__(self, settings: Settings) -> None:
        self._config = producer_config(settings)
        self._producer = Producer(self._config)
        self._failed = 0
        self._first = ""
        self._fatal = False

    def produce(
        self, topic: str, value: bytes, key: bytes | None = None, timestamp_ms: int = 0, trace: Headers = ()
    ) -> None:
        """Queue an event; waits while the queue is full.

        Parameters
        ----------
        topic
            Name on the broker.
        value, key
            What to send.
        timestamp_ms
            Time of the event in milliseconds since 1970; 0 is now.
        trace
            Trace context that it carries on.

        Raises
        ------
        confluent_kafka.KafkaException
            If the event is larger than a request may be, or the client has ended by a fatal error.
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
        self._failed += 1  # and `flush` takes a new client

    def flush(self, seconds: float = 30.0) -> None:
        """Wait until every event is acknowledged, as long as some are within every `seconds`.

        Raises
        ------
        DeliveryError
            If an event failed since the last flush, or is left.
        """
        left, before = len(self._producer), math.inf
        while 0 < left < before and not self._failed:
            left, before = self._call(self._producer.flush, seconds), left
        if not left and not self._failed:
            return
        error = DeliveryError(left, self._failed, self._first)
        if left:  # or they would be sent beside their repetition
            self._producer.purge(in_queue=True, in_flight=False)
            self._call(self._producer.poll, 0)
        if self._fatal:
            self._producer = Producer(self._config)
        self._failed, self._first, self._fatal = 0, "", False
        raise error

    def _call(self, action: Callable[[float], int], seconds: float) -> int:
        """Poll or flush; what the client raises is a fatal error, and it does so in the middle of a delivery too."""
        try:
            return action(seconds)
        except BaseException as error:
            if not isinstance(error, Exception | KafkaError):  # for it raises a KafkaError, which is no Exception
                raise
            self._fatal, self._failed = True, self._failed + 1
            self._first = self._first or str(error.__cause__ or error)
            return len(self._producer)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic = message.topic() or ""
        if error is None:
            metrics.PRODUCED.labels(topic).inc()
            return
        metrics.UNDELIVERED.labels(topic).inc()
        self._failed += 1
        self._first = self._first or f"{topic}: {error.str()}"
        self._fatal = self._fatal or is_fatal(error)
