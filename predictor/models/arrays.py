"""Named arrays of a model among the files of an artifact: written without pickle, and checked before anything is used.

``<kind>.json`` has the names; array n of them is in ``<kind>_n.npy``, to be memory-mapped.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leap.predictor.storage.memmap import mapped

MAX_ARRAYS = 96
#: Beyond any number that a model learns, and so small that products of several stay finite.
LARGEST = 1e12

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ArraySpec:
    """What one array must be.

    Attributes
    ----------
    dtype
        Kind and bytes of an entry as numpy writes them; "U" is text of any width.
    shape
        A size, the name of one that all arrays agree on, or ``name+1``.
    low, high
        Least and greatest value.
    missing
        Whether NaN may stand in it.
    increasing
        Whether each entry along the first axis is above the one before.
    optional
        Whether artifacts of earlier versions lack it.
    """

    dtype: str
    shape: tuple[str | int, ...]
    low: float = -LARGEST
    high: float = LARGEST
    missing: bool = False
    increasing: bool = False
    optional: bool = False


def save_arrays(folder: Path, kind: str, arrays: Arrays) -> None:
    """Write named arrays."""
    (folder / f"{kind}.json").write_bytes(msgspec.json.encode(list(arrays)))
    for number, array in enumerate(arrays.values()):
        np.save(folder / f"{kind}_{number}.npy", array, allow_pickle=False)


def load_arrays(folder: Path, kind: str, specs: Mapping[str, ArraySpec]) -> dict[str, NDArray[Any]]:
    """Memory-map what `save_arrays` wrote; every value is read once, to be checked.

    Raises
    ------
    ValueError
        If an array is missing, unknown or not what its specification says; the message names its file.
    """
    head = f"{kind}.json"
    try:
        names = msgspec.json.decode((folder / head).read_bytes(), type=list[str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{head}: {error}") from error
    if len(names) > MAX_ARRAYS or not all(re.fullmatch(r"[a-z_]+/[a-z_.0-9]+", name) for name in names):
        raise ValueError(f"{head}: up to {MAX_ARRAYS} names of arrays are expected")
    required = {name for name, spec in specs.items() if not spec.optional}
    if len(set(names)) != len(names) or not required <= set(names) <= specs.keys():
        wrong = sorted(required.difference(names) | set(names).difference(specs)) or "some twice"
        raise ValueError(f"{head}: other arrays than this version reads: {wrong}; retrain or upgrade")
    arrays, sizes = {}, dict[str, int]()
    for number, name in enumerate(names):
        array = mapped(folder / f"{kind}_{number}.npy")
        if problem := problem_of(array, specs[name], sizes):
            raise ValueError(f"{kind}_{number}.npy ({name}): {problem}")
        arrays[name] = array
    return arrays


def problem_of(array: NDArray[Any], spec: ArraySpec, sizes: dict[str, int]) -> str:
    """What is wrong with an array, or nothing; sizes that it is the first to have are noted."""
    kind = array.dtype.kind if spec.dtype == "U" else array.dtype.str.lstrip("<|=")
    expected = "b1" if spec.dtype == "?" else spec.dtype
    if kind != expected or not _fits(array.shape, spec.shape, sizes):
        shape = ", ".join(f"{size}={sizes[size]}" if size in sizes else str(size) for size in spec.shape)
        return f"{array.dtype} {array.shape} where {expected} ({shape}) is expected"
    if spec.dtype == "U":
        if not array.dtype.isnative or not array.dtype.itemsize:
            return f"text as {array.dtype.str}"
        if array.size and np.ascontiguousarray(array).view(np.uint32).max() > sys.maxunicode:
            return "text with what is no character"
    elif spec.dtype not in ("?", "u8"):
        outside = ~((array >= spec.low) & (array <= spec.high))
        if np.any(outside & ~np.isnan(array) if spec.missing else outside):
            return f"values that are not from {spec.low:g} to {spec.high:g}"
    if spec.increasing and np.any(array[1:] <= array[:-1]):
        return "entries that do not increase"
    return ""


def _fits(shape: tuple[int, ...], expected: tuple[str | int, ...], sizes: dict[str, int]) -> bool:
    if len(shape) != len(expected):
        return False
    for size, wanted in zip(shape, expected, strict=True):
        if isinstance(wanted, str):
            name, _, more = wanted.partition("+")
            if size < int(more or 0) or size != sizes.setdefault(name, size - int(more or 0)) + int(more or 0):
                return False
        elif size != wanted:
            return False
    return True
