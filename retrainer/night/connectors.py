"""Where a nightly run meets Kafka and Redis: attempts in, statistics in, the announcement out."""

from collections.abc import Callable
from datetime import UTC, date, datetime

import numpy as np
import structlog

from leap.predictor.history.snapshot import key_hash
from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.statistics_array import StatisticsSnapshot
from leap.retrainer.storage.files import Files
from leap.schemas.codec import MAX_DECODED_BYTES, Rejected, decode, encode
from leap.schemas.events import ArtifactPublished, JobAttempt
from leap.schemas.topics import ARTIFACTS, ATTEMPTS
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.history.backup import pack
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

WORKER = "retrainer"
#: Attempts merged into the partitions at once: a merge rewrites whole days, so few and large ones are cheap.
BATCH_SIZE = 50_000
KEPT_BACKUPS = 7


def ingest_attempts(settings: Settings, partitions: Partitions) -> Callable[[], list[date]]:
    """Make the step that reads the attempts that came since the last night and merges them into partitions.

    Offsets are committed after the partitions are on disk; what is read again changes nothing.
    """

    def run() -> list[date]:
        producer = CheckedProducer(settings)
        dead_letters = DeadLetters(settings, producer, WORKER)
        written: set[date] = set()

        def merge(batch: list[Message]) -> None:
            attempts = []
            for message in batch:
                try:
                    attempts.append(decode(message.value, JobAttempt, MAX_DECODED_BYTES))
                except Rejected as rejected:
                    dead_letters.add(message, str(rejected))
            written.update(partitions.ingest(attempts))
            log.info("attempts merged", attempts=len(attempts), days=len(written))

        topic = settings.topic(ATTEMPTS)
        BatchLoop(settings, WORKER, [topic], merge, outputs=producer, batch_size=BATCH_SIZE).run(until_end=True)
        return sorted(written)

    return run


def snapshot(settings: Settings, target: str, files: Files) -> Callable[[], StatisticsSnapshot]:
    """Make the step that freezes the statistics of the moment, while writers go on, and backs them up.

    All statistics of a family are read at one moment; those of different families are not. The backup is
    ``history/<target>-<day>.gz`` among the files, for ``leap history restore``.
    """

    def run() -> StatisticsSnapshot:
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
    return 0 if key.kind == "model_type" else key_hash("family", key.name)


def announce(settings: Settings) -> Callable[[ArtifactPublished], None]:
    """Make the step that tells what was published, and waits until the broker has it."""

    def run(event: ArtifactPublished) -> None:
        producer = CheckedProducer(settings)
        producer.produce(settings.topic(ARTIFACTS), encode(event), event.target.encode())
        producer.flush()

    return run
