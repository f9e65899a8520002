"""Where a nightly run meets Kafka and Redis: attempts in, statistics in, the announcement out."""

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from itertools import islice

import numpy as np
import structlog

from leap.predictor.history.snapshot import key_hash
from leap.predictor.storage.urls import redact_url
from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.record import Record
from leap.retrainer.dataset.statistics_array import StatisticsSnapshot
from leap.retrainer.storage.files import Files
from leap.schemas.codec import MAX_DECODED_BYTES, Rejected, decode, encode
from leap.schemas.events import ArtifactPublished, JobAttempt
from leap.schemas.topics import ARTIFACTS, ATTEMPTS
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.history.backup import pack
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import committed, read_on
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

WORKER = "retrainer"
#: Attempts merged into the partitions at once: a merge rewrites whole days, so few and large ones are cheap.
BATCH_SIZE = 50_000
KEPT_BACKUPS = 7


def ingest_attempts(settings: Settings) -> Callable[[Partitions], list[date]]:
    """Make the step that reads the attempts that came since the last night and merges them into partitions.

    Where to begin is what the partitions say of themselves (:mod:`leap.retrainer.dataset.record`), so that no other
    reader takes anything from them. Those that were written before there were records go on from where the consumer
    group stood. A message that is no attempt becomes a dead letter; in a trial, which only reads, a line of the log.
    """

    def run(partitions: Partitions) -> list[date]:
        topic = settings.topic(ATTEMPTS)
        begins, whence = _begins(settings, topic, partitions)
        log.info("absorbing attempts", partitions=redact_url(str(partitions.root)), begins=whence)
        producer = CheckedProducer(settings)
        dead_letters = DeadLetters(settings, producer, WORKER)

        def reject(message: Message, reason: str) -> None:
            if partitions.is_trial:
                log.warning("message is no attempt", offset=message.offset, reason=reason)
            else:
                dead_letters.add(message, reason)

        return absorb(partitions, read_on(settings, topic, begins, group=WORKER), reject, producer.flush)

    return run


def absorb(
    partitions: Partitions,
    messages: Iterable[Message],
    reject: Callable[[Message, str], None],
    flush: Callable[[], None],
) -> list[date]:
    """Merge the attempts of messages into partitions, batch by batch, with the offsets that they reach to.

    Parameters
    ----------
    reject, flush
        Receives a message that is no attempt, and why; waits until all those are safe, before the offsets say so.

    Returns
    -------
    list of date
        The days that were written.
    """
    written: set[date] = set()
    following = iter(messages)
    offsets: dict[str, int] = {}
    while batch := list(islice(following, BATCH_SIZE)):
        attempts = []
        for message in batch:
            source = f"{message.topic_id}/{message.partition}"
            if source not in offsets and 0 < message.position < message.offset:
                log.warning(
                    "attempts have expired before they were absorbed; let nights run within the topic's retention",
                    source=source, offsets=f"{message.position} to {message.offset - 1}",
                )  # fmt: skip
            offsets[source] = message.offset + 1
            try:
                attempts.append(decode(message.value, JobAttempt, MAX_DECODED_BYTES))
            except Rejected as rejected:
                reject(message, str(rejected))
        flush()
        written.update(partitions.absorb(attempts, offsets))
        log.info("attempts merged", attempts=len(attempts), days=len(written))
    return sorted(written)


def _begins(settings: Settings, topic: str, partitions: Partitions) -> tuple[dict[tuple[str, int], int], str]:
    """(topic id, partition) to the offset to go on from, and what says so."""
    record = Record.read(partitions.files)
    if record is not None and record.offsets is not None:
        sources = ((source.rpartition("/"), offset) for source, offset in record.offsets.items())
        begins = {(topic_id, int(number)): offset for (topic_id, _, number), offset in sources}
        return begins, "where these partitions end" if begins else "at the beginning, nothing was absorbed yet"
    if not partitions.days():
        return {}, "at the beginning, these partitions are new"
    begins = committed(settings, WORKER, topic)
    partitions.absorb([], {f"{topic_id}/{number}": offset for (topic_id, number), offset in begins.items()})
    return begins, "where the consumer group stood, these partitions have no record yet"


def snapshot(settings: Settings, target: str) -> Callable[[Files], StatisticsSnapshot]:
    """Make the step that freezes the statistics of the moment, while writers go on, and backs them up.

    All statistics of a family are read at one moment; those of different families are not. The backup is
    ``history/<target>-<day>.gz`` among the files, for ``leap history restore``.
    """

    def run(files: Files) -> StatisticsSnapshot:
        store = HistoryStore(connect(settings.redis_url), settings.redis_prefix)
        parts = [statistics_array.NONE]
        fences: dict[str, int] = {}
        for bucket in store.buckets(target):
            rows = [(key_hash(*key), _family(key), *statistics) for key, statistics in bucket.statistics.items()]
            parts.append(np.array(rows, statistics_array.STATISTICS_DTYPE))
            fences |= {source: max(offset, fences.get(source, -1)) for source, offset in bucket.fences.items()}
        data, count = pack(store, (target,))
        name = f"history/{target}-{datetime.now(UTC).date()}.gz"
        files.write(name, data)
        names = files.names(f"history/{target}-*.gz")
        # The largest stays, or a week of nights over a store that lost its history would push out the last that had it.
        for old in {*names[:-KEPT_BACKUPS]} - {max(names, key=lambda backup: (files.size(backup), backup))}:
            files.remove(old)
        log.info("history backed up", name=name, statistics=count, bytes=len(data))
        return StatisticsSnapshot(np.concatenate(parts), fences)

    return run


def _family(key: Key) -> int:
    """Hash of the family that a key belongs to; 0 for a model type."""
    return 0 if key.of == "model_type" else key_hash("family", key.name)


def announce(settings: Settings) -> Callable[[ArtifactPublished], None]:
    """Make the step that tells what was published, and waits until the broker has it."""

    def run(event: ArtifactPublished) -> None:
        producer = CheckedProducer(settings)
        producer.produce(settings.topic(ARTIFACTS), encode(event), event.target.encode())
        producer.flush()

    return run
