"""The one function that builds feature rows: a job's candidates at launch, a million attempts at night."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import architecture, configuration, hardware, history, ratios
from leap.predictor.features.batch import Floats, HardwareTable, Indices, JobBatch, Names
from leap.predictor.features.history import Imputation, Statistics
from leap.predictor.features.target_encoding import TargetEncoder

#: Raise it whenever a formula changes: rows of another version do not fit the model.
VERSION = 2

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class CandidateRows:
    """Rows to predict: a job and a hardware type each, with the history that there is of them.

    Attributes
    ----------
    job
        (rows,) positions in `jobs`.
    hardware_type
        (rows,) names.
    history
        Kind of key to (rows, 5) statistics; NaN where there is none.
    """

    jobs: JobBatch
    table: HardwareTable
    job: Indices
    hardware_type: Names
    history: dict[str, Statistics]

    @cached_property
    def hardware(self) -> Indices:
        """(rows,) positions in `table`."""
        return self.table.index(self.hardware_type.tolist())

    def __len__(self) -> int:
        return len(self.job)


def names(vocabulary: TargetEncoder) -> tuple[str, ...]:
    """Names of the columns of `build`."""
    return (
        *OF_JOB,
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


def build(rows: CandidateRows, vocabulary: TargetEncoder, imputed: Imputation) -> Matrix:
    """(rows, features) float32 matrix; NaN is missing."""
    return RowFeatures(rows, vocabulary, imputed).matrix


@dataclass(frozen=True)
class RowFeatures:
    """Features of candidate rows, each block built when it is first read."""

    rows: CandidateRows
    vocabulary: TargetEncoder
    imputed: Imputation

    @cached_property
    def of_job(self) -> Matrix:
        """(jobs, len(OF_JOB)): what depends on the job alone."""
        jobs = self.rows.jobs
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            blocks = configuration.features(jobs), ratios.features(jobs), jobs.architecture
            return _to_float32(np.concatenate(blocks, axis=1))

    @cached_property
    def history(self) -> Matrix:
        """(rows, len(history.FEATURES))."""
        rows = self.rows
        return _to_float32(history.features(rows.history, rows.jobs.submitted_at[rows.job], self.imputed))

    @cached_property
    def matrix(self) -> Matrix:
        """(rows, features): all of them, in the order of `names`."""
        rows = self.rows
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            of_hardware = hardware.features(rows.jobs, rows.table, rows.job, rows.hardware)
        codes = self.vocabulary.encode(rows.jobs, rows.table, rows.job, rows.hardware)
        return np.hstack((self.of_job[rows.job], _to_float32(of_hardware), self.history, _to_float32(codes)))


#: Features that depend on the job alone: the first columns of `build`.
OF_JOB: tuple[str, ...] = (*configuration.FEATURES, *ratios.FEATURES, *architecture.NAMES)


def _to_float32(values: Floats) -> Matrix:
    """Beyond float32 is beyond any use: missing, and the same at launch as at night."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrowed = values.astype(np.float32)
    np.copyto(narrowed, np.nan, where=~np.isfinite(narrowed))
    return narrowed
