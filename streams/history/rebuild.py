"""Replay completions into a new generation of keys and switch to it, while workers keep running.

docs/history.md explains why the switch neither loses nor duplicates updates.
"""

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leap.schemas.errors import LeapError
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import COMPLETED
from leap.streams.history.backup import read_backup
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Observation
from leap.streams.history.worker import BATCH_SIZE, TARGETS, read
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.redis_store.offset_fence import offset_ranges, source
from leap.streams.runtime.settings import Settings

#: TTL of the rebuild lock, for which workers wait if a rebuild dies while it switches. It is renewed with every batch,
#: that is at least every BATCH_S.
LOCK_TTL_MS = 60_000
BATCH_S = 10.0

# KEYS: pointer, lock; ARGV: token, TTL in ms, old generation, new generation (empty: only renew the lock).
_RENEW_OR_SWITCH = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
if ARGV[4] == '' then return redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[4])
return redis.call('DEL', KEYS[2])
"""
_UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


Progress = Callable[[int], object]


class SwitchError(LeapError, RuntimeError):
    """Another rebuild has switched, or this one lost its lock. The history is unchanged: rebuild again."""


@dataclass
class Rebuilt:
    """Result of a rebuild.

    Attributes
    ----------
    generation
        The new generation of keys.
    messages, rejected
        Messages replayed, and how many of them are not valid completions.
    targets
        Those configured, and any other that the store held before.
    repeated
        Observations left out, because their attempt was in an earlier message: an interrupted backfill sends again
        what it had sent, and workers recognise only the last attempts of a key.
    missing
        Offsets between the end of the backup and the oldest message of the topic: completions that are in neither.
    """

    generation: int
    targets: tuple[str, ...]
    messages: int = 0
    rejected: int = 0
    repeated: int = 0
    missing: int = 0


def rebuild(
    settings: Settings,
    store: HistoryStore,
    targets: Collection[str] = TARGETS,
    backup: Path | None = None,
    progress: Progress = lambda messages: None,
) -> Rebuilt:
    """Rebuild the history from the topic, or from a backup and the messages after it.

    Other targets than `targets` that the store holds are kept: made anew too, or taken over where the backup has none
    of them. The old generation stays until the next rebuild, for readers that still use it.

    Parameters
    ----------
    progress
        Called periodically with the number of messages replayed.

    Raises
    ------
    SwitchError
        If the switch failed. The history is unchanged.
    ValueError
        If the backup is not valid.
    """
    before = store.generation()
    held = store.targets(before)
    targets = tuple(sorted({*targets, *held}))
    done = Rebuilt(store.new_generation(), targets)
    fences = _load(store, held, before, done, backup) if backup is not None else {}
    replay = _Replay(settings, store, fences, done)
    replay.run(progress)
    with _rebuild_lock(store, before, done.generation) as renew:
        replay.run(lambda messages: renew())
    for old in range(before):
        for target in targets:
            store.remove(target, old)
    return done


class _Replay:
    """Replays the topic: the first run from its beginning, later runs from where the last one ended."""

    def __init__(
        self,
        settings: Settings,
        store: HistoryStore,
        fences: Mapping[str, int],
        done: Rebuilt,
    ) -> None:
        self._settings = settings
        self._store = store
        self._targets = done.targets
        self._seen: dict[str, set[str]] = {target: set() for target in done.targets}
        self._fences = fences
        self._done = done
        self._catalog = load_catalog(settings.catalog)
        self._reached: dict[tuple[str, int], int] = {}

    def run(self, progress: Progress) -> None:
        batch: list[Message] = []
        until = time.monotonic() + BATCH_S
        begins = {partition: offset + 1 for partition, offset in self._reached.items()}
        for message in read_range(self._settings, self._settings.topic(COMPLETED), begins=begins):
            partition, name = (message.topic_id, message.partition), source(message)
            reached = self._reached.get(partition)
            if reached is None and name in self._fences:
                self._done.missing += max(0, message.offset - self._fences[name] - 1)
            if reached is None or message.offset > reached:  # a recreated partition starts over
                self._reached[partition] = message.offset
                batch.append(message)
            if len(batch) == BATCH_SIZE or time.monotonic() > until:
                self._apply(batch)
                progress(self._done.messages)
                batch = []
                until = time.monotonic() + BATCH_S
        self._apply(batch)
        progress(self._done.messages)

    def _apply(self, batch: list[Message]) -> None:
        found, rejected = read(batch, self._catalog, self._targets)
        observations = list(filter(self._is_first, found))
        self._done.repeated += len(found) - len(observations)
        self._store.apply(observations, dict.fromkeys(self._targets, offset_ranges(batch)), self._done.generation)
        self._done.messages += len(batch)
        self._done.rejected += len(rejected)

    def _is_first(self, observation: Observation) -> bool:
        """Whether an attempt was not in an earlier message, as an audit counts it."""
        seen = self._seen[observation.target]
        known = len(seen)
        seen.add(observation.attempt_id)
        return len(seen) > known


def _load(store: HistoryStore, held: Collection[str], before: int, done: Rebuilt, backup: Path) -> dict[str, int]:
    """Load a backup into an empty generation, and what was held of other targets; return the backup's highest fences.

    A target that is neither configured nor held is left out.
    """
    fences: dict[str, int] = {}
    loaded = set()
    for line in read_backup(backup):
        loaded.add(line.target)
        if line.target in done.targets:
            store.load(done.generation, line.target, line.number, line.fields)
            for name, value in line.fields.items():
                if name.startswith("@"):
                    fences[name[1:]] = max(int(value), fences.get(name[1:], -1))
    for target in set(held) - loaded:
        for number, fields in enumerate(store.dump(target, before)):
            store.load(done.generation, target, number, {name.decode(): text.decode() for name, text in fields.items()})
    return fences


@contextmanager
def _rebuild_lock(store: HistoryStore, before: int, after: int) -> Iterator[Callable[[], None]]:
    """Hold the lock that makes workers wait, then switch generations; the block has to renew the lock."""
    client, names = store.client, (store.pointer, store.rebuild_lock)
    token = uuid.uuid4().hex

    def renew() -> None:
        if not client.eval(_RENEW_OR_SWITCH, 2, *names, token, LOCK_TTL_MS, before, ""):
            raise SwitchError("the rebuild lock expired; rebuild again")

    if not client.set(store.rebuild_lock, token, nx=True, px=LOCK_TTL_MS):
        raise SwitchError("another rebuild is switching; wait for it, and rebuild again only if still needed")
    try:
        yield renew
        if not client.eval(_RENEW_OR_SWITCH, 2, *names, token, LOCK_TTL_MS, before, after):
            raise SwitchError("another rebuild switched meanwhile, or the rebuild lock expired; rebuild again")
    except BaseException:
        client.eval(_UNLOCK, 1, store.rebuild_lock, token)
        raise
