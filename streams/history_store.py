"""Running statistics in Redis: every measurement counts once, whatever is sent again.

Why that holds is argued in docs/history.md. A store is plain Redis, a Redis Cluster or Valkey.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from itertools import chain
from typing import NamedTuple, cast
from zlib import crc32

import msgspec

from predictor.statistics import Statistics, check
from streams.redis_client import Client

#: Hashes that the statistics of one target are spread over: of one script call each, one slot each in a
#: Cluster, read whole at one moment. Fixed, because a key must be found where it was written.
BUCKETS = 64
#: Attempts that each statistic remembers, to see a producer's duplicates: 3 kB once it has seen so many.
WINDOW = 256
# Keys whose place is not worked out anew: at 1.5 kB for names of full length, 25 MB.
REMEMBERED = 16_384

_script = resources.files("streams").joinpath("history.lua").read_text()
_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.msgpack.Encoder().encode


class Held(RuntimeError):
    """A rebuild is about to switch to a new generation: try the same batch again in a moment."""


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
    at
        Event time in seconds since the epoch.
    keys
        The statistics that it belongs to.
    """

    source: str
    offset: int
    attempt_id: str
    target: str
    value: float
    at: float
    keys: tuple[Key, ...]


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


@dataclass
class _Call:
    """Arguments of the script for one bucket; names are numbered as they come, from 1 as Lua counts."""

    sources: dict[str, int] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    updates: list[int | float | str] = field(default_factory=list)

    def payload(self) -> bytes:
        return _encode((tuple(self.sources), tuple(self.fields), self.updates))


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
        self.hold = f"{self.pointer}:hold"
        self._prefix = prefix
        self._window = window

    def generation(self) -> int:
        """Read the generation of keys in use.

        Raises
        ------
        Held
            While a rebuild switches.
        """
        current, hold = self.client.mget(self.pointer, self.hold)
        if hold is not None:
            raise Held("a rebuild of the history is switching generations")
        return int(current or 0)

    def apply(self, observations: Iterable[Observation], generation: int | None = None) -> Applied:
        """Add a batch, each observation at most once to each of its keys.

        Safe to call again with the same observations, also cut into other batches.

        Parameters
        ----------
        observations
            In order of offset within a source, and all of a message's together.
        generation
            Where to; by default the one in use.

        Raises
        ------
        Held
            While a rebuild switches.
        ValueError
            If a value or time is not finite. Nothing has been written then.
        redis.RedisError
            If the store failed. Part of the batch may have been written: apply it again.
        """
        if generation is None:
            generation = self.generation()
        with self.client.pipeline(transaction=False) as pipeline:
            for (target, number), call in _calls(observations).items():
                bucket = self._bucket(generation, target, number)
                # Not pipeline.eval, a name that the pipeline of a Cluster refuses.
                pipeline.execute_command("EVAL", _script, 1, bucket, self._window, call.payload())
            replies = pipeline.execute()
        return Applied(*map(sum, zip(*replies, strict=True)))

    def buckets(self, target: str) -> Iterator[Bucket]:
        """Read all statistics, one bucket at a time.

        Each bucket is read at one moment: its fences say exactly what its statistics contain, while writers
        go on. Memory stays that of one bucket.
        """
        for fields in self.dump(target, self._current()):
            yield Bucket.of(fields)

    def bucket(self, target: str, name: str) -> Bucket:
        """Read the bucket of a family, which also has it on every hardware type, or of a model type."""
        return Bucket.of(self._fields(self._current(), target, _number(name)))

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


def _calls(observations: Iterable[Observation]) -> dict[tuple[str, int], _Call]:
    """Group a batch by target and bucket; what stands at an offset already passed in it was delivered twice."""
    calls: dict[tuple[str, int], _Call] = {}
    passed: dict[tuple[str, str], int] = {}
    for source, offset, attempt_id, target, value, at, keys in observations:
        check(value, at)
        if offset <= passed.get((source, target), -1):
            continue
        passed[source, target] = offset
        fence = "@" + source
        attempt = b64encode(hashlib.blake2b(attempt_id.encode(), digest_size=9).digest()).decode()
        for key in keys:
            number, name = _place(key)
            call = calls.get((target, number))
            if call is None:
                call = calls[target, number] = _Call()
            at_source = call.sources.setdefault(fence, len(call.sources) + 1)
            at_field = call.fields.setdefault(name, len(call.fields) + 1)
            call.updates += (at_source, at_field, offset, attempt, value, at)
    return calls


@lru_cache(REMEMBERED)
def _place(key: Key) -> tuple[int, str]:
    """Bucket of a key, and its field there."""
    return _number(key.name), _encode_json(key).decode()


def _number(name: str) -> int:
    """Place a name: all keys of one family are together."""
    return crc32(name.encode()) % BUCKETS


def _statistics(value: bytes) -> Statistics:
    n, mean, m2, last, last_at, _ = value.split(b" ", 5)
    return Statistics(int(n), float(mean), float(m2), float(last), float(last_at))
