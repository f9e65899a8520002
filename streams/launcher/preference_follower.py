"""Hears the preference lists of the attempts that a launcher waits for."""

import logging
import threading
import time
import uuid
from collections.abc import Iterator

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

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
# Attempts waited for; beyond them the oldest is given up, as nobody may ever ask for it.
MAX_EXPECTED = 10_000


class PreferenceFollower:
    """Reads the preference-list topic in a background thread, from where it ended when the follower began.

    Partitions are assigned, not subscribed: every follower reads all of them, without a consumer group and
    its rebalances. Creating one waits up to 2 s until reading has begun, so that no answer to a later
    submission is missed; with the broker away it goes on trying.

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
        self._thread = threading.Thread(target=self._run, name="preferences", daemon=True)
        self._thread.start()
        self._ready.wait(READY_S)

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
                self._changed.wait(left)
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
        """Values of all messages from the end of the topic, until closed."""
        topic = self._settings.topic(PREFERENCES)
        config = consumer_config(self._settings, f"preferences-{uuid.uuid4()}") | {"log_level": 0}
        consumer = Consumer(config)
        try:
            partitions = consumer.list_topics(topic, timeout=READY_S).topics[topic].partitions
            if not partitions:
                raise LookupError(f"{topic} does not exist; create it with: leap topics")
            ends = [TopicPartition(topic, number, OFFSET_END) for number in partitions]
            consumer.assign(offsets_for_times(consumer, ends, READY_S))
            self._ready.set()
            while not self._closing.is_set():
                message = consumer.poll(POLL_S)
                if message is not None and message.error() is None:
                    yield message.value()
        finally:
            consumer.close()

    def _take(self, value: bytes | None) -> None:
        try:
            found = decode(value, PreferenceList)
        except Rejected:
            return
        with self._changed:
            if found.attempt_id in self._expected:
                self._expected[found.attempt_id] = found
                self._changed.notify_all()
