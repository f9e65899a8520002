"""Running statistics in Redis, with exactly-once updates under redelivery.

docs/history.md has the argument. Runs on Redis, Redis Cluster and Valkey.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import chain
from typing import NamedTuple, cast

import msgspec

from leap.predictor.history.welford import Statistics
from leap.schemas.errors import LeapError, SettingsError
from leap.streams.history.updates import BUCKETS, Key, Observation, Spans, bucket_of, group_by_bucket, unverified_ranges
from leap.streams.redis_store.client import Client
from leap.streams.redis_store.offset_fence import check_fences

#: Attempt ids kept per statistic to detect a producer's duplicates; 3 kB when full.
WINDOW = 256

SCRIPT = resources.files("leap.streams.history").joinpath("apply.lua").read_text(encoding="utf-8")
_decode_json = msgspec.json.Decoder(tuple[str, ...]).decode


class RebuildInProgress(LeapError, RuntimeError):
    """A rebuild is switching to a new generation: retry the batch."""


class Applied(NamedTuple):
    """Outcome of a batch, counted in updates of single statistics."""

    added: int = 0
    duplicates: int = 0
    redelivered: int = 0


@dataclass
class Bucket:
    """Content of a bucket, read atomically."""

    statistics: dict[Key, Statistics] = field(default_factory=dict)
    fences: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[bytes, bytes]) -> "Bucket":
        """Parse the fields of the hash."""
        bucket = cls()
        for name, value in fields.items():
            if name.startswith(b"@"):
                bucket.fences[name[1:].decode()] = int(value)
            else:
                bucket.statistics[Key(*_decode_json(name))] = _statistics(value)
        return bucket


class HistoryStore:
    """Statistics of all keys of one deployment.

    Parameters
    ----------
    client
        Connection, without `decode_responses`.
    prefix
        Prefix of all keys.
    window
        Attempt ids kept per statistic.

    Raises
    ------
    SettingsError
        If the prefix contains a brace, which would be taken for the hash tag of every key.
    """

    def __init__(self, client: Client, prefix: str, window: int = WINDOW) -> None:
        if "{" in prefix:
            raise SettingsError(f"key prefix {prefix!r} contains a brace; remove it")
        self.client = client
        self.pointer = f"{prefix}:history:{{generation}}"
        self.rebuild_lock = f"{self.pointer}:hold"
        self._prefix = prefix
        self._window = window

    def generation(self) -> int:
        """Generation of keys in use.

        Raises
        ------
        RebuildInProgress
            While a rebuild switches.
        """
        current, lock = self.client.mget(self.pointer, self.rebuild_lock)
        if lock is not None:
            raise RebuildInProgress("a rebuild of the history is switching generations")
        return int(current or 0)

    def apply(
        self, observations: Sequence[Observation], spans: Spans | None = None, generation: int | None = None
    ) -> Applied:
        """Apply a batch: each observation at most once to each of its keys.

        Idempotent, also if the same observations come in other batches.

        Parameters
        ----------
        observations
            In order of offset within a source; those of one message are adjacent.
        spans
            The offsets that the batch covers, by target and source. By default everything up to its last offsets,
            without a check that earlier offsets have been applied.
        generation
            Generation to write to; by default the one in use.

        Raises
        ------
        RebuildInProgress
            While a rebuild switches.
        StoreDataLost
            If the store lacks an update from before the spans.
        ValueError
            If a value or time is not finite; nothing is written.
        redis.RedisError
            If Redis failed. As after `StoreDataLost`, the batch may be partly applied: apply it again.
        """
        if generation is None:
            generation = self.generation()
        spans = unverified_ranges(observations) if spans is None else spans
        applied = []
        for target, (arguments, buckets) in group_by_bucket(observations, spans).items():
            with self.client.pipeline(transaction=False) as pipeline:
                for number, updates in enumerate(buckets):
                    bucket = self._bucket(generation, target, number)
                    # Not pipeline.eval, which cluster pipelines do not support.
                    pipeline.execute_command("EVAL", SCRIPT, 1, bucket, self._window, arguments, updates)
                replies = pipeline.execute()
            applied += [reply[:3] for reply in replies]
            check_fences(spans[target], [reply[3:] for reply in replies])
        return Applied(*map(sum, zip(*applied, strict=True)))

    def buckets(self, target: str) -> Iterator[Bucket]:
        """Read all statistics, one bucket at a time.

        Each bucket is read atomically, so its fences match its statistics even while workers write. Memory is that
        of one bucket.
        """
        for fields in self.dump(target, self._current()):
            yield Bucket.of(fields)

    def bucket(self, target: str, name: str) -> Bucket:
        """Bucket of a family (including its statistics per hardware type) or of a model type."""
        return Bucket.of(self._fields(self._current(), target, bucket_of(name)))

    def dump(self, target: str, generation: int) -> Iterator[dict[bytes, bytes]]:
        """Raw fields of each bucket, including fences and attempt ids."""
        for number in range(BUCKETS):
            yield self._fields(generation, target, number)

    def load(self, generation: int, target: str, number: int, fields: Mapping[str, str]) -> None:
        """Write a bucket returned by `dump` into a generation that is not in use."""
        if fields:
            self.client.hset(self._bucket(generation, target, number), items=list(chain(*fields.items())))

    def targets(self, generation: int) -> set[str]:
        """Targets that a generation has statistics of."""
        begin = f"{self._prefix}:history:{generation}:"
        match = re.sub(r"([*?\[\]\\])", r"\\\1", begin) + "*"
        return {key.decode().rpartition(":")[2] for key in self.client.scan_iter(match=match, count=1000)}

    def new_generation(self) -> int:
        """Reserve an unused generation number."""
        return int(self.client.incr(f"{self.pointer}:highest"))

    def remove(self, target: str, generation: int) -> None:
        """Delete a generation."""
        for number in range(BUCKETS):
            self.client.unlink(self._bucket(generation, target, number))

    def _current(self) -> int:
        return int(self.client.get(self.pointer) or 0)

    def _bucket(self, generation: int, target: str, number: int) -> str:
        return f"{self._prefix}:history:{generation}:{{{number}}}:{target}"

    def _fields(self, generation: int, target: str, number: int) -> dict[bytes, bytes]:
        return cast(dict[bytes, bytes], self.client.hgetall(self._bucket(generation, target, number)))


def _statistics(value: bytes) -> Statistics:
    n, mean, m2, last, last_at, _ = value.split(b" ", 5)
    return Statistics(int(n), float(mean), float(m2), float(last), float(last_at))
