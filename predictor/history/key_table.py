"""Statistics by key, several kinds of keys in one sorted table: all keys of a batch are found by one search."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.history.hash_index import mix
from leap.predictor.history.sorted_hashes import Hashes, gather


@dataclass(frozen=True)
class KeyTable:
    """Statistics by kind and hash of a key.

    Attributes
    ----------
    hashes
        (keys,) sorted; the hash of a key, exclusive or the mark of its kind.
    values
        (keys, columns) float32.
    """

    hashes: Hashes
    values: NDArray[np.float32]

    @classmethod
    def of(cls, kinds: Sequence[tuple[Hashes, NDArray[np.floating]]]) -> "KeyTable":
        """Of each kind its (keys,) hashes and (keys, columns) values; columns that a kind has not are zero."""
        columns = max(values.shape[1] for _, values in kinds)
        padded = [np.pad(values, ((0, 0), (0, columns - values.shape[1]))) for _, values in kinds]
        marked = np.concatenate([hashes ^ mark for (hashes, _), mark in zip(kinds, _marks(len(kinds)), strict=True)])
        order = np.argsort(marked)
        return cls(marked[order], np.concatenate(padded).astype(np.float32)[order])

    @classmethod
    def from_arrays(cls, hashes: NDArray[Any], values: NDArray[Any], columns: int) -> "KeyTable":
        """The table that was stored.

        Raises
        ------
        ValueError
            If the arrays do not belong together.
        """
        if hashes.dtype != np.uint64 or hashes.ndim != 1 or values.shape != (len(hashes), columns):
            raise ValueError(f"{len(hashes)} hashes with {columns} values each expected, found {values.shape}")
        return cls(hashes, values)

    def __len__(self) -> int:
        return len(self.hashes)

    def find(self, wanted: Sequence[Hashes], missing: float) -> Floats:
        """(kinds, n, columns) values of (n,) keys of each kind; `missing` where there are none."""
        marked = np.array(wanted)
        marked ^= _marks(len(marked))[:, None]
        return gather(self.hashes, self.values, marked, missing).astype(np.float64)


@cache
def _marks(kinds: int) -> Hashes:
    """(kinds,) one a kind, or equal keys of two kinds could not be told apart."""
    return mix(np.arange(1, kinds + 1, dtype=np.uint64))
