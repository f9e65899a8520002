"""The history worker: turns completions into running statistics in Redis."""

import math
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread

from leap.predictor.features.history import KINDS
from leap.predictor.features.job_family import family_of
from leap.predictor.history.snapshot import PER_ACCELERATOR
from leap.schemas.codec import Rejected, decode
from leap.schemas.events import THROUGHPUT, JobCompleted
from leap.schemas.hardware import Catalog, load_catalog
from leap.schemas.topics import COMPLETED
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key, Observation
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.redis_store.client import connect
from leap.streams.redis_store.offset_fence import OffsetRange, StoreDataLost, offset_ranges, source
from leap.streams.runtime import metrics
from leap.streams.runtime.settings import Settings

WORKER = "history"
TARGETS = (THROUGHPUT,)
PER_ACCELERATOR_KINDS = tuple(kind + PER_ACCELERATOR for kind in KINDS)
# The next batch is taken and decoded while Redis applies the previous one. 5,000 completions give each of the 64
# buckets about 200 updates, which amortises the cost of a script call.
BATCH_SIZE = 5000


def read(
    messages: Iterable[Message], catalog: Catalog, targets: Collection[str] = TARGETS
) -> tuple[list[Observation], list[tuple[Message, str]]]:
    """Observations of valid completions, and the rejected messages with their reasons."""
    observations: list[Observation] = []
    rejected = []
    for message in messages:
        if not message.concerns(WORKER):
            continue
        try:
            completed = decode(message.value, JobCompleted)
        except Rejected as error:
            rejected.append((message, str(error)))
            continue
        if message.event_in_future(completed.finished_at):
            rejected.append((message, f"finished_at: {completed.finished_at} is after the message was written"))
            continue
        observations += observe(completed, message, catalog, targets)
    return observations, rejected


def observe(
    completed: JobCompleted, message: Message, catalog: Catalog, targets: Collection[str] = TARGETS
) -> list[Observation]:
    """Observations of a successful attempt; measurements that are not positive are ignored."""
    observations: list[Observation] = []
    for target in targets:
        measured = completed.measured(target)
        if measured is not None:
            observations.append(
                Observation(
                    source(message),
                    message.offset,
                    completed.attempt_id,
                    target,
                    learned_value(completed, measured),
                    completed.finished_at.timestamp(),
                    keys(completed, catalog),
                )
            )
    return observations


def learned_value(completed: JobCompleted, measured: float) -> float:
    """ln of a measurement, per accelerator where the completion states how many."""
    if not completed.shapes:
        return math.log(measured)
    return math.log(measured) - math.log(completed.shapes[-1].accelerators)


def keys(completed: JobCompleted, catalog: Catalog) -> tuple[Key, ...]:
    """Keys of the statistics that a completion updates; the message key is not used."""
    family, family_hardware, model_type = PER_ACCELERATOR_KINDS if completed.shapes else KINDS
    name, hardware_type = family_of(completed), catalog.canonical(completed.hardware_type)
    family_keys = Key(family, name), Key(family_hardware, name, hardware_type)
    return family_keys if completed.model_type is None else (*family_keys, Key(model_type, completed.model_type))


class HistoryWorker:
    """Applies batches of completions to the store.

    Parameters
    ----------
    store
        Store of the statistics.
    dead_letters
        Destination of invalid messages.
    catalog
        Names of hardware types.
    targets
        Prediction targets to keep statistics of.
    """

    def __init__(
        self, store: HistoryStore, dead_letters: DeadLetters, catalog: Catalog, targets: Collection[str] = TARGETS
    ) -> None:
        self._store = store
        self._dead_letters = dead_letters
        self._catalog = catalog
        self._targets = targets
        self._batches: SimpleQueue[tuple[list[Message], list[Observation], Future[None]]] = SimpleQueue()
        self._writing: Future[None] | None = None
        self._rejected: list[tuple[Message, str]] = []
        # A daemon thread: an executor would block process exit while Redis hangs.
        Thread(target=self._write, name="history-store", daemon=True).start()

    def handle(self, messages: list[Message]) -> None:
        """Begin to apply a batch, idempotently, once all before it is applied; `flush` waits for it.

        Raises
        ------
        Rewind
            As `flush`, of what was to be applied before.
        """
        for begin in range(0, len(messages), BATCH_SIZE):  # what is handled again after a failure is longer
            part = messages[begin : begin + BATCH_SIZE]
            observations, rejected = read(part, self._catalog, self._targets)
            self._await_applied()
            self._rejected += rejected
            self._writing = Future()
            self._batches.put((part, observations, self._writing))

    def flush(self) -> None:
        """Wait until everything is applied, and the dead letters are acknowledged.

        Those are sent after the store is updated, so that retries during an outage of Redis do not repeat them.

        Raises
        ------
        Rewind
            If the store has lost earlier updates.
        """
        self._await_applied()
        rejected, self._rejected = self._rejected, []
        for message, reason in rejected:
            self._dead_letters.add(message, reason)
        self._dead_letters.flush()

    def _await_applied(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None and (error := writing.exception()) is not None:
            self._rejected = []  # all that is not committed will be handled again
            raise error

    def verify(self, positions: Mapping[tuple[str, str, int], int]) -> None:
        """Check that the store has all updates before the positions, by (topic, topic id, partition).

        Raises
        ------
        Rewind
            If it lacks any.
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
            messages, observations, written = self._batches.get()
            try:
                applied = self._store.apply(observations, dict.fromkeys(self._targets, offset_ranges(messages)))
            except StoreDataLost as lost:
                partitions = {source(message): (message.topic, message.partition) for message in messages}
                written.set_exception(lost.rewind(partitions))
            except Exception as error:
                written.set_exception(error)
            else:
                for outcome, count in applied._asdict().items():
                    metrics.HISTORY_UPDATES.labels(outcome).inc(count)
                written.set_result(None)


def history_loop(settings: Settings) -> BatchLoop:
    """The worker's loop, ready to run."""
    outputs = CheckedProducer(settings)
    store = HistoryStore(connect(settings.redis_url), settings.redis_prefix)
    catalog = load_catalog(settings.catalog)
    worker = HistoryWorker(store, DeadLetters(settings, outputs, WORKER), catalog, settings.targets)
    return BatchLoop(
        settings,
        WORKER,
        [settings.topic(COMPLETED)],
        worker.handle,
        verify=worker.verify,
        outputs=worker,
        batch_size=BATCH_SIZE,
    )
