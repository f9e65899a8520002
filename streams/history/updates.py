"""What completions say, grouped into one script call for each bucket of the store."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

import msgspec

from leap.predictor.history.welford import check
from leap.streams.redis_store.offset_fence import OffsetRange, encode_ranges, packed

#: Hashes that the statistics of one target are spread over: of one script call each, one slot each in a
#: Cluster, read whole at one moment. Fixed, because a key must be found where it was written.
BUCKETS = 64
# Keys whose place is not worked out anew: at 1.5 kB for names of full length, 25 MB.
REMEMBERED = 16_384

_encode_json = msgspec.json.Encoder().encode


class Key(NamedTuple):
    """What a statistic is about: a family, a family on one hardware type, or a model type."""

    kind: str
    name: str
    hardware_type: str = ""


class Observation(NamedTuple):
    """One measured value and where it stood.

    Attributes
    ----------
    source
        ``<topic id>/<partition>``.
    offset
        Its offset there.
    target
        Prediction target that was measured.
    value
        What the statistics are of: the natural logarithm of the measurement.
    event_time
        Seconds since 1970.
    keys
        The statistics that it belongs to.
    """

    source: str
    offset: int
    attempt_id: str
    target: str
    value: float
    event_time: float
    keys: tuple[Key, ...]


#: Target to source to span.
Spans = Mapping[str, Mapping[str, OffsetRange]]


class BucketUpdates(NamedTuple):
    """What is to be done to the buckets of one target.

    Attributes
    ----------
    spans
        Argument of the script that is the same for all buckets.
    updates
        For each bucket, the argument that is its own.
    """

    spans: bytes
    updates: list[bytes]


def group_by_bucket(observations: Iterable[Observation], spans: Spans) -> dict[str, BucketUpdates]:
    """Group a batch by target and bucket; what stands at an offset already passed in it was delivered twice.

    Every bucket is called, also with nothing, so that all have the same fences.

    Raises
    ------
    ValueError
        If a value or time is not finite.
    """
    numbers = {target: {source: i for i, source in enumerate(ranges, 1)} for target, ranges in spans.items()}
    # Names are numbered as they come, from 1 as Lua counts.
    buckets: dict[str, list[tuple[dict[str, int], list[int | float | str]]]] = {
        target: [({}, []) for _ in range(BUCKETS)] for target in spans
    }
    passed: dict[tuple[str, str], int] = {}
    for source, offset, attempt_id, target, value, event_time, keys in observations:
        check(value, event_time)
        if offset <= passed.get((source, target), -1):
            continue
        passed[source, target] = offset
        number = numbers[target][source]
        attempt = attempt_of(attempt_id)
        for key in keys:
            bucket, name = locate(key)
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
    """Spans of observations of which nobody says that what is before has been applied."""
    spans: dict[str, dict[str, OffsetRange]] = {}
    for observation in observations:
        by_source = spans.setdefault(observation.target, {})
        end = max(observation.offset + 1, by_source.get(observation.source, OffsetRange(0, 0)).end)
        by_source[observation.source] = OffsetRange(0, end)
    return spans


def bucket_of(name: str) -> int:
    """Place a name: all keys of one family are together."""
    return crc32(name.encode()) % BUCKETS


def attempt_of(attempt_id: str) -> str:
    """Twelve letters that stand for an attempt."""
    return b64encode(hashlib.blake2b(attempt_id.encode(), digest_size=9).digest()).decode()


@lru_cache(REMEMBERED)
def locate(key: Key) -> tuple[int, str]:
    """Bucket of a key, and its field there."""
    return bucket_of(key.name), _encode_json(key).decode()
