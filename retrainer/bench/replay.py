"""How fast a replay reads a day of submissions, and how fast it ranks them."""

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec

from leap.retrainer.bench.model import Trained
from leap.retrainer.replay.replay import BATCH_SIZE, read_state, replay, routers
from leap.schemas.codec import encode
from leap.schemas.events import THROUGHPUT
from leap.schemas.topics import SUBMITTED
from leap.streams.bench.ranking import fresh_topics
from leap.streams.consumer.run import tune_interpreter
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.event_range import submitted
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One process on one broker.

    Attributes
    ----------
    bytes_each
        Mean length of a submission: four in five of the fleet's carry their model definition.
    read_per_s
        Submissions read from the topic, as bytes.
    decoded_per_s
        Read, and validated at the door.
    rank_per_s
        The whole of a replay: read, decoded, ranked, joined, written.
    read_per_cpu_s, rank_per_cpu_s
        The same in a second of processor time of this process: what a machine that does nothing else would do.
    """

    submissions: int
    bytes_each: float
    read_per_s: float
    decoded_per_s: float
    rank_per_s: float
    read_per_cpu_s: float
    rank_per_cpu_s: float


def bench(settings: Settings, trained: Trained, submissions: int) -> Figures:
    """Measure on a running broker, under topics of its own that it leaves behind."""
    tune_interpreter()
    [version] = trained.store.versions(THROUGHPUT)
    start = min(job.submitted_at for job in trained.submissions)
    end = max(job.submitted_at for job in trained.submissions) + timedelta(seconds=1)
    with fresh_topics(settings) as fresh, tempfile.TemporaryDirectory(prefix="leap-bench-") as folder:
        fresh = replace(fresh, artifacts=str(trained.store.root))
        sent = _send(fresh, trained, submissions)
        topic = fresh.topic(SUBMITTED)
        read, read_cpu = _timed(lambda: _exhaust(read_range(fresh, topic)))
        decoded, _ = _timed(lambda: _exhaust(submitted(fresh, start, end, BATCH_SIZE)))
        ranked_by, root = routers(fresh, trained.store, [version]), Path(folder)
        ranked, ranked_cpu = _timed(lambda: replay(fresh, ranked_by, start, end, root))
        state = read_state(root)
    if state is None or state.submissions != submissions:
        raise RuntimeError(f"of {submissions} submissions not all were replayed: {state}")
    return Figures(
        submissions=submissions,
        bytes_each=round(sent / submissions, 1),
        read_per_s=round(submissions / read, 1),
        decoded_per_s=round(submissions / decoded, 1),
        rank_per_s=round(submissions / ranked, 1),
        read_per_cpu_s=round(submissions / read_cpu, 1),
        rank_per_cpu_s=round(submissions / ranked_cpu, 1),
    )


def _send(settings: Settings, trained: Trained, submissions: int) -> int:
    """Send the day's submissions again and again, each as another attempt; returns their bytes."""
    producer = CheckedProducer(settings)
    length = 0
    for number in range(submissions):
        job = trained.submissions[number % len(trained.submissions)]
        value = encode(msgspec.structs.replace(job, attempt_id=f"{job.attempt_id}-{number}"))
        producer.produce(settings.topic(SUBMITTED), value, str(number).encode())
        length += len(value)
    producer.flush(120.0)
    return length


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time."""
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def _exhaust(messages: Iterable[object]) -> None:
    for _ in messages:
        pass
