"""TabPFN v2 as regressor, with the most similar past attempts as context. Weights by path, nothing is fetched.

The model learns nothing: it reads up to `CONTEXT` rows with their targets and answers for others beside them. A context
serves a group of questions that are like each other, so that it is read once for all of them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import Matrix
from leap.predictor.models.serving import Prediction
from leap.retrainer.ablation.text.nearest_neighbours import Neighbours, grouped
from leap.retrainer.dataset.training_set import TrainingSet

NEIGHBOURS, CONTEXT, QUESTIONS = 256, 2000, 256


class Regressor(Protocol):
    """What TabPFN is called by."""

    def fit(self, X: Matrix, y: Floats) -> Self:
        """Take (n, features) rows, missing values as NaN, and their targets."""

    def predict(self, X: Matrix) -> Floats:
        """(m,) targets."""


class InContext:
    """A regressor that is given, for each group of similar rows, the past attempts most similar to them."""

    def __init__(self, make: Callable[[], Regressor]) -> None:
        self._make = make

    def fit(self, training: TrainingSet) -> "InContext":
        """See `Estimator`."""
        self._neighbours = Neighbours(training)
        X = self._neighbours.matrix(training)
        self._columns = np.flatnonzero([len(np.unique(column[~np.isnan(column)])) > 1 for column in X.T])
        self._X, self._y = X[:, self._columns], training.y
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        asked = self._neighbours.matrix(attempts)[:, self._columns]
        nearest = self._neighbours.nearest(attempts, NEIGHBOURS)
        mean = np.empty(len(attempts))
        for rows, context in grouped(nearest, QUESTIONS, CONTEXT):
            regressor = self._make().fit(self._X[context], self._y[context])
            mean[rows] = regressor.predict(asked[rows])
        return Prediction(mean)

    def save(self, folder: Path) -> None:
        """See `Estimator`: the rows; the weights are not counted."""
        np.savez(folder / "rows.npz", self._X, self._y)


def load(weights: Path, seed: int = 0) -> Callable[[], Regressor]:
    """TabPFN with the weights of a file.

    Raises
    ------
    ValueError
        If the file is not there, or the package tabpfn is not installed.
    """
    if not weights.is_file():
        raise ValueError(f"{weights}: no such file; give the checkpoint of the TabPFN v2 regressor")
    try:
        from tabpfn import TabPFNRegressor
    except ModuleNotFoundError as error:
        raise ValueError(f"TabPFN needs {error.name}; run: pip install tabpfn") from None
    return lambda: TabPFNRegressor(model_path=weights, device="cpu", random_state=seed, ignore_pretraining_limits=True)
