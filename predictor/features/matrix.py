"""The one function that builds feature rows: a job's candidates at launch, a million attempts at night."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import architecture, configuration, hardware, history, ratios
from leap.predictor.features.batch import HardwareTable, Indices, JobBatch, Names
from leap.predictor.features.history import Imputation, Statistics
from leap.predictor.features.target_encoding import TargetEncoder

#: Raise it whenever a formula changes: rows of another version do not fit the model.
VERSION = 2

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class CandidateRows:
    """Rows to predict: a job and a hardware type each, with the history found for them.

    Attributes
    ----------
    job
        (rows,) positions in `jobs`.
    hardware_type
        (rows,) names.
    found
        Kind of key to (rows, 5) statistics; NaN where there is none.
    """

    jobs: JobBatch
    table: HardwareTable
    job: Indices
    hardware_type: Names
    found: dict[str, Statistics]

    @cached_property
    def hardware(self) -> Indices:
        """(rows,) positions in `table`."""
        return self.table.index(self.hardware_type.tolist())

    def __len__(self) -> int:
        return len(self.job)


def names(vocabulary: TargetEncoder) -> tuple[str, ...]:
    """Names of the columns of `build`."""
    return (
        *configuration.FEATURES,
        *ratios.FEATURES,
        *architecture.NAMES,
        *hardware.FEATURES,
        *history.FEATURES,
        *vocabulary.features,
    )


def categories(vocabulary: TargetEncoder) -> dict[str, tuple[str, ...]]:
    """Category to its feature names, for importance and ablation."""
    return {
        "scale": configuration.FEATURES + ratios.FEATURES,
        "architecture": architecture.NAMES,
        "hardware": hardware.FEATURES,
        "history": history.FEATURES,
        "names": vocabulary.features,
    }


def digest(features: tuple[str, ...]) -> str:
    """SHA-256 over the version and the names in order: an artifact and the code must agree on it."""
    return hashlib.sha256("\n".join((str(VERSION), *features)).encode()).hexdigest()


def build(pairs: CandidateRows, vocabulary: TargetEncoder, imputed: Imputation) -> Matrix:
    """(rows, features) float32 matrix; NaN is missing.

    What depends on the job alone is computed once a job.
    """
    jobs, job = pairs.jobs, pairs.job
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        of_job = np.hstack((configuration.features(jobs), ratios.features(jobs), jobs.architecture))
        of_pair = (
            of_job[job],
            hardware.features(jobs, pairs.table, job, pairs.hardware),
            history.features(pairs.found, jobs.submitted_at[job], imputed),
            vocabulary.encode(jobs, pairs.table, job, pairs.hardware),
        )
        matrix = np.empty((len(pairs), sum(block.shape[1] for block in of_pair)), dtype=np.float32)
        np.concatenate(of_pair, axis=1, out=matrix, casting="unsafe")
    # Beyond float32 is beyond any use: missing, and the same at launch as at night.
    matrix[~np.isfinite(matrix)] = np.nan
    return matrix
