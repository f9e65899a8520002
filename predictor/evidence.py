"""What a prediction rests on, and what about it lies outside what was trained on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.features.history import STATISTICS
from predictor.features.matrix import Matrix, Pairs
from predictor.jobs import HardwareTable
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
    counts = {kind: np.nan_to_num(found[:, _COUNT]).astype(int) for kind, found in pairs.found.items()}
    of_family = np.where(counts["family_hardware"] > 0, counts["family_hardware"], counts["family"])
    observations = np.where(of_family > 0, of_family, counts["model_type"])
    outside = _outside(pairs, matrix, manifest, counts["family"])
    return Evidence(basis(pairs).tolist(), observations.tolist(), outside)


def basis(pairs: Pairs) -> NDArray[np.str_]:
    """(rows,) what each prediction rests on, as a name."""
    known = {kind: ~np.isnan(found[:, _COUNT]) for kind, found in pairs.found.items()}
    return np.where(known["family"], FAMILY_HISTORY, np.where(known["model_type"], SIMILAR_JOBS, SPECIFICATION_ONLY))


def _outside(pairs: Pairs, matrix: Matrix, manifest: Manifest, of_family: NDArray[Any]) -> list[tuple[str, ...]]:
    known = manifest.vocabulary.codes
    strange = {
        "family": of_family == 0,
        "model type": ~_known(pairs.jobs.model_type.tolist(), known[MODEL_TYPE])[pairs.job],
        "hardware type": ~_trained_on(pairs.table, known[HARDWARE_TYPE])[pairs.hardware],
    }
    for name, trained in manifest.ranges.items():
        column = matrix[:, manifest.features.index(name)]
        strange[name] = (column < trained.low) | (column > trained.high)
    flagged = {name: rows for name, rows in strange.items() if rows.any()}
    return [tuple(name for name, rows in flagged.items() if rows[row]) for row in range(len(pairs))]


def _known(names: list[str], codes: dict[str, int]) -> NDArray[np.bool_]:
    return np.array([name in codes for name in names], dtype=bool)


def _trained_on(table: HardwareTable, codes: dict[str, int]) -> NDArray[np.bool_]:
    return _known([*table.names, ""], codes)
