"""The one way to look keys up: a binary search among sorted 64-bit hashes."""

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Indices

Hashes = NDArray[np.uint64]


def locate(hashes: Hashes, wanted: Hashes) -> tuple[Indices, NDArray[np.bool_]]:
    """Positions of hashes of any shape among (keys,) sorted ones, and whether each is really there.

    >>> locate(np.array([2, 5], np.uint64), np.array([5, 4], np.uint64))
    (array([1, 1]), array([ True, False]))
    """
    if not len(hashes):
        return np.zeros(wanted.shape, np.intp), np.zeros(wanted.shape, bool)
    position = hashes.searchsorted(wanted)
    np.minimum(position, len(hashes) - 1, out=position)
    return position, hashes.take(position) == wanted


def gather(hashes: Hashes, values: NDArray[np.float32], wanted: Hashes, missing: float) -> NDArray[np.float32]:
    """Rows of (keys, columns) values of the wanted hashes, of their shape; `missing` where there are none."""
    if not len(hashes):
        return np.full((*wanted.shape, values.shape[1]), missing, dtype=np.float32)
    position, present = locate(hashes, wanted)
    rows: NDArray[np.float32] = values.take(position, axis=0)
    rows[~present] = missing
    return rows
