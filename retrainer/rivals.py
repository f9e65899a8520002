"""LightGBM and XGBoost, tuned, to compare recipes with; both come with the dev extra only and never serve.

Each setting is fitted with early stopping on the latest rows, and the one that predicts these best is kept:
the same rows decide as in `predictor.boosted`.
"""

from collections.abc import Callable
from itertools import product
from typing import Protocol, Self

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray

from predictor.boosted import count_earlier

LEAVES = (63, 255)
SHARES_OF_FEATURES = (0.4, 0.8)
LEARNING_RATE = 0.05
MAX_TREES = 3000
PATIENCE = 30
VALIDATION_FRACTION = 0.1

Rows = NDArray[np.float32]
Target = NDArray[np.float64]


class Rival(Protocol):
    """One way to learn ln throughput that is compared but not published."""

    def fit(self, X: Rows, y: Target) -> Self:
        """Learn from rows in time order."""

    def predict(self, X: Rows) -> Target:
        """ln throughput of each row."""


class LightGBM:
    """LightGBM with the best of a few settings, on `n_jobs` threads."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: Rows, y: Target) -> Self:
        """See :class:`Rival`."""
        earlier = count_earlier(len(y), VALIDATION_FRACTION)
        train = lightgbm.Dataset(X[:earlier], y[:earlier], free_raw_data=False)
        latest = lightgbm.Dataset(X[earlier:], y[earlier:], reference=train, free_raw_data=False)
        fits = []
        for leaves, share in product(LEAVES, SHARES_OF_FEATURES):
            settings = {
                "objective": "l2",
                "num_leaves": leaves,
                "feature_fraction": share,
                "learning_rate": LEARNING_RATE,
                "num_threads": self.n_jobs,
                "deterministic": True,
                "force_row_wise": True,
                "seed": 0,
                "verbose": -1,
            }
            stop = lightgbm.early_stopping(PATIENCE, verbose=False)
            fits.append(lightgbm.train(settings, train, MAX_TREES, valid_sets=[latest], callbacks=[stop]))
        self.model_ = min(fits, key=lambda fit: fit.best_score["valid_0"]["l2"])
        return self

    def predict(self, X: Rows) -> Target:
        """See :class:`Rival`."""
        return np.asarray(self.model_.predict(X, num_threads=self.n_jobs), dtype=np.float64)


class XGBoost:
    """XGBoost with the best of a few settings, on `n_jobs` threads."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: Rows, y: Target) -> Self:
        """See :class:`Rival`."""
        earlier = count_earlier(len(y), VALIDATION_FRACTION)
        train = xgboost.QuantileDMatrix(X[:earlier], y[:earlier], nthread=self.n_jobs)
        latest = xgboost.QuantileDMatrix(X[earlier:], y[earlier:], nthread=self.n_jobs, ref=train)
        fits = []
        for leaves, share in product(LEAVES, SHARES_OF_FEATURES):
            settings = {
                "objective": "reg:squarederror",
                "tree_method": "hist",
                "grow_policy": "lossguide",
                "max_depth": 0,
                "max_leaves": leaves,
                "colsample_bytree": share,
                "eta": LEARNING_RATE,
                "nthread": self.n_jobs,
                "seed": 0,
            }
            fits.append(
                xgboost.train(
                    settings,
                    train,
                    MAX_TREES,
                    evals=[(latest, "latest")],
                    early_stopping_rounds=PATIENCE,
                    verbose_eval=False,
                )
            )
        self.model_ = min(fits, key=lambda fit: fit.best_score)
        return self

    def predict(self, X: Rows) -> Target:
        """See :class:`Rival`."""
        best = (0, self.model_.best_iteration + 1)
        return np.asarray(self.model_.inplace_predict(X, iteration_range=best), dtype=np.float64)


RIVALS: dict[str, Callable[[int], Rival]] = {"lightgbm": LightGBM, "xgboost": XGBoost}
