"""Running statistics frozen into an artifact: sorted hashes of the keys beside float32 statistics.

Serving looks a key up by binary search in two memory-mapped arrays, so it needs no store and no network.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Indices, JobBatch
from leap.predictor.features.history import STATISTICS, Statistics, pooled
from leap.predictor.history.sorted_hashes import Hashes, gather
from leap.predictor.storage.memmap import mapped

HASHES_FILE = "history_hashes.npy"
STATISTICS_FILE = "history_statistics.npy"
MAX_KEYS = 4_000_000
#: Beyond any statistic.
LARGEST = 1e12
#: Ends the kind of a key whose statistics are of ln throughput per accelerator.
PER_ACCELERATOR = "_per_accelerator"
#: Exclusive-or of the hash of such a key and that of the same key without it.
PER_ACCELERATOR_MARK = 0x9E3779B97F4A7C15


def key_hash(kind: str, first: str, second: str = "") -> int:
    """64-bit hash of one key; the length of `first` keeps ("ab", "c") and ("a", "bc") apart.

    Over 750,000 keys the chance that any two collide is 1.5e-8 (birthday bound n^2 / 2^65).
    """
    plain = kind.removesuffix(PER_ACCELERATOR)
    hashed = int.from_bytes(_key_digest(_key_prefix(plain, first) + second.encode()), "little")
    return hashed if plain == kind else hashed ^ PER_ACCELERATOR_MARK


def _key_prefix(kind: str, first: str) -> bytes:
    return f"{kind}\0{len(first)}\0{first}".encode()


def _key_digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=8).digest()


@dataclass(frozen=True)
class Snapshot:
    """Statistics by key hash.

    Attributes
    ----------
    hashes
        (keys,) sorted, distinct.
    statistics
        (keys, 5) in the order of `STATISTICS`.
    """

    REQUIRED: ClassVar[tuple[str, ...]] = (HASHES_FILE, STATISTICS_FILE)

    hashes: Hashes
    statistics: Statistics

    @classmethod
    def empty(cls) -> "Snapshot":
        """A snapshot without keys: every family is a cold start."""
        return cls(np.empty(0, np.uint64), np.empty((0, len(STATISTICS)), np.float32))

    @classmethod
    def of(cls, hashes: Hashes, statistics: NDArray[np.floating]) -> "Snapshot":
        """Sort; of keys that are there twice the one with more observations stays."""
        order = np.lexsort((-statistics[:, 0], hashes))
        kept = order[np.unique(hashes[order], return_index=True)[1]]
        return cls(hashes[kept], np.ascontiguousarray(statistics[kept], dtype=np.float32))

    def __len__(self) -> int:
        return len(self.hashes)

    def lookup(self, hashes: Hashes) -> Statistics:
        """(n, 5) statistics; a row of NaN for a key that is not here."""
        return gather(self.hashes, self.statistics, hashes, np.nan)

    def find(self, jobs: JobBatch, job: Indices, hardware_types: Sequence[str]) -> dict[str, Statistics]:
        """Kind to (rows, 5) statistics of pairs of a job, by its position in `jobs`, and a hardware type.

        Those per accelerator count as what they are with the accelerators of the job.
        """
        families, count = jobs.family.tolist(), len(jobs)
        keys = [_key_prefix("family", name) for name in families]
        keys += [_key_prefix("model_type", name) for name in jobs.model_type.tolist()]
        prefixes = [_key_prefix("family_hardware", name) for name in families]
        pairs = zip(job.tolist(), map(str.encode, hardware_types), strict=True)
        keys += [prefixes[position] + hardware_type for position, hardware_type in pairs]
        hashes = np.frombuffer(b"".join(map(_key_digest, keys)), "<u8")
        plain, per_accelerator = self.lookup(np.array((hashes, hashes ^ np.uint64(PER_ACCELERATOR_MARK))))
        accelerators = jobs.accelerators
        statistics = pooled(plain, per_accelerator, np.concatenate((accelerators, accelerators, accelerators[job])))
        return {
            "family": statistics.take(job, axis=0),
            "family_hardware": statistics[2 * count :],
            "model_type": statistics.take(job + count, axis=0),
        }

    def save(self, folder: Path) -> None:
        """Write both arrays without pickle."""
        np.save(folder / HASHES_FILE, self.hashes, allow_pickle=False)
        np.save(folder / STATISTICS_FILE, self.statistics, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> "Snapshot":
        """Memory-map what `save` wrote.

        Raises
        ------
        ValueError
            If an array has not the shape, type or order that it must have.
        """
        hashes, statistics = (mapped(folder / name) for name in cls.REQUIRED)
        if hashes.dtype != np.uint64 or hashes.ndim != 1 or len(hashes) > MAX_KEYS:
            raise ValueError(f"{HASHES_FILE}: at most {MAX_KEYS} 64-bit hashes expected, found {hashes.shape}")
        if statistics.dtype != np.float32 or statistics.shape != (len(hashes), len(STATISTICS)):
            raise ValueError(f"{STATISTICS_FILE}: {len(hashes)} x 5 float32 expected, found {statistics.shape}")
        if np.any(hashes[1:] <= hashes[:-1]):
            raise ValueError(f"{HASHES_FILE}: hashes are not sorted; the file is torn")
        least = np.where(np.array(STATISTICS) == "count", 0.0, -LARGEST)
        known = np.isin(STATISTICS, "deviation") & np.isnan(statistics)  # of one attempt there is none
        if not np.all((statistics >= least) & (statistics <= LARGEST) | known):
            raise ValueError(f"{STATISTICS_FILE}: statistics that are none; the file is damaged")
        return cls(hashes, statistics)
