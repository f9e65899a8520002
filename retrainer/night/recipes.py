"""Recipes: what a night may train, declared in one place.

A recipe fits the rows of a window and writes the files that :class:`leap.predictor.models.serving.Model` serves. The
best on the held-out day is the champion.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from leap.predictor.features.matrix import Matrix
from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.serving import StructuredModel, TreesModel
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured.model import EXTRAS
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.night.tree_arrays import serving_form


class Recipe(Protocol):
    """One way to learn throughput."""

    def fit(self, data: TrainingSet, features: Matrix) -> None:
        """Learn ``data.y`` from rows in the order of submission and their (n, features) matrix."""

    def save(self, folder: Path) -> None:
        """Write the serving form."""


class Trees:
    """Trees over the feature matrix alone."""

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
