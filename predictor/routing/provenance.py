"""What a prediction rests on, and what about it lies outside what was trained on."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from leap.predictor.artifacts.manifest import Manifest
from leap.predictor.features.batch import Floats
from leap.predictor.features.history import STATISTICS
from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.features.target_encoding import HARDWARE_TYPE, MODEL_TYPE
from leap.schemas.events import Basis

FAMILY_HISTORY: Basis = "family history"
SIMILAR_JOBS: Basis = "similar jobs"
SPECIFICATION_ONLY: Basis = "specification only"

_COUNT = STATISTICS.index("count")
#: A field by another name than its own.
_SPOKEN = {MODEL_TYPE: "model type", HARDWARE_TYPE: "hardware type"}


@dataclass(frozen=True)
class Provenance:
    """For (rows,) pairs: basis, finished attempts that it rests on, and what is outside training."""

    basis: list[Basis]
    observations: list[int]
    outside: list[tuple[str, ...]]


def provenance(pairs: CandidateRows, matrix: Matrix, manifest: Manifest) -> Provenance:
    """Evidence of each pair.

    The family's own attempts count where there are any, on this hardware type if it ran there; then those
    of the model type; without either, only the specification speaks.
    """
    counts = {kind: np.fmax(found[:, _COUNT], 0).astype(int) for kind, found in pairs.found.items()}
    of_family = np.where(counts["family_hardware"] > 0, counts["family_hardware"], counts["family"])
    observations = np.where(of_family > 0, of_family, counts["model_type"])
    outside = _outside(matrix, manifest, counts["family"] == 0)
    return Provenance(basis(pairs).tolist(), observations.tolist(), outside)


def basis(pairs: CandidateRows) -> NDArray[np.str_]:
    """(rows,) what each prediction rests on, as a name."""
    known = {kind: ~np.isnan(found[:, _COUNT]) for kind, found in pairs.found.items()}
    return np.where(known["family"], FAMILY_HISTORY, np.where(known["model_type"], SIMILAR_JOBS, SPECIFICATION_ONLY))


def _outside(matrix: Matrix, manifest: Manifest, new_family: NDArray[np.bool_]) -> list[tuple[str, ...]]:
    trained = _trained(manifest)
    ranged = matrix[:, trained.ranged]
    beyond = (ranged < trained.low) | (ranged > trained.high) | (np.isnan(ranged) & trained.needed)
    flags = np.column_stack((new_family, matrix[:, trained.unseen] > 0, beyond))
    return [tuple(compress(trained.names, row)) for row in flags.tolist()]


@dataclass(frozen=True)
class _Trained:
    """Names of what can be outside; columns that say so, columns with a trained range, and which must be stated."""

    names: tuple[str, ...]
    unseen: list[int]
    ranged: list[int]
    low: Floats
    high: Floats
    needed: NDArray[np.bool_]


@lru_cache(maxsize=4)
def _trained(manifest: Manifest) -> _Trained:
    bounds = np.array([(one.low, one.high) for one in manifest.ranges.values()]).reshape(-1, 2)
    coded = manifest.vocabulary.coded
    return _Trained(
        names=("family", *(_SPOKEN.get(field, field) for field in coded), *manifest.ranges),
        unseen=[manifest.features.index(f"{field}_unseen") for field in coded],
        ranged=[manifest.features.index(name) for name in manifest.ranges],
        low=bounds[:, 0],
        high=bounds[:, 1],
        # Without a batch the usual one is taken: a guess, as no other missing number is.
        needed=np.array([name == "batch_size" and one.low <= one.high for name, one in manifest.ranges.items()]),
    )
