"""The consumer loop of every worker: poll a batch, process it, then commit."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as RawMessage

from leap.schemas.errors import BrokerError
from leap.streams.consumer.partition_watcher import PartitionWatcher
from leap.streams.kafka.clients import close_consumer, commit_offsets, consumer_config, is_fatal
from leap.streams.kafka.message import Message, Rewind, unreadable
from leap.streams.runtime import metrics
from leap.streams.runtime.liveness import Clock, Partition, Progress
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

POLL_S = 0.1
# Soft cap on bytes per batch, checked after every POLL_SIZE messages.
BATCH_BYTES, POLL_SIZE = 16 * 2**20, 2000
# While messages go on arriving, the next batch is handled instead of waiting for the acknowledgements and the commit
# of the last: they are waited for this often. A killed worker has that much handled again by the next one.
COMMIT_EVERY_S = 0.1
CLOSE_S, ANSWER_S = 5.0, 30.0
END_S = 60.0  # without progress, after which a run that is to end at the end of its partitions is given up
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0

#: Receives (topic, topic id, partition) -> position; raises `Rewind` if the store is behind a position.
Verify = Callable[[Mapping[tuple[str, str, int], int]], None]


class Outputs(Protocol):
    """What `handle` sends to, such as :class:`leap.streams.kafka.clients.CheckedProducer`."""

    def flush(self) -> None:
        """Wait until everything is acknowledged, and raise if anything is not."""


class BatchLoop:
    """Consume batches; commit what `handle` has returned from and `outputs` have acknowledged.

    Delivery is at least once, so `handle` must be idempotent. Whatever fails, all that is not committed is handled
    again, with backoff, before anything else. On revocation what is handled is committed first; what waits for its
    retry is dropped, and redelivered to the next owner.

    Parameters
    ----------
    settings
        Where the broker is.
    worker
        Name of the consumer group, and label of the metrics.
    topics
        Names on the broker; they must exist.
    handle
        Processes a batch. It sends invalid messages to the dead letters
        (:class:`leap.streams.consumer.dead_letters.DeadLetters`) and raises only errors worth a retry, or `Rewind`.
    verify
        Called periodically with the worker's positions; raises `Rewind` if the store lacks an earlier update.
    outputs
        Flushed before each commit.
    batch_size
        Maximum number of messages per batch. A batch is what has arrived; the loop does not wait for it to fill.
    progress
        Receives assignments, positions and end offsets.
    clock
        Seconds on a monotonic clock.
    """

    def __init__(
        self,
        settings: Settings,
        worker: str,
        topics: Sequence[str],
        handle: Callable[[list[Message]], None],
        *,
        verify: Verify | None = None,
        outputs: Outputs | None = None,
        batch_size: int = 1000,
        progress: Progress | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.worker = worker
        self.progress = progress or Progress(clock)
        self._settings = settings
        self._topics = list(topics)
        self._handle = handle
        self._verify = verify or (lambda positions: None)
        self._outputs = outputs
        self._batch_size = batch_size
        self._clock = clock
        self._stop = threading.Event()
        self._ids: dict[str, str] = {}
        self._at_end: dict[Partition, bool] = {}
        self._positions: dict[Partition, int] = {}
        self._buffered: list[RawMessage] = []
        self._uncommitted: list[Message] = []
        self._failed = False
        self._began = 0.0
        self._finished: dict[Partition, int] = {}
        self._until_end = False
        metrics.expect(worker, topics)

    def stop(self) -> None:
        """End `run` after the in-flight batch; safe from any thread and from a signal handler."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stop.is_set()

    def run(self, until_end: bool = False) -> None:
        """Consume until stopped.

        Parameters
        ----------
        until_end
            Return once all assigned partitions have been read to their end; a batch that fails for a minute ends
            the run with its error.

        Raises
        ------
        TopicError
            If a topic does not exist, or was recreated: the next run then starts at its beginning.
        BrokerError
            With `until_end`, if nothing comes for a minute: no partition, no message and no end of one.
        confluent_kafka.KafkaException
            On a fatal client error.
        """
        self._until_end = until_end
        self._watcher = PartitionWatcher(self._settings, self.worker, self._topics, self.progress, self._clock)
        self._ids = self._watcher.ids
        self._consumer = Consumer(consumer_config(self._settings, self.worker))
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        moved_at = self._clock()
        try:
            while not self.stopping:
                batch = self._take()
                if batch or self._finished:
                    moved_at = self._clock()
                elif until_end and self._clock() - moved_at > END_S:
                    raise BrokerError(self._awaited())
                if self._process(batch):
                    continue  # more may have arrived meanwhile
                self.progress.reached(self._finished)
                self._finished = {}
                if until_end and self._at_end and all(self._at_end.values()):
                    return
                if self._at_end and self._watcher.is_due():
                    self._watcher.refresh(self._consumer, self._at_end)
                    self._verify_store()
            self._process([])
        finally:
            self._uncommitted = []  # closing revokes, and nothing may be committed after an error
            if not close_consumer(self._consumer, CLOSE_S):
                log.warning("consumer group not left: no broker", worker=self.worker)

    def _awaited(self) -> str:
        """What a run that is to end has waited for."""
        group = f"consumer group {self._settings.topic(self.worker)}"
        behind = [f"{topic}/{number}" for (topic, number), ended in self._at_end.items() if not ended]
        what = f"the end of {', '.join(behind)}" if behind else f"a partition of {', '.join(self._topics)}"
        return f"{group}: waited {END_S:g} s for {what}; does another process read in this group?"

    def _take(self) -> list[Message]:
        """Poll for a message, and take it with all others that have arrived; wait only if nothing is uncommitted."""
        first = self._consumer.poll(0 if self._buffered or self._uncommitted else POLL_S)
        taken = [first] if first is not None else []
        size = sum(map(len, self._buffered))
        while taken:
            self._buffered += taken  # `_forget` drops those of a partition that is revoked in the next call
            size += sum(map(len, taken))
            room = 0 if size > BATCH_BYTES else self._batch_size - len(self._buffered)
            taken = self._consumer.consume(min(room, POLL_SIZE), 0)
        raw, self._buffered = self._buffered, []
        batch = []
        for message in raw:
            partition = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None or unreadable(error):
                self._at_end[partition] = False
                offset = message.offset() or 0
                position = self._positions.get(partition, offset)
                if offset < position:  # only we seek back, so the topic may have been recreated
                    self._watcher.refresh(self._consumer, self._at_end)
                batch.append(Message.of(message, self._ids[partition[0]], position))
                self._positions[partition] = offset + 1
                if error is not None:
                    self._consumer.seek(TopicPartition(*partition, offset + 1))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end[partition] = True
                self._finished[partition] = message.offset() or 0
            elif is_fatal(error):
                raise KafkaException(error)
            else:
                log.warning("consumer error", worker=self.worker, error=error.str())
        return batch

    def _process(self, batch: list[Message]) -> bool:
        """Handle a batch, and commit unless more has arrived and the last commit is recent; whether it was left."""
        if not self._uncommitted:
            self._began = self._clock()
        self._uncommitted += batch
        self.progress.taken(bool(self._uncommitted))
        metrics.BATCH_BEGUN.labels(self.worker).set(time.time() if self._uncommitted else 0.0)
        self._retry(partial(self._work, batch))
        if batch and self._clock() - self._began < COMMIT_EVERY_S:
            return True
        self._retry(self._acknowledge)
        self._retry(self._commit)
        return False

    def _work(self, batch: list[Message]) -> None:
        """Handle a batch; after a failure all that is not committed, in order, because any of it may have failed."""
        if self._failed:
            batch = self._uncommitted
        if batch:
            self._handle(batch)

    def _acknowledge(self) -> None:
        self._work([])
        if self._outputs is not None:
            self._outputs.flush()

    def _commit(self) -> None:
        positions = {(message.topic, message.partition): message.offset + 1 for message in self._uncommitted}
        refusal = commit_offsets(self._consumer, positions)
        committed, self._uncommitted = self._uncommitted, []
        if refusal is not None:
            metrics.COMMITS_REFUSED.labels(self.worker).inc()
            log.info("commit rejected after a rebalance", worker=self.worker, error=refusal.str())
            return
        metrics.BATCH_SECONDS.labels(self.worker).observe(self._clock() - self._began)
        self.progress.reached(positions)
        for topic, count in Counter(message.topic for message in committed).items():
            metrics.CONSUMED.labels(self.worker, topic).inc(count)

    def _retry(self, action: Callable[[], None]) -> None:
        """Retry `action` until it succeeds, or nothing that is uncommitted is ours any more."""
        pause, began_at = FIRST_RETRY_S, self._clock()
        while self._uncommitted:
            try:
                action()
                break
            except Rewind as rewind:
                self._failed = True
                self._rewind(rewind)
            except Exception as error:
                if isinstance(error, KafkaException) and is_fatal(error.args[0]):
                    raise
                if self._until_end and self._clock() - began_at > END_S:
                    raise
                self._failed = True
                metrics.BATCH_FAILURES.labels(self.worker).inc()
                self.progress.failing()
                first = self._uncommitted[0]
                log.warning(
                    "batch failed, retrying", worker=self.worker, error=repr(error), messages=len(self._uncommitted),
                    topic=first.topic, partition=first.partition, offset=first.offset, pause_s=pause,
                )  # fmt: skip
                self._wait(pause)
                pause = min(2 * pause, LAST_RETRY_S)
        self._failed = False

    def _wait(self, seconds: float) -> None:
        """Keep polling, paused, before a retry; once stopped there is none, and what is uncommitted is redelivered."""
        self._consumer.pause(self._consumer.assignment())
        until = self._clock() + seconds
        while self._clock() < until and self._uncommitted and not self.stopping:
            if self._at_end and self._watcher.is_due():
                self._watcher.refresh(self._consumer, self._at_end)
            message = self._consumer.poll(POLL_S)
            if message is not None:  # of a partition that was assigned in the same call, so it is not paused
                self._buffered.append(message)
        self._consumer.resume(self._consumer.assignment())
        if self.stopping:
            self._uncommitted = []

    def _rewind(self, rewind: Rewind) -> None:
        """Seek back, and drop what was taken from these partitions."""
        metrics.REWINDS.labels(self.worker).inc()
        positions = list(rewind.positions.items())
        log.warning("store lost committed updates, rewinding", worker=self.worker, positions=positions)
        for (topic, partition), position in rewind.positions.items():
            if (topic, partition) in self._at_end:
                self._consumer.seek(TopicPartition(topic, partition, position))
                self._at_end[topic, partition] = False
                self._positions[topic, partition] = position
        self._forget(rewind.positions)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        metrics.REBALANCES.labels(self.worker).inc()
        # Start from the committed offsets explicitly: the first message alone does not tell the position.
        starts = consumer.committed(partitions, timeout=ANSWER_S)
        for start in starts:
            if start.error is not None:
                raise KafkaException(start.error)
        consumer.assign(starts)
        self._positions = {(start.topic, start.partition): max(0, start.offset) for start in starts}
        self._at_end = {(partition.topic, partition.partition): False for partition in partitions}
        self.progress.assigned(self._at_end)
        log.info("partitions assigned", worker=self.worker, partitions=sorted(self._at_end))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._uncommitted and not self._failed:  # handled, and the next owner need not do it again
            try:
                self._acknowledge()
                self._commit()
            except Exception as error:
                log.warning("batch left to the next owner", worker=self.worker, error=repr(error))
        consumer.resume(partitions)  # a partition paused when revoked would still be paused when reassigned
        revoked = {(partition.topic, partition.partition) for partition in partitions}
        self._forget(revoked)
        for topic, number in revoked:  # exported by the new owner
            metrics.LAG.remove(self.worker, topic, str(number))
        self.progress.revoked()
        self._at_end = {partition: end for partition, end in self._at_end.items() if partition not in revoked}
        self._finished = {}

    def _forget(self, partitions: Collection[Partition]) -> None:
        self._buffered = [raw for raw in self._buffered if (raw.topic(), raw.partition()) not in partitions]
        self._uncommitted = [each for each in self._uncommitted if (each.topic, each.partition) not in partitions]

    def _verify_store(self) -> None:
        """Check that the store has all committed updates; on an error the next interval checks again."""
        positions = {
            (topic, self._ids[topic], number): position for (topic, number), position in self._positions.items()
        }
        try:
            try:
                self._verify(positions)
            except Rewind as rewind:
                self._rewind(rewind)  # may fail too: a partition just assigned cannot be seeked yet
        except Exception as error:
            log.warning("store not verified", worker=self.worker, error=repr(error))
