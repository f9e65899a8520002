"""Estimators that stand elsewhere, behind the interface of a family."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import pandas as pd

from leap.predictor.features import architecture, configuration, hardware, history, matrix, ratios
from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import Matrix
from leap.predictor.features.target_encoding import TargetEncoder
from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.serving import Prediction, TreesModel
from leap.retrainer.dataset.training_set import TrainingSet, imputed_of, vocabulary_of
from leap.retrainer.evaluation import rules
from leap.retrainer.evaluation.lookup_table import LookupTable
from leap.retrainer.evaluation.median_chain import ChainOfMedians
from leap.retrainer.night.tree_arrays import serving_form
from leap.schemas.hardware import SPECIFICATIONS

if TYPE_CHECKING:
    from leap.retrainer.ablation.baselines.gbdt import Rival  # group ablation

#: Groups of columns of the feature matrix, in the order of the published steps. What joins hardware and model
#: comes with the architecture, without which it is missing.
GROUPS = ("configuration", "history", "ratios", "architecture", "finer history")


def columns_of(groups: Sequence[str], vocabulary: TargetEncoder) -> list[int]:
    """Positions of the columns of some of `GROUPS`."""
    of_family = tuple(name for name in history.FEATURES if name.startswith("family_") and "hardware" not in name)
    names = {
        "configuration": (*configuration.FEATURES, *SPECIFICATIONS, *vocabulary.features),
        "history": of_family,
        "ratios": ratios.FEATURES,
        "architecture": (*architecture.NAMES, *hardware.JOINT),
        "finer history": tuple(name for name in history.FEATURES if name not in of_family),
    }
    wanted = {name for group in groups for name in names[group]}
    return [position for position, name in enumerate(matrix.names(vocabulary)) if name in wanted]


class OverMatrix(Protocol):
    """What learns from a feature matrix."""

    def fit(self, X: Matrix, y: Floats) -> object:
        """Learn from rows in time order."""

    def predict(self, X: Matrix) -> Floats:
        """ln throughput of each row."""


class OnMatrix:
    """A learner over groups of the columns of the feature matrix."""

    learner: OverMatrix

    def __init__(self, learner: OverMatrix, groups: Sequence[str] = GROUPS) -> None:
        self.learner = learner
        self.groups = groups

    def fit(self, training: TrainingSet) -> "OnMatrix":
        """See `Estimator`."""
        self._vocabulary, self._imputed = vocabulary_of(training), imputed_of(training)
        self._columns = columns_of(self.groups, self._vocabulary)
        self.learner.fit(self._matrix(training), training.y)
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        return Prediction(self.learner.predict(self._matrix(attempts)))

    def _matrix(self, attempts: TrainingSet) -> Matrix:
        whole = attempts.matrix(self._vocabulary, self._imputed)
        return whole if len(self._columns) == whole.shape[1] else whole[:, self._columns]


class Trees(OnMatrix):
    """Trees that Leap can serve."""

    learner: BoostedTrees | BinnedCascade

    def save(self, folder: Path) -> None:
        """See `Estimator`."""
        TreesModel(serving_form(self.learner)).save(folder)


def combined_by(fitted: Trees, combination: Literal["mean", "median"]) -> Trees:
    """The same fitted cascade, its experts combined in another way."""
    other = copy(fitted)
    other.learner = copy(fitted.learner).set_params(combination=combination)
    return other


class Tuned(OnMatrix):
    """A rival library."""

    learner: "Rival"

    def save(self, folder: Path) -> None:
        """See `Estimator`."""
        self.learner.save(folder)


class Lookup:
    """The lookup table; it has no answer for most jobs."""

    def fit(self, training: TrainingSet) -> "Lookup":
        """See `Estimator`."""
        self._table = LookupTable.learn(training.table, np.exp(training.y))
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        return Prediction(np.log(self._table.predict(attempts.table)))

    def save(self, folder: Path) -> None:
        """See `Estimator`."""
        self._table.medians.to_frame().to_parquet(folder / "lookup.parquet")


class Chain(rules.Chain):
    """The chain of medians; a model type that never ran is taken to reach one sample/s."""

    def fit(self, training: TrainingSet) -> None:
        """See `Estimator`."""
        super().fit(training)
        self._past = {**training.rows, "y": training.y}

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        return Prediction(np.nan_to_num(super().predict(attempts).mean))

    def save(self, folder: Path) -> None:
        """See `Estimator`."""
        names = {name for key, _ in ChainOfMedians.KEYS for name in key}
        pd.DataFrame({name: self._past[name] for name in (*names, "y")}).to_parquet(folder / "chain.parquet")
