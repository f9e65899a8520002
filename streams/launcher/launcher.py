"""What a launcher links in to tell Leap about its attempts, and to hear which hardware Leap prefers.

Nothing here may hold up or break a launch: a call returns at once and never raises, whatever the broker does.
What could not be queued is counted, and logged once a minute.
"""

import atexit
import ctypes
import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from leap.predictor.storage.forks import watch_forks
from leap.schemas.codec import decode
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted, PreferenceList
from leap.streams.kafka.clients import is_fatal, producer_config
from leap.streams.kafka.partition_key import address
from leap.streams.launcher.allocated_shapes import AllocatedShapes
from leap.streams.launcher.preference_follower import DEADLINE_EXCEEDED, PreferenceFollower
from leap.streams.runtime.settings import Settings
from leap.streams.runtime.tracing import current

log = logging.getLogger(__name__)  # of the process that we are a guest in

CLOSE_S = 5.0
LOG_EVERY_S = 60.0
# Beyond either, events are dropped; both are reached only while the broker is away.
QUEUE = {"queue.buffering.max.messages": 100_000, "queue.buffering.max.kbytes": 65_536}

Fields = Mapping[str, Any]
E = TypeVar("E", JobSubmitted, JobAllocated, JobCompleted)


class Counts(NamedTuple):
    """What became of the events.

    Attributes
    ----------
    queued
        Taken from the launcher.
    delivered, failed
        Of those, acknowledged by the broker, and refused by it or too late. The rest is on its way.
    dropped
        Never queued: not valid, the queue full, the launcher closed or forked.
    """

    queued: int
    delivered: int
    failed: int
    dropped: int


class Launcher:
    """Sends a launcher's events. Safe to use from many threads.

    Create it once a process, after any fork: a child's copy drops everything. Events are sent in the
    background, once per call and in order (idempotent producer). Message timestamps are the time of sending,
    for retention counts from them and a backfill of old events must stay; event times are in the events.

    Parameters
    ----------
    settings
        Where the broker is.
    follow_preferences
        Read the preference lists too, for `preference`: creating the launcher then waits up to 2 s until they are read,
        and `ready` tells whether they are. Each process that does reads the whole topic from its end; where launchers
        are many, rank in process with :class:`leap.predictor.routing.router.Router` instead.

    Raises
    ------
    confluent_kafka.KafkaException
        If a Kafka property in `settings` is not valid. A broker that is away is not an error.

    Examples
    --------
    ::

        with Launcher(Settings.from_environment(os.environ), follow_preferences=True) as launcher:
            launcher.ready(timeout=30.0)
            launcher.submitted(JobSubmitted(...))
            launcher.allocated({"attempt_id": "a-1", "hardware_type": "H100-SXM-80GB", ...})
    """

    def __init__(self, settings: Settings, follow_preferences: bool = False) -> None:
        self._settings = settings
        self._process = os.getpid()
        self._config = QUEUE | producer_config(settings) | {"error_cb": self._heard, "log_level": 0}
        self._producer = Producer(self._config)
        self._follower = PreferenceFollower(settings) if follow_preferences else None
        self._lock = threading.RLock()  # a signal handler may launch too
        self._shapes = AllocatedShapes()
        self._queued = self._delivered = self._failed = self._dropped = 0
        self._log_at = 0.0
        self._closed = False
        atexit.register(self.close)
        watch_forks(self)

    def after_fork(self) -> None:
        """Free the lock, which another thread may have held: a copy still counts what it drops.

        The client is never destroyed here: it would wait for threads that stayed with the parent, or crash.
        """
        self._lock = threading.RLock()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))

    def submitted(self, event: JobSubmitted | Fields) -> bool:
        """An attempt is about to start; whether it was queued. Key: attempt_id.

        Parameters
        ----------
        event
            The event, or its fields, which cannot raise where they are written down.
        """
        return self._send(JobSubmitted, event)

    def allocated(self, event: JobAllocated | Fields) -> bool:
        """An attempt got its hardware; whether it was queued. Key: attempt_id."""
        return self._send(JobAllocated, event)

    def completed(self, event: JobCompleted | Fields) -> bool:
        """An attempt ended; whether it was queued. Key: its family.

        One that states no `shapes` gets those that `allocated` told of here, as long as the hardware type is the same.
        """
        return self._send(JobCompleted, event)

    def ready(self, timeout: float) -> bool:
        """Wait until the answer to a submission would be heard, and in time; whether it would. Never raises.

        Parameters
        ----------
        timeout
            Seconds to wait at most. With the broker away, `submitted` goes on taking events meanwhile.

        Returns
        -------
        bool
            True at once where preference lists are not followed; False of a launcher that is closed or forked.
        """
        if self._closed or self._process != os.getpid():
            return False
        return self._follower is None or self._follower.ready(timeout)

    def preference(self, attempt_id: str, deadline: float) -> PreferenceList:
        """Wait for the preference list of an attempt that was submitted here. Never raises.

        Parameters
        ----------
        attempt_id
            Of a submission that this launcher sent.
        deadline
            Seconds to wait at most.

        Returns
        -------
        PreferenceList
            With `no_opinion` where there is none in time; one with `shadow` is not to be acted on.
        """
        answer = None
        if self._follower is not None and self._process == os.getpid():
            with suppress(Exception):
                answer = self._follower.wait(attempt_id, deadline)
        return answer or PreferenceList(
            attempt_id=attempt_id, no_opinion=DEADLINE_EXCEEDED, decided_at=datetime.now(UTC)
        )

    @property
    def counts(self) -> Counts:
        """What became of the events so far."""
        if not self._closed and self._process == os.getpid():
            self._poll()
        with self._lock:
            return Counts(self._queued, self._delivered, self._failed, self._dropped)

    def close(self, deadline: float = CLOSE_S) -> int:
        """Send what is queued; runs at exit if nobody calls it. Never raises.

        Parameters
        ----------
        deadline
            Seconds that it may take.

        Returns
        -------
        int
            Events that the broker has not acknowledged, and never will have from here.
        """
        if self._closed or self._process != os.getpid():
            return 0
        self._closed = True
        atexit.unregister(self.close)
        try:
            if self._follower is not None:
                self._follower.close()
            self._producer.flush(deadline)
            self._producer.purge()
            self._producer.poll(0)
        except Exception as error:
            log.error("launcher not closed: %r", error)
        lost = self._queued - self._delivered
        if lost:
            log.error("%d of %d events lost at the end", lost, self._queued)
        return lost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, event_type: type[E], event: E | Fields) -> bool:
        if self._closed or self._process != os.getpid():
            return self._drop("closed" if self._closed else "forked; create a launcher in each process")
        try:
            value = msgspec.json.encode(event)
            checked = decode(value, event_type)  # a struct made in Python is not validated before
            with self._lock:
                if isinstance(checked, JobAllocated):
                    self._shapes.add(checked)
                elif isinstance(checked, JobCompleted) and (stated := self._shapes.stated(checked)) is not checked:
                    value = msgspec.json.encode(stated)
            if self._follower is not None and event_type is JobSubmitted:
                self._follower.expect(checked.attempt_id)
            topic, key = address(checked)
            self._produce(self._settings.topic(topic), value, key)
            with self._lock:
                self._queued += 1
            self._poll()
            return True
        except BufferError:
            return self._drop("the queue is full; the broker is away or too slow")
        except Exception as error:  # whatever is wrong with an event, the launch goes on
            return self._drop(f"{event_type.__name__}: {type(error).__name__}: {error}")

    def _produce(self, topic: str, value: bytes, key: bytes) -> None:
        """Queue an event; a client that has ended by a fatal error gives way to a new one."""
        producer = self._producer
        try:
            producer.produce(topic, value, key, headers=list(current()), on_delivery=self._told)
        except KafkaException as error:
            if not is_fatal(error.args[0]):
                raise
            with self._lock:
                if self._producer is producer:  # or another thread was faster
                    self._poll()
                    self._producer = Producer(self._config)
                    self._failed = self._queued - self._delivered  # of the rest nobody will hear
            self._produce(topic, value, key)

    def _poll(self) -> None:
        """Hear of deliveries, and of a fatal error, which the next event meets too."""
        with suppress(Exception):
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        with self._lock:
            if error is None:
                self._delivered += 1
            else:
                self._failed += 1
        if error is not None:
            self._log("event not delivered", error.str())

    def _heard(self, error: KafkaError) -> None:
        self._log("broker", error.str())

    def _drop(self, reason: str) -> bool:
        with self._lock:
            self._dropped += 1
        self._log("event dropped", reason)
        return False

    def _log(self, what: str, reason: str) -> None:
        with suppress(Exception):  # standard error may be gone
            if time.monotonic() >= self._log_at:
                self._log_at = time.monotonic() + LOG_EVERY_S
                log.warning("%s: %s (%d dropped, %d failed so far)", what, reason, self._dropped, self._failed)
