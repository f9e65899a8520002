"""Keys of attempts as hashes: many rows at once, and looked up by binary search."""

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices, JobBatch, Rows
from leap.predictor.history.snapshot import Hashes


def find(hashes: Hashes, wanted: Hashes) -> tuple[Indices, NDArray[np.bool_]]:
    """(n,) places of hashes among sorted ones, and whether each is really there."""
    if not len(hashes):
        return np.zeros(len(wanted), np.intp), np.zeros(len(wanted), bool)
    place = np.minimum(hashes.searchsorted(wanted), len(hashes) - 1)
    return place, hashes[place] == wanted


def gather(hashes: Hashes, values: NDArray[np.floating], wanted: Hashes, missing: float) -> Floats:
    """(n, columns) rows of `values` that belong to the wanted hashes; `missing` where there is none."""
    if not len(hashes):
        return np.full((len(wanted), values.shape[1]), missing)
    place, known = find(hashes, wanted)
    return np.where(known[:, None], values[place], np.float64(missing))


def configurations(jobs: JobBatch) -> Hashes:
    """(n,) hashes of the launch configuration: jobs of equal numbers and names have one; `extra` is left out."""
    values = np.hstack((_hash(jobs.numbers), _hash(jobs.names)))
    places = np.arange(1, values.shape[1] + 1, dtype=np.uint64)  # or two fields could change values unnoticed
    return _mix(np.bitwise_xor.reduce(_mix(values ^ _mix(places)), axis=1))


#: Columns that keys are made of.
COLUMNS: tuple[str, ...] = (
    "family",
    "model_type",
    "hardware_type",
    "configuration",
    "accelerators",
    "batch_size",
)


class Keys:
    """Hashes of (n,) rows by what stands in some of their columns; what several keys begin with is hashed once."""

    def __init__(self, rows: Rows) -> None:
        self._columns = {name: _hash(np.asarray(rows[name])) for name in COLUMNS if name in rows}
        self._named = np.asarray(rows.get("family", ""), dtype=object) != ""
        self._mixed: dict[tuple[str, ...], Hashes] = {(): np.zeros(1, dtype=np.uint64)}

    def of(self, names: tuple[str, ...]) -> Hashes:
        """(n,) hashes of some columns; 0 for a row without a family where the key has one."""
        for end in range(1, len(names) + 1):
            if names[:end] not in self._mixed:
                before, column = self._mixed[names[: end - 1]], self._columns.get(names[end - 1])
                self._mixed[names[:end]] = _mix(before if column is None else before ^ column)
        keys = self._mixed[names]
        return np.where(self._named, keys, _ZERO) if "family" in names else keys


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


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def _mix(keys: Hashes) -> Hashes:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of a key depends on every other."""
    keys = keys + _GOLDEN
    keys ^= keys >> _SHIFTS[0]
    keys *= _FACTORS[0]
    keys ^= keys >> _SHIFTS[1]
    keys *= _FACTORS[1]
    keys ^= keys >> _SHIFTS[2]
    return keys
