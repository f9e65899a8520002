"""The loop under every worker: take a batch, do the work, then commit."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as RawMessage

from leap.streams.consumer.partition_watcher import PartitionWatcher
from leap.streams.kafka.clients import CheckedProducer, consumer_config, is_fatal
from leap.streams.kafka.message import Message, Rewind, unreadable
from leap.streams.runtime import metrics
from leap.streams.runtime.liveness import Clock, Partition, Progress
from leap.streams.runtime.settings import Settings

__all__ = ["BatchLoop", "Message", "Rewind"]

log = structlog.get_logger(__name__)

POLL_S = 0.1
# More than this of large messages is not taken into a batch, and so many are taken before it is looked at.
BATCH_BYTES, AT_ONCE = 16 * 2**20, 2000
CLOSE_S, ANSWER_S = 5.0, 30.0
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0

# The partitions moved while we worked: their messages come again to whoever has them now.
MOVED = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}


#: Told topic, topic id and partition, and the position there.
Verify = Callable[[Mapping[tuple[str, str, int], int]], None]


class BatchLoop:
    """Consume batches; commit each after `handle` has returned and all that it produced is acknowledged.

    So a message is handled at least once: `handle` must bear seeing one again. A batch whose handling raises
    is handled again, after a pause, before any other. Nothing is left to do when partitions are revoked,
    because nothing handled is ever uncommitted; a batch that waits loses the messages that moved.

    Parameters
    ----------
    settings
        Where the broker is.
    worker
        Name of the consumer group, and label of the metrics.
    topics
        Names on the broker; they must exist.
    handle
        Does the work of a batch. It sets aside what it cannot use
        (:class:`leap.streams.consumer.dead_letters.DeadLetters`) and raises only what may be better the next time,
        or `Rewind`.
    verify
        Asked now and then, for a topic's id and partition and where the worker stands in it, whether all before
        is still kept; raises `Rewind` if not.
    outputs
        Producer that `handle` uses, flushed before the commit.
    batch_size
        Largest number of messages in a batch, where they are not large; a batch is what has arrived, never waited for.
    progress
        Told what is done.
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
        outputs: CheckedProducer | None = None,
        batch_size: int = 1000,
        progress: Progress | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.worker = worker
        self.progress = progress or Progress(clock)
        self._settings = settings
        self._topics = list(topics)
        self._handle = handle
        self._verify = verify or (lambda standing: None)
        self._outputs = outputs
        self._batch_size = batch_size
        self._clock = clock
        self._stop = threading.Event()
        self._ids: dict[str, str] = {}
        self._at_end: dict[Partition, bool] = {}
        self._positions: dict[Partition, int] = {}
        self._revoked: set[Partition] = set()
        self._slipped: list[RawMessage] = []
        self._finished: dict[Partition, int] = {}
        metrics.expect(worker, topics)

    def stop(self) -> None:
        """End `run` after the batch in hand; callable from any thread and from a signal handler."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def run(self, until_end: bool = False) -> None:
        """Work until stopped.

        Parameters
        ----------
        until_end
            Return when all assigned partitions have been read to their end.

        Raises
        ------
        TopicError
            If a topic does not exist, or was created again: whoever then runs anew begins at its beginning.
        confluent_kafka.KafkaException
            If the client cannot go on.
        """
        self._watcher = PartitionWatcher(self._settings, self.worker, self._topics, self.progress, self._clock)
        self._ids = self._watcher.ids
        self._consumer = Consumer(consumer_config(self._settings, self.worker))
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        try:
            while not self.stopping:
                batch = self._take()
                self.progress.taken(bool(batch))
                metrics.BATCH_BEGUN.labels(self.worker).set(time.time() if batch else 0.0)
                batch = self._retry(self._work, batch)
                self._retry(self._commit, batch)
                self.progress.reached(self._finished)
                self._finished = {}
                if until_end and self._at_end and all(self._at_end.values()):
                    return
                if self._at_end and self._watcher.is_due():
                    self._watcher.refresh(self._consumer, self._at_end)
                    self._assert_kept()
        finally:
            self._close()

    def _take(self) -> list[Message]:
        """Wait for a message and take it with all that have arrived."""
        first = self._consumer.poll(0 if self._slipped else POLL_S)
        taken = [first] if first is not None else []
        while taken:
            self._slipped += taken  # where a partition that goes in the next call is forgotten
            room = 0 if sum(map(len, self._slipped)) > BATCH_BYTES else self._batch_size - len(self._slipped)
            taken = self._consumer.consume(min(room, AT_ONCE), 0)
        raw, self._slipped = self._slipped, []
        batch = []
        for message in raw:
            partition = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None or unreadable(error):
                self._at_end[partition] = False
                offset = message.offset() or 0
                position = self._positions.get(partition, offset)
                if offset < position:  # no one seeks back but us: perhaps this is another topic of the same name
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

    def _retry(self, action: Callable[[list[Message]], None], batch: list[Message]) -> list[Message]:
        """Do `action` until it succeeds; return the messages that are still ours."""
        pause = FIRST_RETRY_S
        while batch:
            try:
                action(batch)
                break
            except Rewind as rewind:
                batch = self._rewind(rewind, batch)
            except Exception as error:
                if isinstance(error, KafkaException) and is_fatal(error.args[0]):
                    raise
                metrics.BATCH_FAILURES.labels(self.worker).inc()
                self.progress.failing()
                first = batch[0]
                log.warning(
                    "batch failed and is tried again", worker=self.worker, error=repr(error), messages=len(batch),
                    topic=first.topic, partition=first.partition, offset=first.offset, pause_s=pause,
                )  # fmt: skip
                batch = self._wait(batch, pause)
                pause = min(2 * pause, LAST_RETRY_S)
        return batch

    def _work(self, batch: list[Message]) -> None:
        with metrics.BATCH_SECONDS.labels(self.worker).time():
            self._handle(batch)
            if self._outputs is not None:
                self._outputs.flush()

    def _commit(self, batch: list[Message]) -> None:
        positions = {(message.topic, message.partition): message.offset + 1 for message in batch}
        try:
            answers = self._consumer.commit(
                offsets=[TopicPartition(*partition, position) for partition, position in positions.items()],
                asynchronous=False,
            )
            refusals = [answer.error for answer in answers if answer.error is not None]
        except KafkaException as error:
            refusals = [error.args[0]]
        for refusal in refusals:
            if refusal.code() not in MOVED:
                raise KafkaException(refusal)
        if refusals:
            metrics.COMMITS_REFUSED.labels(self.worker).inc()
            log.info("commit refused, partitions moved", worker=self.worker, error=refusals[0].str())
            return
        self.progress.reached(positions)
        for topic, count in Counter(message.topic for message in batch).items():
            metrics.CONSUMED.labels(self.worker, topic).inc(count)

    def _wait(self, batch: list[Message], seconds: float) -> list[Message]:
        """Stay in the group while a batch waits; drop what is revoked meanwhile, or all if we are to stop."""
        self._revoked = set()
        self._consumer.pause(self._consumer.assignment())
        until = self._clock() + seconds
        while self._clock() < until and not self._revoked and not self.stopping:
            if self._at_end and self._watcher.is_due():
                self._watcher.refresh(self._consumer, self._at_end)
            slipped = self._consumer.poll(POLL_S)
            if slipped is not None:  # of a partition that was assigned in the same call
                self._slipped.append(slipped)
        self._consumer.resume(self._consumer.assignment())
        if self.stopping:
            return []
        return [message for message in batch if (message.topic, message.partition) not in self._revoked]

    def _rewind(self, rewind: Rewind, batch: list[Message]) -> list[Message]:
        """Begin to read again; return what the batch has of other partitions."""
        metrics.REWINDS.labels(self.worker).inc()
        log.warning("what was committed is lost", worker=self.worker, positions=list(rewind.positions.items()))
        for (topic, partition), position in rewind.positions.items():
            if (topic, partition) in self._at_end:
                self._consumer.seek(TopicPartition(topic, partition, position))
                self._at_end[topic, partition] = False
                self._positions[topic, partition] = position
        self._forget(rewind.positions)
        return [message for message in batch if (message.topic, message.partition) not in rewind.positions]

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        metrics.REBALANCES.labels(self.worker).inc()
        # Where each begins has to be known exactly: from the first message alone it would only be guessed.
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
        consumer.resume(partitions)  # one that is paused when it goes would be paused when it comes again
        revoked = {(partition.topic, partition.partition) for partition in partitions}
        self._revoked |= revoked
        self._forget(revoked)
        for topic, number in revoked:  # whoever has them now tells
            metrics.LAG.remove(self.worker, topic, str(number))
        self.progress.revoked()
        self._at_end = {partition: end for partition, end in self._at_end.items() if partition not in revoked}
        self._finished = {}

    def _forget(self, partitions: Collection[Partition]) -> None:
        self._slipped = [raw for raw in self._slipped if (raw.topic(), raw.partition()) not in partitions]

    def _assert_kept(self) -> None:
        """Ask whether all that was committed is kept; an answer that does not come now comes the next time."""
        standing = {
            (topic, self._ids[topic], number): position for (topic, number), position in self._positions.items()
        }
        try:
            try:
                self._verify(standing)
            except Rewind as rewind:
                self._rewind(rewind, [])  # which may fail too: a partition just assigned cannot be sought yet
        except Exception as error:
            log.warning("not known whether all is kept", worker=self.worker, error=repr(error))

    def _close(self) -> None:
        """Leave the group; without a broker that may take a minute, which nobody has."""
        closing = threading.Thread(target=self._consumer.close, name="close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            log.warning("left the consumer group without a word: no broker", worker=self.worker)
