"""Training data of a window: rows with what was known at launch, in the order of submission."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.artifacts.manifest import Range
from leap.predictor.features import architecture, configuration, matrix, ratios
from leap.predictor.features.batch import Floats, HardwareTable, Rows
from leap.predictor.features.history import SECONDS_PER_DAY, Imputation
from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.features.target_encoding import TargetEncoder, fit
from leap.predictor.history.definitions import Definitions
from leap.predictor.models.structured.model import rows_of
from leap.retrainer.dataset.feature_table import jobs, log_target
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.schemas.events import THROUGHPUT

#: Features whose trained range is kept, to say when a job lies outside it.
RANGED: tuple[str, ...] = configuration.FEATURES + ratios.FEATURES + architecture.TOTALS
#: No value lies in it.
_EMPTY = Range(low=1.0, high=-1.0)


@dataclass(frozen=True)
class TrainingSet:
    """Attempts with a measured target, ready for a model.

    Attributes
    ----------
    table
        (n,) rows of the feature table, in the order of submission.
    pairs
        Each attempt on the hardware type that it ran on.
    y
        (n,) ln of the target.
    """

    table: pd.DataFrame
    pairs: CandidateRows
    y: Floats

    def __len__(self) -> int:
        return len(self.y)

    @property
    def submitted_day(self) -> NDArray[np.int64]:
        """(n,) days from the epoch."""
        return np.floor(self.pairs.jobs.submitted_at / SECONDS_PER_DAY).astype(np.int64)

    @property
    def rows(self) -> Rows:
        """(n,) values by name, as the structured recipe and the chain of medians take them."""
        return rows_of(self.pairs.jobs, self.pairs.job, self.pairs.hardware_type)

    def where(self, kept: NDArray[np.bool_]) -> "TrainingSet":
        """The attempts of a (n,) mask."""
        rows = np.flatnonzero(kept)
        pairs = self.pairs
        history = {kind: statistics[rows] for kind, statistics in pairs.history.items()}
        taken = CandidateRows(
            pairs.jobs.take(rows), pairs.table, np.arange(len(rows)), pairs.hardware_type[rows], history
        )
        return TrainingSet(self.table.iloc[rows].reset_index(drop=True), taken, self.y[rows])

    def described(self, definitions: Definitions) -> "TrainingSet":
        """The attempts, each without a definition with the one that is known of its model type."""
        return replace(self, pairs=replace(self.pairs, jobs=definitions.filled(self.pairs.jobs)))

    def matrix(self, vocabulary: TargetEncoder, imputed: Imputation) -> Matrix:
        """(n, features) float32, by the function that serves."""
        return matrix.build(self.pairs, vocabulary, imputed)


def build_training_set(
    rows: pd.DataFrame, table: HardwareTable, statistics: PointInTimeStatistics, target: str
) -> TrainingSet:
    """Rows without a positive target are dropped; nothing is clipped."""
    y = log_target(rows, target)
    rows = rows[~np.isnan(y)].sort_values(["submitted_at", "attempt_id"], kind="stable").reset_index(drop=True)
    history = statistics.at_launch(rows)
    position = np.arange(len(rows))
    pairs = CandidateRows(jobs(rows), table, position, rows["hardware_type"].to_numpy(dtype=object), history)
    return TrainingSet(rows, pairs, log_target(rows, target))


def attempts_of(rows: pd.DataFrame, table: HardwareTable, target: str = THROUGHPUT) -> TrainingSet:
    """As `build_training_set`, with the history that the rows themselves are."""
    return build_training_set(rows, table, PointInTimeStatistics(rows, log_target(rows, target)), target)


def vocabulary_of(attempts: TrainingSet) -> TargetEncoder:
    """Codes learned from the window."""
    return fit(attempts.pairs.jobs, attempts.pairs.table, attempts.pairs.hardware, attempts.y)


def imputed_of(attempts: TrainingSet) -> Imputation:
    """Mean and deviation over the window stand for a key without history."""
    return Imputation(float(attempts.y.mean()), float(attempts.y.std()) if len(attempts) > 1 else 1.0)


def ranges_of(features: Matrix, names: tuple[str, ...]) -> dict[str, Range]:
    """Least and greatest value of each ranged feature; of one that is always missing, a range that has no value."""
    ranges = {}
    for name in RANGED:
        column = features[:, names.index(name)]
        column = column[~np.isnan(column)]
        ranges[name] = Range(low=float(column.min()), high=float(column.max())) if len(column) else _EMPTY
    return ranges
