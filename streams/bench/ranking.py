"""Latency of preference lists through Kafka, and throughput of one ranking worker."""

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from leap.schemas.codec import encode
from leap.schemas.events import JobSubmitted
from leap.schemas.topics import PREFERENCES, SUBMITTED, load_topics
from leap.streams.embedded import child
from leap.streams.kafka.clients import CheckedProducer, consumer_config
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.runtime.settings import Settings

RATE = 100.0
#: Excluded from the figures: the producer connects, the worker starts and joins its group.
WARM_UP_S = 8.0
TIMEOUT_S = 120.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one ranking worker in its own process.

    Attributes
    ----------
    p50_ms, p99_ms
        From producing a submission to receiving its list, at 100 submissions/s.
    jobs_per_s
        For a backlog of submissions, from the first list to the last.
    unanswered
        Submissions without a list.
    """

    jobs: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    jobs_per_s: float
    unanswered: int


class Lists:
    """Receives preference lists, and records the arrival times of each attempt."""

    def __init__(self, settings: Settings) -> None:
        self.received: dict[str, list[float]] = {}
        self._stop = threading.Event()
        config = consumer_config(settings, f"bench-{uuid.uuid4()}") | {"fetch.wait.max.ms": "5"}
        self._consumer = Consumer(config)
        topic = settings.topic(PREFERENCES)
        partitions = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                attempt = (message.key() or b"").decode()
                self.received.setdefault(attempt, []).append(time.perf_counter())

    def wait(self, attempts: Sequence[str], seconds: float = TIMEOUT_S) -> list[str]:
        """Wait for the lists of all attempts; returns the attempts without one."""
        deadline = time.monotonic() + seconds
        missing = list(attempts)
        while missing and time.monotonic() < deadline:
            missing = [attempt for attempt in missing if attempt not in self.received]
            time.sleep(0.05)
        return missing

    def close(self) -> None:
        """Stop receiving."""
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()


@contextmanager
def fresh_topics(settings: Settings) -> Iterator[Settings]:
    """New topics and groups for one measurement; they are left behind."""
    fresh = replace(settings, topic_prefix=f"{settings.topic_prefix}bench-{uuid.uuid4().hex[:8]}-")
    ensure_topics(fresh, load_topics().values())
    yield fresh


def bench(
    settings: Settings,
    submissions: Sequence[JobSubmitted],
    command: Sequence[str],
    folder: Path,
    seconds: float = 20.0,
    backlog: int = 10_000,
) -> Figures:
    """Measure a worker.

    Parameters
    ----------
    settings
        With a broker, a store and artifacts.
    submissions
        Sent in rotation, each time with a new attempt id.
    command
        Command of the worker.
    folder
        Directory of its log.
    seconds
        Duration at 100 submissions/s.
    backlog
        Number of submissions waiting when it starts, to measure throughput.
    """
    latencies, unanswered = _latency(settings, submissions, command, folder, seconds)
    jobs_per_s, left = _throughput(settings, submissions, command, folder, backlog)
    p50, p99 = np.percentile(latencies, [50, 99])
    return Figures(
        jobs=len(latencies),
        p50_ms=round(1000 * float(p50), 1),
        p99_ms=round(1000 * float(p99), 1),
        worst_ms=round(1000 * max(latencies), 1),
        jobs_per_s=round(jobs_per_s),
        unanswered=unanswered + left,
    )


def send(
    settings: Settings, submissions: Sequence[JobSubmitted], first: int, count: int, rate: float
) -> dict[str, float]:
    """Send `count` submissions, numbered from `first`, at a constant rate; returns the time each was produced."""
    producer = CheckedProducer(replace(settings, kafka={**settings.kafka, "linger.ms": "0"}))
    sent: dict[str, float] = {}
    began = time.perf_counter()
    for number in range(first, first + count):
        attempt = f"bench-{number}"
        job = msgspec.structs.replace(submissions[number % len(submissions)], attempt_id=attempt)
        value = encode(job)
        time.sleep(max(0.0, began + (number - first) / rate - time.perf_counter()))
        sent[attempt] = time.perf_counter()
        producer.produce(settings.topic(SUBMITTED), value, attempt.encode())
    producer.flush()
    return sent


def _latency(
    settings: Settings, submissions: Sequence[JobSubmitted], command: Sequence[str], folder: Path, seconds: float
) -> tuple[list[float], int]:
    with fresh_topics(settings) as fresh:
        lists = Lists(fresh)
        with child(command, folder / "worker.log", lambda: True, fresh.to_environment()):
            sent = send(fresh, submissions, 0, int((WARM_UP_S + seconds) * RATE), RATE)
            missing = lists.wait(list(sent), 10.0)
        lists.close()
    latencies = [lists.received[attempt][0] - sent_at for attempt, sent_at in sent.items() if attempt in lists.received]
    return latencies[int(WARM_UP_S * RATE) :], len(missing)


def _throughput(
    settings: Settings, submissions: Sequence[JobSubmitted], command: Sequence[str], folder: Path, backlog: int
) -> tuple[float, int]:
    with fresh_topics(settings) as fresh:
        sent = list(send(fresh, submissions, 0, backlog, 1e9))
        lists = Lists(fresh)
        with child(command, folder / "worker.log", lambda: True, fresh.to_environment()):
            missing = lists.wait(sent)
        lists.close()
    received = sorted(times[0] for times in lists.received.values())
    return (len(received) - 1) / (received[-1] - received[0]), len(missing)
