"""Keys of attempts as hashes: many rows at once, and looked up by binary search."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.jobs import Floats, Indices, Jobs
from predictor.kernel import Rows
from predictor.snapshot import Hashes


def find(hashes: Hashes, wanted: Hashes) -> tuple[Indices, NDArray[np.bool_]]:
    """(n,) places of hashes among sorted ones, and whether each is really there."""
    if not len(hashes):
        return np.zeros(len(wanted), np.intp), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
    return place, hashes[place] == wanted


def gather(hashes: Hashes, values: NDArray[np.floating], wanted: Hashes, missing: float) -> Floats:
    """(n, columns) rows of `values` that belong to the wanted hashes; `missing` where there is none."""
    place, known = find(hashes, wanted)
    found = np.full((len(wanted), values.shape[1]), missing)
    found[known] = values[place[known]]
    return found


def configurations(jobs: Jobs) -> Hashes:
    """(n,) hashes of the launch configuration: jobs of equal numbers and names have one; `extra` is left out."""
    keys = np.zeros(len(jobs), dtype=np.uint64)
    for column in (*jobs.numbers.T, *jobs.names.T):
        keys = _mix(keys ^ _hash(column))
    return keys


#: Columns that keys are made of.
COLUMNS: tuple[str, ...] = (
    "family",
    "model_type",
    "hardware_type",
    "configuration",
    "accelerators",
    "batch_size",
)
Hashed = Mapping[str, Hashes]


def hashed(rows: Rows) -> Hashed:
    """Column to (n,) hashes of its values; a family that is not named is 0, a column that is not there is left out."""
    columns = {name: _hash(np.asarray(rows[name])) for name in COLUMNS if name in rows}
    if "family" in columns:
        columns["family"] = np.where(np.asarray(rows["family"], dtype=object) == "", _ZERO, columns["family"])
    return columns


def key_hashes(columns: Hashed, names: tuple[str, ...]) -> Hashes:
    """(n,) hashes of what stands in some columns; 0 for a row without a family where the key has one."""
    keys: Hashes = np.zeros(1, dtype=np.uint64)
    for name in names:
        keys = _mix(keys ^ columns[name]) if name in columns else _mix(keys)
    if "family" in names:
        keys = np.where(columns["family"] == _ZERO, _ZERO, keys)
    return keys


_ZERO = np.uint64(0)


def _hash(values: NDArray[Any]) -> Hashes:
    if values.dtype == np.uint64:
        return values
    if values.dtype.kind in "biuf":
        return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    return np.fromiter(map(_digest, values.tolist()), dtype=np.uint64, count=len(values))


@lru_cache(maxsize=1 << 17)  # the same few names come again with every job
def _digest(name: str | None) -> int:
    return int.from_bytes(hashlib.blake2b(str(name).encode(), digest_size=8).digest(), "little")


def _mix(keys: Hashes) -> Hashes:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of a key depends on every other."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
