"""Keys of attempts as hashes, many rows at once."""

import hashlib
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import NAMES, NUMBERS, Indices, JobBatch, Rows
from leap.predictor.history.sorted_hashes import Hashes

#: Columns that keys are made of.
COLUMNS: tuple[str, ...] = (
    "family",
    "model_type",
    "hardware_type",
    "configuration",
    "accelerators",
    "batch_size",
)
#: The columns of a key, in their order.
KeyColumns = tuple[str, ...]


class Keys:
    """Hashes of (n,) rows by what stands in some of their columns; what several keys begin with is hashed once.

    Parameters
    ----------
    columns
        `column_hashes` of the rows.
    keys
        Those that will be asked for: hashed side by side, in as many steps as the longest has columns.
    """

    def __init__(self, columns: Hashes, keys: tuple[KeyColumns, ...] = ()) -> None:
        self._columns = columns
        self._mixed: dict[KeyColumns, Hashes] = {}
        self._unnamed = columns[COLUMNS.index("family")] == _NO_NAME
        self._all_named = not self._unnamed.any()
        self._mix_all(keys)

    @classmethod
    def from_rows(cls, rows: Rows) -> "Keys":
        """Keys of (n,) rows."""
        return cls(column_hashes(rows))

    def of(self, names: KeyColumns) -> Hashes:
        """(n,) hashes of some columns; 0 for a row without a family where the key has one."""
        if names not in self._mixed:
            self._mix_all((names,))
        hashes = self._mixed[names]
        return hashes if self._all_named or "family" not in names else np.where(self._unnamed, _ZERO, hashes)

    def _mix_all(self, keys: tuple[KeyColumns, ...]) -> None:
        mixed = np.zeros((1, self._columns.shape[1]), dtype=np.uint64)
        for prefixes, begun, column in _steps(keys):
            mixed = mix(mixed.take(begun, axis=0) ^ self._columns.take(column, axis=0))
            self._mixed.update(zip(prefixes, mixed, strict=True))


@cache
def _steps(keys: tuple[KeyColumns, ...]) -> list[tuple[list[KeyColumns], Indices, Indices]]:
    """What the keys begin with, once each, by number of columns.

    With each the place among the shorter ones of what it begins with, and its last column.
    """
    steps: list[tuple[list[KeyColumns], Indices, Indices]] = []
    shorter: list[KeyColumns] = [()]
    for size in range(1, max(map(len, keys), default=0) + 1):
        prefixes = list(dict.fromkeys(key[:size] for key in keys if len(key) >= size))
        begun = np.array([shorter.index(prefix[:-1]) for prefix in prefixes])
        steps.append((prefixes, begun, np.array([COLUMNS.index(prefix[-1]) for prefix in prefixes])))
        shorter = prefixes
    return steps


def column_hashes(rows: Rows) -> Hashes:
    """(len(COLUMNS), n) hashes `hashes_of` the columns that keys are made of; absent ones are 0."""
    columns = np.zeros((len(COLUMNS), len(next(iter(rows.values())))), dtype=np.uint64)
    for position, name in enumerate(COLUMNS):
        if name in rows:
            columns[position] = hashes_of(np.asarray(rows[name]))
    return columns


def configurations(jobs: JobBatch) -> Hashes:
    """(n,) hashes of the launch configuration: jobs of equal numbers and names have one; `extra` is left out."""
    values = np.concatenate((hashes_of(jobs.numbers), hashes_of(jobs.names)), axis=1)
    values ^= _FIELD_MARKS
    return mix(np.bitwise_xor.reduce(mix(values), axis=1))


_ZERO = np.uint64(0)


def hashes_of(values: NDArray[Any]) -> Hashes:
    """Hashes of names or numbers, of their shape; those that are hashes stay."""
    if values.dtype == np.uint64:
        return values
    if values.dtype.kind in "biuf":
        return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    digests = np.fromiter(map(_digest, values.ravel().tolist()), dtype=np.uint64, count=values.size)
    return digests.reshape(values.shape)


@lru_cache(maxsize=1 << 17)  # the same few names come again with every job
def _digest(name: str | None) -> int:
    return int.from_bytes(hashlib.blake2b(str(name).encode(), digest_size=8).digest(), "little")


_NO_NAME = np.uint64(_digest(""))
# Arrays without an axis: numpy takes longer with its own scalars.
_GOLDEN = np.array(0x9E3779B97F4A7C15, np.uint64)
_FACTORS = [np.array(factor, np.uint64) for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)]
_SHIFTS = [np.array(bits, np.uint64) for bits in (30, 27, 31)]


def mix(keys: Hashes) -> Hashes:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of a key depends on every other."""
    keys = keys + _GOLDEN
    keys ^= keys >> _SHIFTS[0]
    keys *= _FACTORS[0]
    keys ^= keys >> _SHIFTS[1]
    keys *= _FACTORS[1]
    keys ^= keys >> _SHIFTS[2]
    return keys


#: One a field of the configuration, or two could exchange values unnoticed.
_FIELD_MARKS = mix(np.arange(1, len(NUMBERS) + len(NAMES) + 1, dtype=np.uint64))
