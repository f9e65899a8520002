"""LightGBM, XGBoost and CatBoost, tuned, to compare recipes with; they come with the group `ablation` and never serve.

Each setting is tried on a share of the rows, with early stopping on the latest of them; the one that predicts these
best is fitted on all rows, with early stopping on their latest. One thread: a machine runs one fit per core.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Self

import catboost
import lightgbm
import numpy as np
import xgboost

from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import Matrix
from leap.predictor.models.boosted import count_earlier

LEARNING_RATE = 0.05
MAX_TREES = 3000
PATIENCE = 30
VALIDATION_FRACTION = 1 / 30
#: Rows that settings are tried on: every fourth, but no fewer than these.
TRIED_ON = 4
LEAST_TRIED_ON = 50_000

#: Leaves (CatBoost: depth) and share of the features.
Setting = tuple[int, float]


class Rival(ABC):
    """A library that is compared but not published.

    Parameters
    ----------
    grid
        Settings to try.

    Attributes
    ----------
    setting_
        The best of them.
    """

    GRID: Sequence[Setting] = tuple(product((63, 255), (0.4, 0.8)))

    def __init__(self, seed: int = 0, grid: Sequence[Setting] = ()) -> None:
        self.seed = seed
        self.grid = grid or self.GRID

    def fit(self, X: Matrix, y: Floats) -> Self:
        """Learn from rows in time order; missing values are NaN."""
        step = max(1, min(TRIED_ON, len(y) // LEAST_TRIED_ON))
        self.setting_ = self.grid[0]
        if len(self.grid) > 1:
            self.setting_ = min(self.grid, key=lambda setting: self._train(X[::step], y[::step], setting))
        self._train(X, y, self.setting_)
        return self

    def _train(self, X: Matrix, y: Floats, setting: Setting) -> float:
        """Fit on the earlier rows, stop by the latest, and return the squared error on these."""
        earlier = count_earlier(len(y), VALIDATION_FRACTION)
        self._boost(X[:earlier], y[:earlier], X[earlier:], y[earlier:], setting)
        return float(np.mean((self.predict(X[earlier:]) - y[earlier:]) ** 2))

    @abstractmethod
    def _boost(self, X: Matrix, y: Floats, X_latest: Matrix, y_latest: Floats, setting: Setting) -> None:
        """Fit the model that `predict` and `save` use."""

    @abstractmethod
    def predict(self, X: Matrix) -> Floats:
        """ln throughput of each row."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model."""


class LightGBM(Rival):
    """LightGBM, leaf-wise trees."""

    def _boost(self, X: Matrix, y: Floats, X_latest: Matrix, y_latest: Floats, setting: Setting) -> None:
        leaves, share = setting
        train = lightgbm.Dataset(X, y)
        settings = {
            "objective": "l2",
            "num_leaves": leaves,
            "feature_fraction": share,
            "learning_rate": LEARNING_RATE,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": self.seed,
            "verbose": -1,
        }
        latest = lightgbm.Dataset(X_latest, y_latest, reference=train)
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        self._model = lightgbm.train(settings, train, MAX_TREES, valid_sets=[latest], callbacks=[stop])

    def predict(self, X: Matrix) -> Floats:
        """See `Rival`."""
        return np.asarray(self._model.predict(X, num_threads=1), dtype=np.float64)

    def save(self, folder: Path) -> None:
        """See `Rival`."""
        self._model.save_model(folder / "lightgbm.txt")


class XGBoost(Rival):
    """XGBoost, leaf-wise histogram trees."""

    def _boost(self, X: Matrix, y: Floats, X_latest: Matrix, y_latest: Floats, setting: Setting) -> None:
        leaves, share = setting
        train = xgboost.QuantileDMatrix(X, y, nthread=1)
        settings = {
            "objective": "reg:squarederror",
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": leaves,
            "colsample_bytree": share,
            "eta": LEARNING_RATE,
            "nthread": 1,
            "seed": self.seed,
        }
        latest = [(xgboost.QuantileDMatrix(X_latest, y_latest, nthread=1, ref=train), "latest")]
        stop = xgboost.callback.EarlyStopping(rounds=PATIENCE, save_best=True)
        self._model = xgboost.train(settings, train, MAX_TREES, evals=latest, callbacks=[stop], verbose_eval=False)

    def predict(self, X: Matrix) -> Floats:
        """See `Rival`."""
        return np.asarray(self._model.inplace_predict(X), dtype=np.float64)

    def save(self, folder: Path) -> None:
        """See `Rival`."""
        self._model.save_model(folder / "xgboost.ubj")


class CatBoost(Rival):
    """CatBoost, oblivious trees."""

    GRID = tuple(product((6, 8), (0.4, 0.8)))

    def _boost(self, X: Matrix, y: Floats, X_latest: Matrix, y_latest: Floats, setting: Setting) -> None:
        depth, share = setting
        self._model = catboost.CatBoostRegressor(
            iterations=MAX_TREES,
            learning_rate=0.1,  # half the trees: on one thread it takes longest
            depth=depth,
            rsm=share,
            thread_count=1,
            random_seed=self.seed,
            early_stopping_rounds=PATIENCE,
            allow_writing_files=False,
            logging_level="Silent",
        )
        self._model.fit(X, y, eval_set=(X_latest, y_latest))

    def predict(self, X: Matrix) -> Floats:
        """See `Rival`."""
        return np.asarray(self._model.predict(X, thread_count=1), dtype=np.float64)

    def save(self, folder: Path) -> None:
        """See `Rival`."""
        self._model.save_model(str(folder / "catboost.cbm"))
