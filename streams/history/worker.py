"""The history worker: completions in, running statistics in the store."""

import math
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import lru_cache
from queue import SimpleQueue
from threading import Thread

from leap.predictor.features.job_family import family
from leap.schemas.codec import Rejected, decode
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted
from leap.schemas.topics import COMPLETED
from leap.streams.consumer.batch_loop import BatchLoop, Message
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key, Observation, Spans
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.redis_store.client import connect
from leap.streams.redis_store.offset_fence import OffsetRange, StoreDataLost, offset_ranges, source
from leap.streams.runtime import metrics
from leap.streams.runtime.settings import Settings

WORKER = "history"
TARGETS = (THROUGHPUT,)
# While the store works on one slice of a batch, the next is decoded. The cost of a script call is spread over
# what falls into one bucket: 5,000 completions give each of the 64 buckets some 200 updates.
SLICE = 5000
BATCH_SIZE = 8 * SLICE


def read(
    messages: Iterable[Message], targets: Collection[str] = TARGETS
) -> tuple[list[Observation], list[tuple[Message, str]]]:
    """Turn messages into observations, and list those that are no completion with what is wrong with them."""
    observations: list[Observation] = []
    rejected = []
    for message in messages:
        try:
            completed = decode(message.value, JobCompleted)
        except Rejected as error:
            rejected.append((message, str(error)))
            continue
        if message.event_in_future(completed.finished_at):
            rejected.append((message, f"finished_at: {completed.finished_at} is after the message was written"))
            continue
        observations += observe(completed, message, targets)
    return observations, rejected


def observe(completed: JobCompleted, message: Message, targets: Collection[str] = TARGETS) -> list[Observation]:
    """Measurements of a success, as natural logarithms; what is not positive says nothing."""
    observations: list[Observation] = []
    if completed.status == SUCCEEDED:
        for target in targets:
            measured = completed.measurements.get(target, 0.0)
            if measured > 0.0:
                value, event_time = math.log(measured), completed.finished_at.timestamp()
                observations.append(
                    Observation(
                        source(message),
                        message.offset,
                        completed.attempt_id,
                        target,
                        value,
                        event_time,
                        keys(completed),
                    )
                )
    return observations


def keys(completed: JobCompleted) -> tuple[Key, ...]:
    """Name the statistics that a completion belongs to; the message's own key does not matter."""
    return _keys(family(completed.job_name), completed.hardware_type, completed.model_type)


@lru_cache(16_384)
def _keys(name: str, hardware_type: str, model_type: str | None) -> tuple[Key, ...]:
    family_keys = (Key("family", name), Key("family_hardware", name, hardware_type))
    return family_keys if model_type is None else (*family_keys, Key("model_type", model_type))


class HistoryWorker:
    """Applies batches of completions.

    Parameters
    ----------
    store
        Where the statistics are.
    dead_letters
        Where messages go that are no completion.
    targets
        Prediction targets that statistics are kept of.
    """

    def __init__(self, store: HistoryStore, dead_letters: DeadLetters, targets: Collection[str] = TARGETS) -> None:
        self._store = store
        self._dead_letters = dead_letters
        self._targets = targets
        self._slices: SimpleQueue[tuple[list[Observation], Spans, Future[None]]] = SimpleQueue()
        # A daemon, where an executor would keep the process from ending while the store does not answer.
        Thread(target=self._write, name="history-store", daemon=True).start()

    def handle(self, messages: list[Message]) -> None:
        """Apply a batch; safe to call again with the same messages.

        The store comes first: while it is down, a batch that is tried again and again sends no dead letters.

        Raises
        ------
        Rewind
            If the store has lost what came before.
        """
        rejected: list[tuple[Message, str]] = []
        writing: Future[None] | None = None
        try:
            for begin in range(0, len(messages), SLICE):
                part = messages[begin : begin + SLICE]
                observations, refused = read(part, self._targets)
                rejected += refused
                if writing is not None:
                    writing.result()  # a slice that failed must not be overtaken by the next
                writing = Future()
                self._slices.put((observations, dict.fromkeys(self._targets, offset_ranges(part)), writing))
            if writing is not None:
                writing.result()
        except StoreDataLost as lost:
            partitions = {source(message): (message.topic, message.partition) for message in messages}
            raise lost.rewind(partitions) from lost
        for message, reason in rejected:
            self._dead_letters.add(message, reason)

    def verify(self, positions: Mapping[tuple[str, str, int], int]) -> None:
        """Ask whether the store has all before these positions, by topic, topic id and partition.

        Raises
        ------
        Rewind
            If it has not.
        """
        partitions = {f"{topic_id}/{number}": (topic, number) for topic, topic_id, number in positions}
        ranges = {
            name: OffsetRange(position, position) for name, position in zip(partitions, positions.values(), strict=True)
        }
        try:
            self._store.apply([], dict.fromkeys(self._targets, ranges))
        except StoreDataLost as lost:
            raise lost.rewind(partitions) from lost

    def _write(self) -> None:
        while True:
            observations, spans, written = self._slices.get()
            try:
                applied = self._store.apply(observations, spans)
            except Exception as error:
                written.set_exception(error)
                continue
            for outcome, count in applied._asdict().items():
                metrics.HISTORY_UPDATES.labels(outcome).inc(count)
            written.set_result(None)


def history_loop(settings: Settings) -> BatchLoop:
    """Make the worker's loop, ready to run."""
    outputs = CheckedProducer(settings)
    store = HistoryStore(connect(settings.redis_url), settings.redis_prefix)
    worker = HistoryWorker(store, DeadLetters(settings, outputs, WORKER), settings.targets)
    return BatchLoop(
        settings,
        WORKER,
        [settings.topic(COMPLETED)],
        worker.handle,
        verify=worker.verify,
        outputs=outputs,
        batch_size=BATCH_SIZE,
    )
