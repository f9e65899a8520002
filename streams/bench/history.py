"""Throughput of the history worker, with and without Kafka."""

import random
import statistics
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from leap.schemas.codec import encode
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import COMPLETED, load_topics
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.consumer.run import tune_interpreter
from leap.streams.history.store import SCRIPT, WINDOW, HistoryStore
from leap.streams.history.updates import Key, Observation, attempt_of, locate
from leap.streams.history.worker import BATCH_SIZE, WORKER, HistoryWorker, read
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.redis_store.client import connect
from leap.streams.redis_store.offset_fence import OffsetRange, encode_ranges, packed
from leap.streams.runtime.settings import Settings

FAMILIES = 20_000
MODEL_TYPES = 660
HARDWARE_TYPES = 20
SECOND = timedelta(seconds=1)

B = TypeVar("B")


@dataclass(frozen=True)
class Figures:
    """Medians over the rounds.

    Attributes
    ----------
    completions_per_s
        End to end: consumed, decoded, applied to three statistics each, committed.
    script_per_s
        The same batches through the same worker and script, without Kafka.
    decoded_per_s
        The same batches as decoded observations: the limit of Redis and its client.
    call_per_key_per_s
        The same observations with one pipelined script call per key and partition, instead of one per bucket.
    fraction_of_script, fraction_of_decoded, fraction_of_call_per_key
        completions_per_s relative to each, within the same round.
    """

    completions: int
    rounds: int
    completions_per_s: float
    script_per_s: float
    decoded_per_s: float
    call_per_key_per_s: float
    fraction_of_script: float
    fraction_of_decoded: float
    fraction_of_call_per_key: float


def bench(settings: Settings, completions: int = 200_000, rounds: int = 3) -> Figures:
    """Measure on a running broker and Redis; the topics are left behind.

    The first batch of a round is not timed if there are more, because it waits for the consumer group.
    """
    tune_interpreter()
    fresh = f"bench-{uuid.uuid4().hex[:8]}-"
    settings = replace(settings, topic_prefix=settings.topic_prefix + fresh)
    ensure_topics(settings, load_topics().values())
    send(settings, completions)
    outputs = CheckedProducer(settings)
    catalog = load_catalog(settings.catalog)
    rates: list[tuple[float, ...]] = []
    for number in range(rounds):
        stores = [
            HistoryStore(connect(settings.redis_url), f"{settings.redis_prefix}-{fresh}{number}-{way}")
            for way in ("kafka", "script", "decoded", "per-key")
        ]
        dead_letters = DeadLetters(settings, outputs, f"{WORKER}-{number}")
        workers = [HistoryWorker(store, dead_letters, catalog) for store in stores[:2]]
        batches, rate = _through_kafka(settings, workers[0], completions, outputs, f"{WORKER}-{number}")
        observed = [read(batch, catalog)[0] for batch in batches]
        seconds = (
            _seconds(workers[1].handle, batches, workers[1].flush),
            _seconds(stores[2].apply, observed),
            _seconds(partial(_call_per_key, stores[3]), observed),
        )
        rates.append((rate, *(completions / elapsed for elapsed in seconds)))
        with stores[3].client.pipeline(transaction=False) as pipeline:
            for key in {key for observations in observed for observation in observations for key in observation.keys}:
                pipeline.unlink(_hash_of(stores[3], key))
            pipeline.execute()
        for store in stores:
            store.remove(THROUGHPUT, 0)
    fractions = [tuple(ours / alone for alone in others) for ours, *others in rates]
    medians = [statistics.median(column) for columns in (rates, fractions) for column in zip(*columns, strict=True)]
    return Figures(completions, rounds, *medians)


def send(settings: Settings, completions: int) -> None:
    """Publish completions: half of them from a few busy families, the others spread evenly."""
    rng = random.Random(0)
    producer = CheckedProducer(settings)
    for number in range(completions):
        many = rng.random() < 0.5
        family = rng.randrange(FAMILIES) if many else min(FAMILIES, int(rng.paretovariate(0.7)))
        finished = datetime(2026, 1, 1, tzinfo=UTC) + number * SECOND
        event = JobCompleted(
            attempt_id=f"attempt-{number:012d}",
            job_name=f"ranker-{family % 97}-daily-{family}x-{finished:%Y%m%d-%H%M%S}",
            model_type=f"model-{family % MODEL_TYPES}",
            hardware_type=f"accelerator-{rng.randrange(HARDWARE_TYPES)}",
            started_at=finished - 3600 * SECOND,
            finished_at=finished,
            status=SUCCEEDED,
            measurements={THROUGHPUT: rng.lognormvariate(8, 1.5)},
        )
        producer.produce(settings.topic(COMPLETED), encode(event), str(family).encode())
    producer.flush()


def _call_per_key(store: HistoryStore, observations: list[Observation]) -> None:
    """Apply observations with one hash per key."""
    groups: dict[tuple[Key, str], list[float | str]] = {}
    ends: dict[str, int] = {}
    for observation in observations:
        attempt = attempt_of(observation.attempt_id)
        ends[observation.source] = observation.offset + 1
        for key in observation.keys:
            groups.setdefault((key, observation.source), []).extend(
                (1, 1, observation.offset, attempt, observation.value, observation.event_time)
            )
    spans = {source: encode_ranges({source: OffsetRange(0, end)}) for source, end in ends.items()}
    with store.client.pipeline(transaction=False) as pipeline:
        for (key, source), updates in groups.items():
            arguments = WINDOW, spans[source], packed(((locate(key)[1],), updates))
            pipeline.execute_command("EVAL", SCRIPT, 1, _hash_of(store, key), *arguments)
        pipeline.execute()


def _hash_of(store: HistoryStore, key: Key) -> str:
    return f"{store.pointer}:{locate(key)[1]}"


def _seconds(work: Callable[[B], object], batches: list[B], finish: Callable[[], None] = lambda: None) -> float:
    began = time.perf_counter()
    for batch in batches:
        work(batch)
    finish()
    return time.perf_counter() - began


def _through_kafka(
    settings: Settings, worker: HistoryWorker, completions: int, outputs: CheckedProducer, group: str
) -> tuple[list[list[Message]], float]:
    """Run the worker until it has processed `completions`; return its batches, and completions/s after the first."""
    batches: list[list[Message]] = []
    began: list[float] = []

    def handle(messages: list[Message]) -> None:
        batches.append(messages)
        began.append(time.perf_counter())
        worker.handle(messages)
        if sum(map(len, batches)) == completions:
            loop.stop()

    loop = BatchLoop(settings, group, [settings.topic(COMPLETED)], handle, outputs=worker, batch_size=BATCH_SIZE)
    loop.run()
    first = 1 if len(batches) > 1 else 0
    return batches, sum(map(len, batches[first:])) / (time.perf_counter() - began[first])
