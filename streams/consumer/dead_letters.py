"""Publishing invalid messages to the dead-letter topic."""

from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from leap.schemas.codec import encode
from leap.schemas.events import DeadLetter
from leap.schemas.topics import DEAD_LETTERS
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.runtime import metrics
from leap.streams.runtime.settings import Settings
from leap.streams.runtime.tracing import trace_id

log = structlog.get_logger(__name__)

# Limits on what a dead letter keeps: in base64 the value stays below the 2 MiB of the topic. Only a message of a
# compressed batch can exceed its own topic's 1 MiB.
KEPT_VALUE = 1024 * 1024
KEPT_KEY = 64 * 1024
KEPT_REASON = 2000
LOGGED_KEY = 100
CUT = "first "  # how the reason begins of a message that was too long to keep whole


def now() -> datetime:
    """Current time in UTC."""
    return datetime.now(UTC)


class DeadLetters:
    """Publishes dead letters through the producer that :class:`leap.streams.consumer.batch_loop.BatchLoop` flushes.

    A retried batch sends its dead letters again; topic, partition and offset identify duplicates.

    Parameters
    ----------
    settings
        Topic prefix.
    producer
        The `outputs` of the worker's loop: dead letters are acknowledged before the commit.
    worker
        Worker name recorded in each letter.
    clock
        Current time in UTC.
    """

    def __init__(
        self, settings: Settings, producer: CheckedProducer, worker: str, clock: Callable[[], datetime] = now
    ) -> None:
        self._topic = settings.topic(DEAD_LETTERS)
        self._producer = producer
        self._worker = worker
        self._clock = clock

    def add(self, message: Message, reason: str) -> None:
        """Publish a dead letter for a message.

        Parameters
        ----------
        message
            Its value is kept up to 1 MiB and its key up to 64 KiB; the reason mentions a truncation.
        reason
            What is wrong, and where in the message.
        """
        value, key = message.value, message.key
        if value is not None and len(value) > KEPT_VALUE:
            reason = f"{CUT}{KEPT_VALUE} of {len(value)} bytes kept; {reason}"
            value = value[:KEPT_VALUE]
        if key is not None and len(key) > KEPT_KEY:
            reason = f"{CUT}{KEPT_KEY} of {len(key)} bytes of the key kept; {reason}"
            key = key[:KEPT_KEY]
        letter = DeadLetter(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            value=value,
            key=key,
            reason=reason.encode(errors="replace").decode()[:KEPT_REASON],
            worker=self._worker,
            rejected_at=self._clock(),
        )
        resent = message.resent.headers if message.resent else ()  # so that it is told where the message was first
        self._producer.produce(self._topic, encode(letter), key, trace=(*message.trace, *resent))
        metrics.DEAD_LETTERS.labels(self._worker, message.topic).inc()
        log.warning(
            "message sent to dead letters", worker=self._worker, topic=message.topic, partition=message.partition,
            offset=message.offset, key=repr(key and key[:LOGGED_KEY]), reason=letter.reason,
            trace=trace_id(message.trace),
        )  # fmt: skip

    def flush(self) -> None:
        """Wait until they are acknowledged.

        Raises
        ------
        DeliveryError
            If any is not.
        """
        self._producer.flush()
