"""The attempt joiner: submissions, allocations, completions and preference lists become rows of job-attempt.

Parts are kept in the store first and rows are made from what it then holds, so two joiners that each have one
part of an attempt cannot miss each other. A message is committed after its row is acknowledged; one that comes
again sends its row again, and readers keep the last row of each attempt_id. A store that has lost parts is noticed
by its fences, and filled again.
"""

from collections.abc import Mapping
from importlib import resources
from itertools import chain
from pathlib import Path
from zlib import crc32

import msgspec
import structlog

from schemas.codec import Rejected, decode, encode
from schemas.events import JobAllocated, JobCompleted, JobSubmitted, PreferenceList
from schemas.hardware import Hardware, load_catalog
from schemas.topics import ALLOCATED, ATTEMPTS, COMPLETED, DAY_MS, PREFERENCES, SUBMITTED
from streams.attempts import RANK, Part, Parts, event_time, joined, keep, part_of
from streams.consume import BatchLoop, Message
from streams.dead_letters import DeadLetters
from streams.kafka import CheckedProducer
from streams.redis_client import Client, connect
from streams.settings import Settings
from streams.spans import Lost, Span, argument, assert_kept, spans
from streams.tracing import Step, trace_id

log = structlog.get_logger(__name__)

WORKER = "joiner"
#: Days that parts wait for a submission and a completion, from the last one that came: longer than the topics
#: keep them. Then, days that late parts may still come.
WAIT_DAYS = 45
LATE_DAYS = 3
#: Slots of a Cluster that attempts are spread over; those of one bucket go to the store in one call.
BUCKETS = 16
# Below the topic's 2 MiB by more than the record's header; three parts of hostile size exceed it.
MAX_ROW_BYTES = 2_000_000

NONE_SEEN: Mapping[str, Parts] = {}
NO_SPANS: Mapping[str, Span] = {}

_decode_reply = msgspec.msgpack.Decoder(list[list[str]]).decode
_arguments = (WAIT_DAYS * DAY_MS // 1000, LATE_DAYS * DAY_MS // 1000, RANK)
_script = resources.files("streams").joinpath("joiner.lua").read_text()
_inputs: dict[str, type[Part]] = {
    SUBMITTED: JobSubmitted,
    ALLOCATED: JobAllocated,
    COMPLETED: JobCompleted,
    PREFERENCES: PreferenceList,
}


class PartStore:
    """Parts of attempts: one hash each, gone some days after its last part came.

    Parameters
    ----------
    client
        Connection, without `decode_responses`.
    prefix
        Put before every key.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def add(
        self, parts: Mapping[str, Parts], seen: Mapping[str, Parts] = NONE_SEEN, spans: Mapping[str, Span] = NO_SPANS
    ) -> dict[str, Parts]:
        """Keep parts of many attempts, in one round trip; doing so again changes nothing.

        Parameters
        ----------
        parts
            Attempt id to new parts of it.
        seen
            Attempt id to what was returned for it before.
        spans
            The offsets whose parts these are.

        Returns
        -------
        dict
            Attempt id to all its parts, of those that have a submission and a completion and are not as seen.

        Raises
        ------
        Lost
            If the store lacks parts from before the spans.
        """
        buckets: dict[int, list[str]] = {number: [] for number in range(BUCKETS)} if spans else {}
        for attempt_id in parts:
            buckets.setdefault(crc32(attempt_id.encode()) % BUCKETS, []).append(attempt_id)
        told = argument(spans)
        with self._client.pipeline(transaction=False) as pipeline:
            for bucket, attempt_ids in buckets.items():
                names = [f"{self._prefix}:attempt:{{{bucket}}}:{attempt_id}" for attempt_id in attempt_ids]
                keys = [f"{self._prefix}:attempt:{{{bucket}}}", *names]
                new = [
                    [seen.get(attempt_id, {}).get("n", ""), *chain.from_iterable(parts[attempt_id].items())]
                    for attempt_id in attempt_ids
                ]
                packed = msgspec.msgpack.encode(new)
                pipeline.execute_command("EVAL", _script, len(keys), *keys, *_arguments, told, packed)
            replies = pipeline.execute()
        assert_kept(spans, [reply[1:] for reply in replies])
        return {
            attempt_id: dict(zip(found[::2], found[1::2], strict=True))
            for attempt_ids, reply in zip(buckets.values(), replies, strict=True)
            for attempt_id, found in zip(attempt_ids, _decode_reply(reply[0]), strict=True)
            if found
        }


class Joiner:
    """Handles batches of the four topics.

    Parameters
    ----------
    settings
        Names of the topics.
    store
        Where parts are kept.
    producer
        That the loop flushes before it commits.
    catalog
        Hardware type to its specification, which rows carry.
    """

    def __init__(
        self, settings: Settings, store: PartStore, producer: CheckedProducer, catalog: Mapping[str, Hardware]
    ) -> None:
        self._store = store
        self._producer = producer
        self._catalog = catalog
        self._rows = settings.topic(ATTEMPTS)
        self._types = {settings.topic(name): event_type for name, event_type in _inputs.items()}
        self._dead_letters = DeadLetters(settings, producer, WORKER)

    def handle(self, batch: list[Message]) -> None:
        """Keep the parts of a batch and send the rows that they complete, whatever was sent before."""
        parts: dict[str, dict[str, str]] = {}
        cause: dict[str, Message] = {}
        rejected = []
        for message in batch:
            try:
                event = decode(message.value, self._types[message.topic])
                name, value = part_of(event)
            except Rejected as error:
                rejected.append((message, str(error)))
                continue
            except Exception as error:  # the same the next time: a message must not stop the worker
                rejected.append((message, f"no part of an attempt: {error!r}"))
                continue
            if message.precedes(event_time(event)):
                rejected.append((message, f"{event_time(event)} is after the message was written"))
                continue
            keep(parts.setdefault(event.attempt_id, {}), name, value)
            if name == "completed" or event.attempt_id not in cause:
                cause[event.attempt_id] = message
        try:
            complete = self._store.add(parts, spans=spans(batch, _source))
        except Lost as lost:
            raise lost.rewind({_source(message): (message.topic, message.partition) for message in batch}) from lost
        for message, reason in rejected:  # after the store: while it is down, a batch is tried again and again
            self._dead_letters.add(message, reason)
        while complete:
            for attempt_id, kept in complete.items():
                self._send(kept, cause[attempt_id])
            self._producer.flush()
            # Another joiner may have added a part, and sent the fuller row before ours: ours must not be last.
            complete = self._store.add({attempt_id: {} for attempt_id in complete}, seen=complete)

    def verify(self, positions: Mapping[tuple[str, str, int], int]) -> None:
        """Ask whether the store has all parts before these positions, by topic, topic id and partition.

        Raises
        ------
        Rewind
            If it has not.
        """
        partitions = {_name(*place): (place[0], place[2]) for place in positions}
        found = {name: Span(at, at) for name, at in zip(partitions, positions.values(), strict=True)}
        try:
            self._store.add({}, spans=found)
        except Lost as lost:
            raise lost.rewind(partitions) from lost

    def _send(self, parts: Parts, message: Message) -> None:
        step = Step("join", message.trace)
        try:
            row = joined(parts, self._catalog)
            value = encode(row)
            if len(value) > MAX_ROW_BYTES:
                raise ValueError(f"a row of {len(value)} bytes is over the limit of {MAX_ROW_BYTES}")
        except Exception as error:  # the same the next time
            self._dead_letters.add(message, f"no row from the parts of its attempt: {error!r}")
            return
        self._producer.produce(self._rows, value, row.family.encode(), trace=step.headers)
        step.end(attempt=row.attempt_id, family=row.family)
        log.debug("row", attempt=row.attempt_id, family=row.family, trace=trace_id(step.headers))


def _source(message: Message) -> str:
    return _name(message.topic, message.topic_id, message.partition)


def _name(topic: str, topic_id: str, partition: int) -> str:
    """Of several topics a broker without topic ids gives the same id to all."""
    return f"{topic}/{topic_id}/{partition}"


def joiner_loop(settings: Settings) -> BatchLoop:
    """The worker, to be run by :func:`streams.worker.run_worker`; any number of them share the work."""
    producer = CheckedProducer(settings)
    store = PartStore(connect(settings.redis_url), settings.redis_prefix)
    catalog = load_catalog(Path(settings.catalog) if settings.catalog else None)
    joiner = Joiner(settings, store, producer, catalog)
    topics = [settings.topic(name) for name in _inputs]
    return BatchLoop(settings, WORKER, topics, joiner.handle, verify=joiner.verify, outputs=producer)
