"""Observations, and their grouping into one script call per bucket of the store."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

import msgspec

from leap.predictor.history.snapshot import PER_ACCELERATOR
from leap.predictor.history.welford import check
from leap.streams.redis_store.offset_fence import OffsetRange, encode_ranges, packed

#: Hashes over which the statistics of a target are spread; each is one script call, one Cluster slot, one atomic
#: read. Changing it would orphan existing keys.
BUCKETS = 64

_encode_json = msgspec.json.Encoder().encode


class Key(NamedTuple):
    """Key of a statistic: a family, a family on one hardware type, or a model type; each also per accelerator."""

    kind: str
    name: str
    hardware_type: str = ""

    @property
    def of(self) -> str:
        """Its kind, whether per accelerator or not."""
        return self.kind.removesuffix(PER_ACCELERATOR)

    @property
    def per_accelerator(self) -> bool:
        """Whether its values are."""
        return self.kind.endswith(PER_ACCELERATOR)


class Observation(NamedTuple):
    """One measured value, with the source and offset of its message.

    Attributes
    ----------
    source
        ``<topic id>/<partition>``.
    offset
        Offset within the source.
    target
        Prediction target.
    value
        Natural logarithm of the measurement, per accelerator where the keys are.
    event_time
        Seconds since 1970.
    keys
        Keys of the statistics to update.
    """

    source: str
    offset: int
    attempt_id: str
    target: str
    value: float
    event_time: float
    keys: tuple[Key, ...]


#: Target to source to offset range.
Spans = Mapping[str, Mapping[str, OffsetRange]]


class BucketUpdates(NamedTuple):
    """Script arguments for the buckets of one target.

    Attributes
    ----------
    spans
        Encoded offset ranges, the same for all buckets.
    updates
        Encoded updates of each bucket.
    """

    spans: bytes
    updates: list[bytes]


def group_by_bucket(observations: Iterable[Observation], spans: Spans) -> dict[str, BucketUpdates]:
    """Group a batch by target and bucket; observations at repeated offsets are dropped as redelivered.

    Every bucket gets a call, even without updates, so that all buckets have the same fences.

    Raises
    ------
    ValueError
        If a value or time is not finite.
    """
    numbers = {target: {source: i for i, source in enumerate(ranges, 1)} for target, ranges in spans.items()}
    # Fields are numbered in order of appearance, from 1 as in Lua.
    buckets: dict[str, list[tuple[dict[str, int], list[int | float | str]]]] = {
        target: [({}, []) for _ in range(BUCKETS)] for target in spans
    }
    last_offset: dict[tuple[str, str], int] = {}
    places: dict[Key, tuple[int, str]] = {}  # of a batch: over all families a cache costs more than it saves
    for source, offset, attempt_id, target, value, event_time, keys in observations:
        check(value, event_time)
        if offset <= last_offset.get((source, target), -1):
            continue
        last_offset[source, target] = offset
        number = numbers[target][source]
        attempt = attempt_of(attempt_id)
        for key in keys:
            if (place := places.get(key)) is None:
                place = places[key] = locate(key)
            bucket, name = place
            fields, updates = buckets[target][bucket]
            updates += (number, fields.setdefault(name, len(fields) + 1), offset, attempt, value, event_time)
    return {
        target: BucketUpdates(
            encode_ranges(ranges),
            [packed((tuple(fields), updates)) for fields, updates in buckets[target]],
        )
        for target, ranges in spans.items()
    }


def unverified_ranges(observations: Iterable[Observation]) -> dict[str, dict[str, OffsetRange]]:
    """Offset ranges from 0 up to the observations, so that no fence check can fail."""
    spans: dict[str, dict[str, OffsetRange]] = {}
    for observation in observations:
        by_source = spans.setdefault(observation.target, {})
        end = max(observation.offset + 1, by_source.get(observation.source, OffsetRange(0, 0)).end)
        by_source[observation.source] = OffsetRange(0, end)
    return spans


def bucket_of(name: str) -> int:
    """Bucket number of a family or model type; all keys of a family share a bucket."""
    return crc32(name.encode()) % BUCKETS


def attempt_of(attempt_id: str) -> str:
    """Digest of an attempt id, 12 characters."""
    return b64encode(hashlib.blake2b(attempt_id.encode(), digest_size=9).digest()).decode()


def locate(key: Key) -> tuple[int, str]:
    """Bucket number and field name of a key."""
    return bucket_of(key.name), _encode_json(key).decode()
