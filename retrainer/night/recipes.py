"""Recipes: what a night may train, declared in one place.

A recipe fits the rows of a window and writes the files that :class:`leap.predictor.models.serving.Model` serves. The
best on the held-out day is the champion.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Protocol

import numpy as np

from leap.predictor.features.matrix import Matrix
from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.conformal import Interval, calibrate
from leap.predictor.models.serving import Prediction, StructuredModel, TreesModel
from leap.predictor.models.serving import load as load_model
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured.model import EXTRAS
from leap.predictor.routing.provenance import basis
from leap.retrainer.dataset.training_set import TrainingSet, imputed_of, vocabulary_of
from leap.retrainer.night.tree_arrays import serving_form
from leap.retrainer.night.window import LEAST_ATTEMPTS, split_latest


class Recipe(Protocol):
    """One way to learn throughput.

    Attributes
    ----------
    reads_matrix
        Whether `fit` reads the feature matrix; if not, one without columns will do.
    """

    reads_matrix: ClassVar[bool]

    def fit(self, data: TrainingSet, features: Matrix) -> None:
        """Learn ``data.y`` from rows in the order of submission and their (n, features) matrix."""

    def save(self, folder: Path) -> None:
        """Write the serving form."""


class Trees:
    """Trees over the feature matrix alone."""

    reads_matrix: ClassVar[bool] = True

    def __init__(self, estimator: BoostedTrees | BinnedCascade) -> None:
        self.estimator = estimator

    def fit(self, data: TrainingSet, features: Matrix) -> None:
        """See :class:`Recipe`."""
        self.estimator.fit(features, data.y)

    def save(self, folder: Path) -> None:
        """See :class:`Recipe`."""
        TreesModel(serving_form(self.estimator)).save(folder)


class StructuredTraining:
    """The structured recipe: prior over configurations, process of each family, exact history, and the gate.

    Fitted again, it goes on from what it has learned.
    """

    reads_matrix: ClassVar[bool] = False
    _recipe: StructuredRecipe | None = None

    def fit(self, data: TrainingSet, features: Matrix) -> None:
        """See :class:`Recipe`; the matrix is not used."""
        self._recipe = self._recipe or StructuredRecipe(data.pairs.table, extras=EXTRAS, warm_start=True)
        self._recipe.fit(data.rows, data.y)

    def save(self, folder: Path) -> None:
        """See :class:`Recipe`."""
        assert self._recipe is not None
        StructuredModel(self._recipe.model_).save(folder)


#: Name to a builder that takes the number of processes that it may use.
RECIPES: dict[str, Callable[[int], Recipe]] = {
    "structured": lambda n_jobs: StructuredTraining(),
    # Among trees of 31, 63 and 255 leaves with all, 40% and 20% of the features at each split, these did best on a
    # simulated fleet of 86,000 rows. The latest day decides when to stop: more would be lost to training.
    "boosted": lambda n_jobs: Trees(
        BoostedTrees(max_leaf_nodes=63, max_iter=800, max_features=0.4, validation_fraction=1 / 30)
    ),
    "paper": lambda n_jobs: Trees(BinnedCascade(n_jobs=n_jobs)),
    "cascade-median": lambda n_jobs: Trees(BinnedCascade(combination="median", n_jobs=n_jobs)),
}


class Published:
    """A recipe of the night, judged as it serves: written, read back, with the interval that a night would state.

    Fitted again, a recipe that can goes on from its last fit: every fit has the rows of the one before, and newer.

    Parameters
    ----------
    calibrated
        Whether an interval is wanted: then the latest attempts are first held out, as a night does.

    Attributes
    ----------
    interval
        None where it is not wanted, or the attempts are too few.
    """

    interval: Interval | None = None

    def __init__(self, recipe: str, *, calibrated: bool = False) -> None:
        self._recipe = RECIPES[recipe](1)
        self._calibrated = calibrated

    def fit(self, training: TrainingSet) -> "Published":
        """Learn `training.y` from rows in the order of submission."""
        if self._calibrated and len(training) >= LEAST_ATTEMPTS:
            earlier, latest = split_latest(training, int(training.submitted_day.max()) + 1)
            judged = training.where(latest)
            said = self._fit(training.where(earlier)).predict(judged)
            self.interval = calibrate(judged.y, said.mean, said.spread, basis(judged.pairs))
        return self._fit(training)

    def predict(self, attempts: TrainingSet) -> Prediction:
        """ln throughput of (n,) attempts on the hardware type that each ran on."""
        return self._model.predict(attempts.pairs, self._matrix(attempts))

    def save(self, folder: Path) -> None:
        """Write what serving would load."""
        self._recipe.save(folder)

    def _fit(self, training: TrainingSet) -> "Published":
        if self._recipe.reads_matrix:
            self._vocabulary, self._imputed = vocabulary_of(training), imputed_of(training)
        features = self._matrix(training)
        self._recipe.fit(training, features)
        with TemporaryDirectory() as folder:  # what is mapped from there stays, when its name is gone
            self.save(Path(folder))
            self._model = load_model(Path(folder), features.shape[1])
        return self

    def _matrix(self, attempts: TrainingSet) -> Matrix:
        if not self._recipe.reads_matrix:
            return np.empty((len(attempts), 0), dtype=np.float32)
        return attempts.matrix(self._vocabulary, self._imputed)
