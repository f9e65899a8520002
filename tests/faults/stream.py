"""The stream that is known beforehand, and the launcher that sends it."""

import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from leap.schemas.codec import encode
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted, JobSubmitted
from leap.schemas.topics import COMPLETED, SUBMITTED
from leap.streams.kafka.clients import CheckedProducer, DeliveryError
from leap.streams.runtime.settings import Settings
from tests.builders import submission

Event = JobSubmitted | JobCompleted

#: Of so many attempts one has a submission too, so that ranking takes a share of the time and not all of it.
SUBMITTED_EVERY = 5
# The busiest of both get less than 1% of the events. Sent some 10,000 times faster than a fleet would, a statistic
# that got more would see more attempts between an event and its repetition than it remembers.
FAMILIES = 2_000
MODEL_TYPES = 400
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HARDWARE_TYPES = ("basic", "fast", "newest")
# So many events are sent again at once: fewer than the store remembers of any statistic.
RECENT = 500
FLUSH_EVERY = 500


def events(count: int, seed: int = 0) -> Iterator[Event]:
    """Make exactly so many submissions and completions, each submission before its completion."""
    rng = random.Random(seed)
    made, number = 0, 0
    while made < count:
        attempt, family = f"attempt-{number:09d}", int(FAMILIES * rng.random() ** 1.5)
        name, model_type = f"team/job-{family}x", f"model-{family % MODEL_TYPES}"
        at = BEGIN + timedelta(seconds=rng.randrange(10**7))
        if number % SUBMITTED_EVERY == 0 and made + 1 < count:
            yield submission(attempt, name, model_type, at, HARDWARE_TYPES)
            made += 1
        yield JobCompleted(
            attempt_id=attempt,
            job_name=name,
            model_type=model_type,
            hardware_type=rng.choice(HARDWARE_TYPES),
            started_at=at,
            finished_at=at + timedelta(hours=1),
            status=SUCCEEDED,
            measurements={THROUGHPUT: rng.lognormvariate(8, 1.5)},
        )
        made += 1
        number += 1


class Sender:
    """A launcher in a thread: sends the stream at a steady rate, and what is refused again.

    Attributes
    ----------
    sent
        Events that the broker has acknowledged.
    paused
        Held while nothing is to be sent.
    """

    def __init__(self, settings: Settings, count: int, rate: float) -> None:
        self.sent = 0
        self.paused = threading.Lock()
        self._settings = settings
        self._count = count
        self._rate = rate
        self._producer = CheckedProducer(settings)
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self._thread.start()

    @property
    def sending(self) -> bool:
        """Whether there is more to come."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait until everything is sent.

        Raises
        ------
        RuntimeError
            If it could not be.
        """
        self._thread.join()
        if self.sent != self._count:
            raise RuntimeError(f"{self.sent} of {self._count} events were sent")

    def send_again(self) -> int:
        """Repeat the latest events; returns how many."""
        with self.paused:
            again = list(self._recent)
            self._deliver(again)
        return len(again)

    def send(self, event: Event) -> None:
        """Send an event that is not of the stream."""
        with self.paused:
            self._deliver([event])

    def _run(self) -> None:
        began = time.monotonic()
        batch: list[Event] = []
        for event in events(self._count):
            batch.append(event)
            if len(batch) == FLUSH_EVERY:
                self._send(batch)
                batch = []
                time.sleep(max(0.0, began + self.sent / self._rate - time.monotonic()))
        self._send(batch)

    def _send(self, batch: list[Event]) -> None:
        with self.paused:
            self._deliver(batch)
            self._recent.extend(batch)
            self.sent += len(batch)

    def _deliver(self, batch: list[Event]) -> None:
        while True:
            for event in batch:
                topic = SUBMITTED if isinstance(event, JobSubmitted) else COMPLETED
                self._producer.produce(self._settings.topic(topic), encode(event), event.attempt_id.encode())
            try:
                self._producer.flush()
                return
            except DeliveryError:  # some may have arrived: then they come twice
                time.sleep(0.5)
