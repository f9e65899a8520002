"""What a prediction rests on, and what about it lies outside what was trained on."""

from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from predictor.features.history import STATISTICS
from predictor.features.matrix import Matrix, Pairs
from predictor.manifest import Manifest
from predictor.vocabulary import HARDWARE_TYPE, MODEL_TYPE
from schemas.events import Basis

FAMILY_HISTORY: Basis = "family history"
SIMILAR_JOBS: Basis = "similar jobs"
SPECIFICATION_ONLY: Basis = "specification only"

_COUNT = STATISTICS.index("count")


@dataclass(frozen=True)
class Evidence:
    """For (rows,) pairs: basis, finished attempts that it rests on, and what is outside training."""

    basis: list[Basis]
    observations: list[int]
    outside: list[tuple[str, ...]]


def evidence(pairs: Pairs, matrix: Matrix, manifest: Manifest) -> Evidence:
    """Evidence of each pair.

    The family's own attempts count where there are any, on this hardware type if it ran there; then those
    of the model type; without either, only the specification speaks.
    """
    counts = {kind: np.fmax(found[:, _COUNT], 0).astype(int) for kind, found in pairs.found.items()}
    of_family = np.where(counts["family_hardware"] > 0, counts["family_hardware"], counts["family"])
    observations = np.where(of_family > 0, of_family, counts["model_type"])
    outside = _outside(matrix, manifest, counts["family"] == 0)
    return Evidence(basis(pairs).tolist(), observations.tolist(), outside)


def basis(pairs: Pairs) -> NDArray[np.str_]:
    """(rows,) what each prediction rests on, as a name."""
    known = {kind: ~np.isnan(found[:, _COUNT]) for kind, found in pairs.found.items()}
    return np.where(known["family"], FAMILY_HISTORY, np.where(known["model_type"], SIMILAR_JOBS, SPECIFICATION_ONLY))


def _outside(matrix: Matrix, manifest: Manifest, new_family: NDArray[np.bool_]) -> list[tuple[str, ...]]:
    position = {name: column for column, name in enumerate(manifest.features)}
    unseen = matrix[:, [position[f"{field}_unseen"] for field in (MODEL_TYPE, HARDWARE_TYPE)]] > 0
    ranged = matrix[:, [position[name] for name in manifest.ranges]]
    low, high = np.array([(trained.low, trained.high) for trained in manifest.ranges.values()]).reshape(-1, 2).T
    flags = np.column_stack((new_family, unseen, (ranged < low) | (ranged > high)))
    names = ("family", "model type", "hardware type", *manifest.ranges)
    return [tuple(compress(names, row)) for row in flags.tolist()]
