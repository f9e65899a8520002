"""Recompute the statistics from the topics, and compare them with the store."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from leap.predictor.history.welford import Statistics, of
from leap.schemas.codec import MAX_DECODED_BYTES, Rejected, decode
from leap.schemas.events import JobAttempt
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import ATTEMPTS, COMPLETED
from leap.streams.history.store import Bucket, HistoryStore
from leap.streams.history.updates import Key, bucket_of
from leap.streams.history.worker import WORKER, keys, learned_value, read
from leap.streams.kafka.clients import consumer_config, when_led
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import TIMEOUT_S, topic_ids
from leap.streams.runtime.settings import Settings

#: Relative tolerance for means and deviations, which depend on summation order.
TOLERANCE = 1e-9

Row = tuple[Key, float, float]


@dataclass(frozen=True)
class Difference:
    """A statistic that differs; None where it does not exist."""

    key: Key
    stored: Statistics | None
    expected: Statistics | None


@dataclass
class Audit:
    """Result of a comparison.

    Attributes
    ----------
    whole
        Whether the topics still hold everything that the store may have seen.
    ahead
        If not `whole`: statistics with more observations than the topics hold, which cannot be checked further.
    """

    whole: bool
    compared: int = 0
    ahead: int = 0
    differences: list[Difference] = field(default_factory=list)


def audit(settings: Settings, store: HistoryStore, target: str) -> Audit:
    """Compare with the completions if none has expired from their topic, otherwise with the joined attempts."""
    committed = _committed(settings)  # read before the store, which then has at least these updates
    if committed is None:
        return compare(store.buckets(target), attempts(settings, target), whole=False)
    buckets = list(store.buckets(target))
    if any(bucket.fences.keys() - committed.keys() for bucket in buckets):  # of a recreated topic
        return compare(store.buckets(target), attempts(settings, target), whole=False)
    return compare(buckets, _completions(settings, target, buckets, committed))


def compare(buckets: Iterable[Bucket], rows: Iterable[Row], whole: bool = True) -> Audit:
    """Recompute and compare every statistic.

    Parameters
    ----------
    buckets
        Iterated after the rows, so it may be lazy.
    rows
        Key, value (ln of the measurement) and event time (s) of every attempt, without duplicates.
    whole
        Whether the rows are complete; otherwise a statistic with more observations is `ahead`, not a difference.
    """
    values: dict[Key, tuple[array[float], array[float]]] = {}
    for key, value, event_time in rows:
        if key not in values:
            values[key] = array("d"), array("d")
        values[key][0].append(value)
        values[key][1].append(event_time)
    result = Audit(whole)
    for bucket in buckets:
        for key, stored in bucket.statistics.items():
            expected = of(*values.pop(key)) if key in values else None
            result.compared += 1
            if not whole and _ahead(stored, expected):
                result.ahead += 1
            elif expected is None or not _same(stored, expected):
                result.differences.append(Difference(key, stored, expected))
    result.compared += len(values)
    result.differences += [Difference(key, None, of(*pair)) for key, pair in values.items()]
    return result


def attempts(settings: Settings, target: str) -> Iterator[Row]:
    """Rows from the topic of joined attempts; the first of duplicates."""
    new = _New()
    catalog = load_catalog(settings.catalog)
    for message in read_range(settings, settings.topic(ATTEMPTS)):
        try:
            completed = decode(message.value, JobAttempt, MAX_DECODED_BYTES).completed
        except Rejected:
            continue
        measured = completed.measured(target)
        if measured is None:
            continue
        for key in new.keys(completed.attempt_id, keys(completed, catalog)):
            yield key, learned_value(completed, measured), completed.finished_at.timestamp()


def _committed(settings: Settings) -> dict[str, int] | None:
    """Source to the committed offset of the history workers; None if completions have expired."""
    topic = settings.topic(COMPLETED)
    topic_id = topic_ids(settings, [topic])[topic]
    consumer = Consumer(consumer_config(settings, WORKER))  # does not join the group
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
    """Rows of completions that are committed, or below a bucket's fence; the first of duplicates."""
    new = _New()
    catalog = load_catalog(settings.catalog)
    for message in read_range(settings, settings.topic(COMPLETED)):
        for observation in read([message], catalog, [target])[0]:
            known = tuple(
                key
                for key in observation.keys
                if observation.offset < committed.get(observation.source, 0)
                or observation.offset <= buckets[bucket_of(key.name)].fences.get(observation.source, -1)
            )
            for key in new.keys(observation.attempt_id, known):
                yield key, observation.value, observation.event_time


class _New:
    """Tells which keys have not counted an attempt yet: a corrected completion may have others, as in the store."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[Key, ...]] = {}

    def keys(self, attempt_id: str, of: tuple[Key, ...]) -> tuple[Key, ...]:
        counted = self._counted.get(attempt_id, ())
        new = tuple(key for key in of if key not in counted) if counted else of
        if new:
            self._counted[attempt_id] = counted + new
        return new


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
