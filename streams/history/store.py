"""Running statistics in Redis: every measurement counts once, whatever is sent again.

Why that holds is argued in docs/history.md. A store is plain Redis, a Redis Cluster or Valkey.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import chain
from typing import NamedTuple, cast

import msgspec

from leap.predictor.history.welford import Statistics
from leap.streams.history.updates import BUCKETS, Key, Observation, Spans, bucket_of, group_by_bucket, unverified_ranges
from leap.streams.redis_store.client import Client
from leap.streams.redis_store.offset_fence import check_fences

#: Attempts that each statistic remembers, to see a producer's duplicates: 3 kB once it has seen so many.
WINDOW = 256

SCRIPT = resources.files("leap.streams.history").joinpath("apply.lua").read_text()
_decode_json = msgspec.json.Decoder(tuple[str, ...]).decode


class RebuildInProgress(RuntimeError):
    """A rebuild is about to switch to a new generation: try the same batch again in a moment."""


class Applied(NamedTuple):
    """What became of a batch, in updates of single statistics."""

    added: int = 0
    duplicates: int = 0
    redelivered: int = 0


@dataclass
class Bucket:
    """All that one bucket held at one moment."""

    statistics: dict[Key, Statistics] = field(default_factory=dict)
    fences: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[bytes, bytes]) -> "Bucket":
        """Read the fields of the hash."""
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
        Put before every key.
    window
        Attempt ids that each statistic remembers.

    Raises
    ------
    ValueError
        If the prefix has a brace, which would decide the slot of every key in a Cluster.
    """

    def __init__(self, client: Client, prefix: str, window: int = WINDOW) -> None:
        if "{" in prefix:
            raise ValueError(f"prefix {prefix!r} of the keys has a brace")
        self.client = client
        self.pointer = f"{prefix}:history:{{generation}}"
        self.rebuild_lock = f"{self.pointer}:hold"
        self._prefix = prefix
        self._window = window

    def generation(self) -> int:
        """Read the generation of keys in use.

        Raises
        ------
        Held
            While a rebuild switches.
        """
        current, lock = self.client.mget(self.pointer, self.rebuild_lock)
        if lock is not None:
            raise RebuildInProgress("a rebuild of the history is switching generations")
        return int(current or 0)

    def apply(
        self, observations: Sequence[Observation], spans: Spans | None = None, generation: int | None = None
    ) -> Applied:
        """Add a batch, each observation at most once to each of its keys.

        Safe to call again with the same observations, also cut into other batches.

        Parameters
        ----------
        observations
            In order of offset within a source, and all of a message's together.
        spans
            The offsets that the batch stands for: it has whatever there is to be learned from them. By default
            those up to the last observations, of which the store need not have anything yet.
        generation
            Where to; by default the one in use.

        Raises
        ------
        Held
            While a rebuild switches.
        Lost
            If the store lacks something from before the spans.
        ValueError
            If a value or time is not finite. Nothing has been written then.
        redis.RedisError
            If the store failed. As after `Lost`, part of the batch may have been written: apply it again.
        """
        if generation is None:
            generation = self.generation()
        spans = unverified_ranges(observations) if spans is None else spans
        applied = []
        for target, (arguments, buckets) in group_by_bucket(observations, spans).items():
            with self.client.pipeline(transaction=False) as pipeline:
                for number, updates in enumerate(buckets):
                    bucket = self._bucket(generation, target, number)
                    # Not pipeline.eval, a name that the pipeline of a Cluster refuses.
                    pipeline.execute_command("EVAL", SCRIPT, 1, bucket, self._window, arguments, updates)
                replies = pipeline.execute()
            applied += [reply[:3] for reply in replies]
            check_fences(spans[target], [reply[3:] for reply in replies])
        return Applied(*map(sum, zip(*applied, strict=True)))

    def buckets(self, target: str) -> Iterator[Bucket]:
        """Read all statistics, one bucket at a time.

        Each bucket is read at one moment: its fences say exactly what its statistics contain, while writers
        go on. Memory stays that of one bucket.
        """
        for fields in self.dump(target, self._current()):
            yield Bucket.of(fields)

    def bucket(self, target: str, name: str) -> Bucket:
        """Read the bucket of a family, which also has it on every hardware type, or of a model type."""
        return Bucket.of(self._fields(self._current(), target, bucket_of(name)))

    def dump(self, target: str, generation: int) -> Iterator[dict[bytes, bytes]]:
        """Read each bucket as it stands, fences and attempt ids too."""
        for number in range(BUCKETS):
            yield self._fields(generation, target, number)

    def load(self, generation: int, target: str, number: int, fields: Mapping[str, str]) -> None:
        """Write a bucket as `dump` gave it into a generation that is not in use."""
        if fields:
            self.client.hset(self._bucket(generation, target, number), items=list(chain(*fields.items())))

    def new_generation(self) -> int:
        """Reserve a generation that nobody else has or had."""
        return int(self.client.incr(f"{self.pointer}:highest"))

    def remove(self, target: str, generation: int) -> None:
        """Drop a generation."""
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
