"""Compare the statistics in the store with what the topics say they should be."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from leap.predictor.history.welford import Statistics, of
from leap.schemas.codec import MAX_DECODED_BYTES, Rejected, decode
from leap.schemas.events import SUCCEEDED, JobAttempt
from leap.schemas.topics import ATTEMPTS, COMPLETED
from leap.streams.history.store import Bucket, HistoryStore
from leap.streams.history.updates import Key, bucket_of
from leap.streams.history.worker import WORKER, keys, read
from leap.streams.kafka.clients import consumer_config, when_led
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import TIMEOUT_S, topic_ids
from leap.streams.runtime.settings import Settings

#: Relative; of means and deviations that were summed in another order.
TOLERANCE = 1e-9

Row = tuple[Key, float, float]


@dataclass(frozen=True)
class Difference:
    """A statistic that is not what it should be; None where there is none at all."""

    key: Key
    stored: Statistics | None
    expected: Statistics | None


@dataclass
class Audit:
    """What was compared, and what differs.

    Attributes
    ----------
    whole
        Whether all that the store may know of was there to be recomputed.
    ahead
        If not: statistics that have more than that. Of those nothing else can be said.
    """

    whole: bool
    compared: int = 0
    ahead: int = 0
    differences: list[Difference] = field(default_factory=list)


def audit(settings: Settings, store: HistoryStore, target: str) -> Audit:
    """Compare with the completions if their topic still has all that there ever were, else with the attempts."""
    committed = _committed(settings)  # before the store is read: it has at least what was committed
    if committed is None:
        return compare(store.buckets(target), attempts(settings, target), whole=False)
    buckets = list(store.buckets(target))
    if any(bucket.fences.keys() - committed.keys() for bucket in buckets):  # of a topic that was created again
        return compare(store.buckets(target), attempts(settings, target), whole=False)
    return compare(buckets, _completions(settings, target, buckets, committed))


def compare(buckets: Iterable[Bucket], rows: Iterable[Row], whole: bool = True) -> Audit:
    """Recompute every statistic and compare.

    Parameters
    ----------
    buckets
        Read when the rows have been, if there may be more of them meanwhile.
    rows
        Key, value (natural logarithm of the measurement) and event time of every attempt, each attempt once.
    whole
        Whether the rows are all: if not, a statistic of more than there are is no difference.
    """
    values: dict[Key, tuple[array[float], array[float]]] = {}
    for key, value, event_time in rows:
        if key not in values:
            values[key] = array("d"), array("d")
        values[key][0].append(value)
        values[key][1].append(event_time)
    done = Audit(whole)
    for bucket in buckets:
        for key, stored in bucket.statistics.items():
            expected = of(*values.pop(key)) if key in values else None
            done.compared += 1
            if not whole and _ahead(stored, expected):
                done.ahead += 1
            elif expected is None or not _same(stored, expected):
                done.differences.append(Difference(key, stored, expected))
    done.compared += len(values)
    done.differences += [Difference(key, None, of(*pair)) for key, pair in values.items()]
    return done


def attempts(settings: Settings, target: str) -> Iterator[Row]:
    """Rows of the feature table's log, the topic of joined attempts; of an attempt that came twice, the first."""
    seen: set[str] = set()
    for message in read_range(settings, settings.topic(ATTEMPTS)):
        try:
            completed = decode(message.value, JobAttempt, MAX_DECODED_BYTES).completed
        except Rejected:
            continue
        measured = completed.measurements.get(target, 0.0)
        if completed.status != SUCCEEDED or measured <= 0.0 or completed.attempt_id in seen:
            continue
        seen.add(completed.attempt_id)
        for key in keys(completed):
            yield key, math.log(measured), completed.finished_at.timestamp()


def _committed(settings: Settings) -> dict[str, int] | None:
    """Source to the offset that the history workers have committed; None if completions have expired."""
    topic = settings.topic(COMPLETED)
    topic_id = topic_ids(settings, [topic])[topic]
    consumer = Consumer(consumer_config(settings, WORKER))  # never joins its group
    try:
        numbers = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        partitions = [TopicPartition(topic, number) for number in numbers]
        for partition in partitions:
            if when_led(partial(consumer.get_watermark_offsets, partition, TIMEOUT_S), TIMEOUT_S)[0]:
                return None
        return {
            f"{topic_id}/{partition.partition}": partition.offset
            for partition in consumer.committed(partitions, timeout=TIMEOUT_S)
        }
    finally:
        consumer.close()


def _completions(
    settings: Settings, target: str, buckets: Sequence[Bucket], committed: Mapping[str, int]
) -> Iterator[Row]:
    """Rows of all completions that were committed, or that a bucket says it has; of an attempt the first."""
    seen: set[str] = set()
    for message in read_range(settings, settings.topic(COMPLETED)):
        for observation in read([message], [target])[0]:
            known = [
                key
                for key in observation.keys
                if observation.offset < committed.get(observation.source, 0)
                or observation.offset <= buckets[bucket_of(key.name)].fences.get(observation.source, -1)
            ]
            if known and observation.attempt_id not in seen:
                seen.add(observation.attempt_id)
                yield from ((key, observation.value, observation.event_time) for key in known)


def _ahead(stored: Statistics, expected: Statistics | None) -> bool:
    return expected is None or (stored.n > expected.n and stored.last_at >= expected.last_at)


def _same(stored: Statistics, expected: Statistics) -> bool:
    def close(a: float, b: float) -> bool:
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)

    return (
        (stored.n, stored.last, stored.last_at) == (expected.n, expected.last, expected.last_at)
        and close(stored.mean, expected.mean)
        and (stored.n < 2 or close(stored.deviation, expected.deviation))
    )
