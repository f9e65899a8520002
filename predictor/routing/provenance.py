"""What a prediction rests on, and what about it lies outside what was trained on."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from leap.predictor.artifacts.manifest import Manifest
from leap.predictor.features.batch import Floats, HardwareTable, Indices
from leap.predictor.features.history import KINDS, STATISTICS, Statistics
from leap.predictor.features.matrix import OF_JOB, CandidateRows, RowFeatures
from leap.predictor.features.target_encoding import HARDWARE_TYPE, MODEL_TYPE, VENDOR, TargetEncoder, of_hardware
from leap.schemas.events import Basis

FAMILY_HISTORY: Basis = "family history"
SIMILAR_JOBS: Basis = "similar jobs"
SPECIFICATION_ONLY: Basis = "specification only"

_BASES = np.array([FAMILY_HISTORY, SIMILAR_JOBS, SPECIFICATION_ONLY])
_COUNT = STATISTICS.index("count")
#: A field by another name than its own.
_SPOKEN = {MODEL_TYPE: "model type", HARDWARE_TYPE: "hardware type"}


@dataclass(frozen=True)
class Provenance:
    """For (rows,) candidates: basis, finished attempts, how many of them here, and what is outside training."""

    basis: NDArray[np.str_]
    observations: NDArray[np.int64]
    here: NDArray[np.int64]
    outside: list[tuple[str, ...]]


def provenance(features: RowFeatures, manifest: Manifest) -> Provenance:
    """Provenance of each row: the family's own attempts where there are any, else those of the model type."""
    counts = _counts(features.rows)
    family, here, model_type = np.fmax(counts, 0).astype(np.int64)
    observations = np.where(family > 0, family, model_type)
    return Provenance(_basis(counts), observations, here, _outside(features, manifest, family == 0))


def basis(rows: CandidateRows) -> NDArray[np.str_]:
    """(rows,) what each prediction rests on, as a name."""
    return _basis(_counts(rows))


def _basis(counts: Statistics) -> NDArray[np.str_]:
    cold_family, _, cold_model_type = np.isnan(counts)
    return np.asarray(_BASES.take(cold_family * (1 + cold_model_type.astype(np.intp))))


def _counts(rows: CandidateRows) -> Statistics:
    """(kinds, rows) finished attempts by the keys of `KINDS`; NaN where there are none."""
    return np.array([rows.history[kind][:, _COUNT] for kind in KINDS])


def _outside(features: RowFeatures, manifest: Manifest, new_family: NDArray[np.bool_]) -> list[tuple[str, ...]]:
    """Family, model type, hardware type and vendor, other names, then ranges: most of it is the same for a job."""
    rows, trained = features.rows, _trained(manifest)
    unseen = list(zip(*manifest.vocabulary.unseen(rows.jobs).values(), strict=True))
    ranged = features.of_job[:, trained.ranged]
    beyond = (ranged < trained.low) | (ranged > trained.high) | (np.isnan(ranged) & trained.needed)
    model_type = [_MODEL_TYPE if flags[0] else () for flags in unseen]
    others = [
        tuple(compress(trained.others, (*flags[1:], *over)))
        for flags, over in zip(unseen, beyond.tolist(), strict=True)
    ]
    hardware_outside = _hardware_outside(manifest.vocabulary, rows.table)
    return [
        (_FAMILY if new else ()) + model_type[job] + hardware_outside[hardware] + others[job]
        for new, job, hardware in zip(new_family.tolist(), rows.job.tolist(), rows.hardware.tolist(), strict=True)
    ]


_FAMILY, _MODEL_TYPE = ("family",), (_SPOKEN[MODEL_TYPE],)


@lru_cache(maxsize=4)
def _hardware_outside(vocabulary: TargetEncoder, table: HardwareTable) -> list[tuple[str, ...]]:
    """Of every hardware type, what of it and its vendor is outside training."""
    names = (_SPOKEN[HARDWARE_TYPE], VENDOR)
    flags = np.column_stack([codes_and_unseen[:, 1] > 0 for codes_and_unseen in of_hardware(vocabulary, table)])
    return [tuple(compress(names, row)) for row in flags.tolist()]


@dataclass(frozen=True)
class _Trained:
    """Names of what can be outside, but for family, model and hardware type; columns with a range.

    `ranged` are columns of `RowFeatures.of_job`; `needed` says which of them a job must state.
    """

    others: tuple[str, ...]
    ranged: Indices
    low: Floats
    high: Floats
    needed: NDArray[np.bool_]


@lru_cache(maxsize=4)
def _trained(manifest: Manifest) -> _Trained:
    bounds = np.array([(limits.low, limits.high) for limits in manifest.ranges.values()]).reshape(-1, 2)
    names = [field for field in manifest.vocabulary.coded if field not in (MODEL_TYPE, HARDWARE_TYPE, VENDOR)]
    return _Trained(
        others=(*names, *manifest.ranges),
        ranged=np.array([OF_JOB.index(name) for name in manifest.ranges], dtype=np.intp),
        low=bounds[:, 0],
        high=bounds[:, 1],
        # Without a batch the usual one is taken: a guess, as no other missing number is.
        needed=np.array(
            [name == "batch_size" and limits.low <= limits.high for name, limits in manifest.ranges.items()]
        ),
    )
