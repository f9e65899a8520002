"""Damage to the arrays of an artifact that its digests do not tell of."""

import hashlib
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Random = np.random.Generator

#: What a damaged number may be, in whatever an array holds.
EXTREMES = (
    0.0,
    -1.0,
    1.0,
    1e-300,
    1e-3,
    1e9,
    1e12,
    -1e12,
    1e38,
    1e300,
    -1e300,
    np.nan,
    np.inf,
    -np.inf,
    2.0**31,
    2.0**62,
)
DTYPES = ("<f8", "<f4", ">f8", "<i8", "<i4", "<u8", "|b1", "<c16", "<f2", "<U3", "|S4", "<M8[s]", "|V8", "|u1")


def values(array: Array, random: Random) -> Array:
    """Some entries become extremes, those of others, or another number near by."""
    changed = array.copy()
    flat = changed.reshape(-1)
    where = random.integers(0, flat.size, size=random.integers(1, 4))
    if array.dtype.kind == "U":
        flat[where] = random.choice(["", "￿" * 3, "zz", str(flat[0])[:1]])
    elif random.random() < 0.6:
        with np.errstate(all="ignore"):
            flat[where] = np.array(random.choice(EXTREMES)).astype(array.dtype)
    else:
        flat[where] = random.permutation(flat)[: len(where)]
    return changed


def bits(array: Array, random: Random) -> Array:
    """Some bytes become others."""
    data = bytearray(np.ascontiguousarray(array).tobytes())
    for _ in range(random.integers(1, 4)):
        data[random.integers(0, len(data))] = random.integers(0, 256)
    return np.frombuffer(bytes(data), array.dtype).reshape(array.shape)


def everywhere(array: Array, random: Random) -> Array:
    """One value in every place."""
    with np.errstate(all="ignore"):
        value = np.zeros((), array.dtype) if array.dtype.kind == "U" else np.array(random.choice(EXTREMES))
        return np.full(array.shape, value.astype(array.dtype))


def cast(array: Array, random: Random) -> Array:
    """Another type."""
    with np.errstate(all="ignore"):
        return np.zeros(array.shape, random.choice(DTYPES)) if random.random() < 0.5 else array.astype(str)


def shape(array: Array, random: Random) -> Array:
    """More dimensions, fewer, or another order."""
    return [array.reshape(-1), array[None], array.T, np.asfortranarray(array), array.reshape(-1)[:1].reshape(())][
        random.integers(0, 5)
    ]


def length(array: Array, random: Random) -> Array:
    """Entries along the first axis go, or come twice."""
    if not array.ndim:
        return np.repeat(array, 2)
    kept = random.integers(0, len(array) + 1)
    return np.concatenate((array, array)) if random.random() < 0.3 else array[:kept]


def order(array: Array, random: Random) -> Array:
    """The same entries in another order."""
    return random.permutation(array) if array.ndim else -array if array.dtype.kind == "f" else array


#: Values more often than the rest, which most loads refuse.
MUTATIONS: tuple[Callable[[Array, Random], Array], ...] = (values, bits) * 2 + (everywhere, cast, shape, length, order)


def torn(data: bytes, random: Random) -> bytes:
    """A file that ends early, or has some bytes changed anywhere, its head included."""
    if random.random() < 0.5:
        return data[: random.integers(0, len(data))]
    changed = bytearray(data)
    for _ in range(random.integers(1, 4)):
        changed[random.integers(0, min(len(changed), 200))] = random.integers(0, 256)
    return bytes(changed)


def mutate(folder: Path, seed: int) -> tuple[str, bytes]:
    """Damage one file of an artifact and put the right digest into its manifest; returns the file as it was."""
    random = np.random.default_rng(seed)
    path = random.choice(sorted(folder.glob("*.npy")))
    before = path.read_bytes()
    if random.random() < 0.1:
        data = torn(before, random)
    else:
        array = np.load(path)
        mutation = MUTATIONS[random.integers(0, len(MUTATIONS))]
        buffer = BytesIO()
        np.save(buffer, mutation(array, random) if array.size else array[None], allow_pickle=False)
        data = buffer.getvalue()
    write(folder, path.name, data)
    return path.name, before


def write(folder: Path, name: str, data: bytes) -> None:
    """Write a file of an artifact, and its digest."""
    (folder / name).unlink()  # never the file that an earlier artifact is mapped from
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))
