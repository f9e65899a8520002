"""Running statistics of many keys as one array, by the hash of the key.

The statistics of a key merge as :func:`leap.predictor.history.welford.merge` merges two of them; here all keys at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.history.snapshot import MAX_KEYS, Snapshot, key_hash
from leap.predictor.history.sorted_hashes import Hashes

#: One key: its hash, that of its family (0: it has none), and its statistics as in
#: :class:`leap.predictor.history.welford.Statistics`.
STATISTICS_DTYPE = np.dtype(
    [("key", "u8"), ("family", "u8"), ("n", "f8"), ("mean", "f8"), ("m2", "f8"), ("last", "f8"), ("last_at", "f8")]
)
Records = NDArray[np.void]
NONE: Records = np.empty(0, STATISTICS_DTYPE)

#: Families that an artifact keeps, the most recent ones.
MAX_FAMILIES = 250_000
#: Difference of two means of ln values that are the same but for the order of summing.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class StatisticsSnapshot:
    """Statistics of one moment.

    Attributes
    ----------
    fences
        Source (topic id/partition) to the greatest offset applied: nothing after it is in the records.
    """

    records: Records
    fences: dict[str, int] = field(default_factory=dict)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What the store holds against what the partitions say.

    Attributes
    ----------
    keys
        Keys of either.
    equal
        Keys with the same count, mean and last value in both.
    ahead, behind
        Observations that the store has more and fewer, over all keys. A completion whose submission never
        came is in the store alone.
    unequal
        Keys with the same count but another mean or last value.
    largest
        Greatest difference of the means of such a key, in ln of the target.
    """

    keys: int
    equal: int
    ahead: int
    behind: int
    unequal: int
    largest: float


def observed(key: Hashes, family: Hashes, y: Floats, time: Floats) -> Records:
    """One record an observation."""
    records = np.empty(len(key), STATISTICS_DTYPE)
    for name, column in zip(STATISTICS_DTYPE.names or (), (key, family, 1.0, y, 0.0, y, time), strict=True):
        records[name] = column
    return records


def cumulative_merge(records: Records) -> tuple[Records, NDArray[np.bool_]]:
    """Merge the records of each key one after the other, by time.

    Sums are taken of what is left after the key's mean over all records, which keeps them as exact as
    Welford's updates: what is squared is a difference, never the value itself.

    Returns
    -------
    tuple
        Records by key and time, each with the statistics up to it, and whether it is the last of its key.
    """
    records = records[np.lexsort((records["last"], records["last_at"], records["key"]))]
    if not len(records):
        return records, np.zeros(0, bool)
    first = np.r_[True, records["key"][1:] != records["key"][:-1]]
    starts, code = np.flatnonzero(first), np.cumsum(first) - 1
    n, mean = records["n"], records["mean"]
    center = np.add.reduceat(n * mean, starts) / np.add.reduceat(n, starts)
    difference = mean - center[code]
    count = _from_start(n, starts, code)
    total = _from_start(n * difference, starts, code)
    squares = _from_start(records["m2"] + n * difference**2, starts, code)
    records["n"] = count
    records["mean"] = center[code] + total / count
    records["m2"] = np.where(count > 1, np.maximum(squares - total**2 / count, 0.0), 0.0)
    return records, np.r_[first[1:], True]


def merged(parts: Iterable[Records]) -> Records:
    """Statistics of each key over all parts, sorted by key."""
    records, last = cumulative_merge(np.concatenate([NONE, *parts]))
    return records[last]


def statistics(records: Records) -> NDArray[np.float32]:
    """(keys, 5) in the order of :data:`leap.predictor.features.history.STATISTICS`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.where(records["n"] > 1, np.sqrt(records["m2"] / (records["n"] - 1)), np.nan)
    columns = (records["n"], records["mean"], deviation, records["last"], records["last_at"] / SECONDS_PER_DAY)
    return np.column_stack(columns).astype(np.float32)


def snapshot(records: Records, max_families: int = MAX_FAMILIES, max_keys: int = MAX_KEYS) -> Snapshot:
    """What an artifact keeps: the most recent families with all their hardware types, and every model type."""
    family = records["family"]
    families, code, keys_of = np.unique(family[family != 0], return_inverse=True, return_counts=True)
    last_at = np.full(len(families), -np.inf)
    np.maximum.at(last_at, code, records["last_at"][family != 0])
    order = np.lexsort((families, -last_at))
    recent, keys_of = families[order], keys_of[order]
    room = max_keys - int(np.sum(family == 0))
    kept = recent[: min(max_families, int(np.searchsorted(np.cumsum(keys_of), room, side="right")))]
    records = records[np.isin(family, kept) | (family == 0)]
    return Snapshot.of(records["key"], statistics(records))


def difference(store: Records, partitions: Records) -> Difference:
    """Compare, key by key."""
    keys = np.union1d(store["key"], partitions["key"])
    a, b = _at(store, keys), _at(partitions, keys)
    same = a["n"] == b["n"]
    apart = np.abs(a["mean"] - b["mean"])
    equal = same & (apart <= TOLERANCE * np.maximum(1.0, np.abs(a["mean"]))) & (a["last"] == b["last"])
    more = a["n"] - b["n"]
    return Difference(
        keys=len(keys),
        equal=int(equal.sum()),
        ahead=int(more[more > 0].sum()),
        behind=int(-more[more < 0].sum()),
        unequal=int((same & ~equal).sum()),
        largest=float(apart[same].max(initial=0.0)),
    )


def hashes(kind: str, *columns: "pd.Series[str]") -> Hashes:
    """(n,) :func:`leap.predictor.history.snapshot.key_hash` of rows, worked out once a distinct key."""
    code, names = pd.factorize(columns[0])
    parts = [names]
    for column in columns[1:]:
        second, seconds = pd.factorize(column)
        code, pairs = pd.factorize(code.astype(np.int64) * len(seconds) + second)
        parts = [parts[0].take(pairs // len(seconds)), seconds.take(pairs % len(seconds))]
    return np.array([key_hash(kind, *key) for key in zip(*parts, strict=True)], np.uint64)[code]


def _at(records: Records, keys: Hashes) -> Records:
    """Records of sorted keys; of no observations where there is none."""
    aligned = np.zeros(len(keys), STATISTICS_DTYPE)
    aligned[np.searchsorted(keys, records["key"])] = records
    return aligned


def _from_start(values: Floats, starts: NDArray[np.intp], code: NDArray[np.intp]) -> Floats:
    """Cumulative sum that starts anew at each key."""
    total = np.cumsum(values)
    before = np.where(starts > 0, total[np.maximum(starts - 1, 0)], 0.0)
    return np.asarray(total - before[code])
