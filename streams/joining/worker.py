"""The attempt joiner: joins submissions, allocations, completions and preference lists into rows of job-attempt.

Parts are stored first and rows are joined from the stored parts, so two joiners that each receive one part of an
attempt cannot miss it. A message is committed once its row is acknowledged; a redelivered message sends its row again,
and readers use the last row of each attempt_id. Lost parts are detected by offset fences and consumed again.
"""

from collections.abc import Mapping

import structlog

from leap.schemas.codec import Rejected, decode, encode
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted, PreferenceList
from leap.schemas.hardware import Catalog, load_catalog
from leap.schemas.resolution import resolved
from leap.schemas.topics import ALLOCATED, ATTEMPTS, COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.joining.attempt import Part, Parts, event_time, join_parts, merge_part, to_part
from leap.streams.joining.part_store import PartStore
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.redis_store.client import connect
from leap.streams.redis_store.offset_fence import OffsetRange, StoreDataLost, offset_ranges
from leap.streams.runtime.settings import Settings
from leap.streams.runtime.tracing import Step, trace_id

log = structlog.get_logger(__name__)

WORKER = "joiner"
# Below the topic's 2 MiB by more than the record overhead; three parts of maximum size exceed it.
MAX_ROW_BYTES = 2_000_000


_inputs: dict[str, type[Part]] = {
    SUBMITTED: JobSubmitted,
    ALLOCATED: JobAllocated,
    COMPLETED: JobCompleted,
    PREFERENCES: PreferenceList,
}


class Joiner:
    """Joins batches of the four topics.

    Parameters
    ----------
    settings
        Topic prefix.
    store
        Store of the parts.
    producer
        The `outputs` of the loop, flushed before the commit.
    catalog
        Names of hardware types, and the specifications that are added to rows.
    """

    def __init__(self, settings: Settings, store: PartStore, producer: CheckedProducer, catalog: Catalog) -> None:
        self._store = store
        self._producer = producer
        self._catalog = catalog
        self._rows = settings.topic(ATTEMPTS)
        self._types = {settings.topic(name): event_type for name, event_type in _inputs.items()}
        self._dead_letters = DeadLetters(settings, producer, WORKER)

    def handle(self, batch: list[Message]) -> None:
        """Store the parts of a batch, and send the rows that are complete; idempotent."""
        parts: dict[str, dict[str, str]] = {}
        cause: dict[str, Message] = {}
        rejected = []
        for message in batch:
            if not message.concerns(WORKER):
                continue
            try:
                event = resolved(decode(message.value, self._types[message.topic]), self._catalog)
                name, value = to_part(event)
            except Rejected as error:
                rejected.append((message, str(error)))
                continue
            except Exception as error:  # a retry would fail too, and one message must not stop the worker
                rejected.append((message, f"not a part of an attempt: {error!r}"))
                continue
            if message.event_in_future(event_time(event)):
                rejected.append((message, f"{event_time(event)} is after the message was written"))
                continue
            merge_part(parts.setdefault(event.attempt_id, {}), name, value)
            if name == "completed" or event.attempt_id not in cause:
                cause[event.attempt_id] = message
        try:
            complete = self._store.add(parts, spans=offset_ranges(batch, _source))
        except StoreDataLost as lost:
            raise lost.rewind({_source(message): (message.topic, message.partition) for message in batch}) from lost
        for message, reason in rejected:  # after the store: retries during an outage of Redis do not repeat them
            self._dead_letters.add(message, reason)
        while complete:
            for attempt_id, joined in complete.items():
                self._send(joined, cause[attempt_id])
            self._producer.flush()
            # Another joiner may have added a part and sent the complete row before ours; ours must not be the last.
            complete = self._store.add({attempt_id: {} for attempt_id in complete}, seen=complete)

    def verify(self, positions: Mapping[tuple[str, str, int], int]) -> None:
        """Check that the store has all parts before the positions, by (topic, topic id, partition).

        Raises
        ------
        Rewind
            If it lacks any.
        """
        partitions = {_name(*key): (key[0], key[2]) for key in positions}
        ranges = {
            name: OffsetRange(position, position) for name, position in zip(partitions, positions.values(), strict=True)
        }
        try:
            self._store.add({}, spans=ranges)
        except StoreDataLost as lost:
            raise lost.rewind(partitions) from lost

    def _send(self, parts: Parts, message: Message) -> None:
        step = Step("join", message.trace)
        try:
            row = join_parts(parts, self._catalog)
            value = encode(row)
            if len(value) > MAX_ROW_BYTES:
                raise ValueError(f"row of {len(value)} bytes, over the limit of {MAX_ROW_BYTES}")
        except Exception as error:  # a retry would fail too
            self._dead_letters.add(message, f"its attempt cannot be joined: {error!r}")
            return
        self._producer.produce(self._rows, value, row.family.encode(), trace=step.headers)
        step.end(attempt=row.attempt_id, family=row.family)
        log.debug("row", attempt=row.attempt_id, family=row.family, trace=trace_id(step.headers))


def _source(message: Message) -> str:
    return _name(message.topic, message.topic_id, message.partition)


def _name(topic: str, topic_id: str, partition: int) -> str:
    """Includes the topic name, because without broker topic ids all topics share the configured epoch."""
    return f"{topic}/{topic_id}/{partition}"


def joiner_loop(settings: Settings) -> BatchLoop:
    """The worker's loop, ready to run."""
    producer = CheckedProducer(settings)
    store = PartStore(connect(settings.redis_url), settings.redis_prefix)
    catalog = load_catalog(settings.catalog)
    joiner = Joiner(settings, store, producer, catalog)
    topics = [settings.topic(name) for name in _inputs]
    return BatchLoop(settings, WORKER, topics, joiner.handle, verify=joiner.verify, outputs=producer)
