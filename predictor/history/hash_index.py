"""Keys of attempts as hashes, many rows at once."""

import hashlib
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import NAMES, NUMBERS, JobBatch, Rows
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
        (n,) `column_hashes` of the rows.
    keys
        Those that will be asked for: hashed side by side, in as many steps as the longest has columns.
    """

    def __init__(self, columns: Mapping[str, Hashes], keys: tuple[KeyColumns, ...] = ()) -> None:
        self._columns = columns
        count = len(next(iter(columns.values())))
        self._mixed: dict[KeyColumns, Hashes] = {(): np.zeros(count, dtype=np.uint64)}
        family = columns.get("family")
        self._named = np.zeros(count, dtype=bool) if family is None else family != _NO_NAME
        self._all_named = bool(self._named.all())
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
        return hashes if self._all_named or "family" not in names else np.where(self._named, hashes, _ZERO)

    def _mix_all(self, keys: tuple[KeyColumns, ...]) -> None:
        for prefixes in _prefixes(keys):
            parts = [self._mixed[names[:-1]] ^ self._columns.get(names[-1], _ZERO) for names in prefixes]
            self._mixed.update(zip(prefixes, mix(np.array(parts)), strict=True))


@cache
def _prefixes(keys: tuple[KeyColumns, ...]) -> list[tuple[KeyColumns, ...]]:
    """What the keys begin with, once each, by number of columns."""
    longest = max(map(len, keys), default=0)
    return [tuple(dict.fromkeys(key[:size] for key in keys if len(key) >= size)) for size in range(1, longest + 1)]


def column_hashes(rows: Rows) -> dict[str, Hashes]:
    """(n,) hashes of the columns that keys are made of; those that are hashes stay."""
    return {name: _hash(np.asarray(rows[name])) for name in COLUMNS if name in rows}


def configurations(jobs: JobBatch) -> Hashes:
    """(n,) hashes of the launch configuration: jobs of equal numbers and names have one; `extra` is left out."""
    values = np.hstack((_hash(jobs.numbers), _hash(jobs.names)))
    values ^= _FIELD_MARKS
    return mix(np.bitwise_xor.reduce(mix(values), axis=1))


_ZERO = np.uint64(0)


def _hash(values: NDArray[Any]) -> Hashes:
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
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


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
