"""Hears the preference lists of the attempts that a launcher waits for."""

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from leap.schemas.codec import Rejected, decode
from leap.schemas.events import PreferenceList
from leap.schemas.topics import PREFERENCES
from leap.streams.kafka.clients import consumer_config, offsets_for_times
from leap.streams.runtime.settings import Settings

log = logging.getLogger(__name__)  # of the process that we are a guest in

DEADLINE_EXCEEDED = "deadline exceeded"
READY_S = 2.0
POLL_S = 0.5
RETRY_S = 0.2
#: A list in a partition that was added is heard so much later at most, and the ones after it at once.
LOOK_EVERY_S = 5.0
# Attempts waited for; beyond them the oldest is given up, as nobody may ever ask for it.
MAX_EXPECTED = 10_000


class PreferenceFollower:
    """Reads the preference-list topic in a background thread, from where it ended when the follower began.

    Partitions are assigned, not subscribed: every follower reads all of them, without a consumer group and
    its rebalances; what is added to the topic is read from its beginning. A reader that fails is replaced, and goes on
    where it was. Creating a follower waits up to 2 s until reading has begun; with the broker away it goes on trying.

    Parameters
    ----------
    settings
        Where the broker is.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._expected: dict[str, PreferenceList | None] = {}
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._topic = settings.topic(PREFERENCES)
        self._next: dict[int, int] = {}  # partition to the offset that is read next
        self._silent: set[int] = set()  # partitions that have not answered yet
        self._thread = threading.Thread(target=self._run, name="preferences", daemon=True)
        self._thread.start()
        self._ready.wait(READY_S)

    def ready(self, timeout: float) -> bool:
        """Wait until every partition is read, so that no answer to a later submission is missed or late."""
        return self._ready.wait(max(0.0, min(timeout, threading.TIMEOUT_MAX)))  # and nan is 0

    def expect(self, attempt_id: str) -> None:
        """Keep the list of this attempt when it comes; to be called before the submission is sent."""
        with self._changed:
            self._expected[attempt_id] = None
            if len(self._expected) > MAX_EXPECTED:
                del self._expected[next(iter(self._expected))]

    def wait(self, attempt_id: str, deadline: float) -> PreferenceList | None:
        """The list of an expected attempt, or None after `deadline` seconds. It is handed out once."""
        until = time.monotonic() + max(0.0, deadline)  # and nan is 0
        with self._changed:
            while self._expected.get(attempt_id) is None and attempt_id in self._expected:
                left = until - time.monotonic()
                if left <= 0 or self._closing.is_set():
                    return None
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            return self._expected.pop(attempt_id, None)

    def close(self) -> None:
        """Stop reading; whoever waits gets nothing."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(2 * POLL_S)

    def _run(self) -> None:
        troubled = False
        while not self._closing.is_set():
            try:
                for value in self._messages():
                    troubled = False
                    self._take(value)
            except Exception as error:
                if not troubled:  # or the log fills while the broker is away
                    log.warning("preference lists not read, trying on: %r", error)
                troubled = True
                self._closing.wait(RETRY_S)

    def _messages(self) -> Iterator[bytes | None]:
        """Values of all messages since the follower began, until closed."""
        config = consumer_config(self._settings, f"preferences-{uuid.uuid4()}") | {"log_level": 0}
        consumer = Consumer(config)
        try:
            self._assign(consumer, self._partitions(consumer))
            look_at = time.monotonic() + LOOK_EVERY_S
            while not self._closing.is_set():
                message = consumer.poll(POLL_S)
                if message is not None and self._heard(message):
                    yield message.value()
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + LOOK_EVERY_S
                    with suppress(KafkaException):  # what brokers do not answer now, they will the next time
                        partitions = self._partitions(consumer)
                        if partitions - self._next.keys():
                            self._assign(consumer, partitions)
        finally:
            consumer.close()

    def _partitions(self, consumer: Consumer) -> set[int]:
        return set(consumer.list_topics(self._topic, timeout=READY_S).topics[self._topic].partitions)

    def _assign(self, consumer: Consumer, partitions: set[int]) -> None:
        """Read from where partitions end, later on where each was read; whole what was added meanwhile."""
        if not partitions:
            raise LookupError(f"{self._topic} does not exist; create it with: leap topics")
        if self._next:
            self._next |= dict.fromkeys(partitions - self._next.keys(), OFFSET_BEGINNING)
        else:
            ends = [TopicPartition(self._topic, number, OFFSET_END) for number in partitions]
            self._next = {end.partition: end.offset for end in offsets_for_times(consumer, ends, READY_S)}
            self._silent = set(self._next)
        consumer.assign([TopicPartition(self._topic, *position) for position in self._next.items()])

    def _heard(self, message: Message) -> bool:
        """Whether it is one, and not the end of a partition or an error."""
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return False
        if partition is not None and offset is not None:
            self._next[partition] = offset + (error is None)
            self._silent.discard(partition)
            if not self._silent:
                self._ready.set()
        return error is None

    def _take(self, value: bytes | None) -> None:
        try:
            answer = decode(value, PreferenceList)
        except Rejected:
            return
        with self._changed:
            if answer.attempt_id in self._expected:
                self._expected[answer.attempt_id] = answer
                self._changed.notify_all()
