from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

class _TreePredictor:
    nodes: NDArray[np.void]

class _HistGradientBoosting(BaseEstimator):
    n_iter_: int
    validation_score_: NDArray[np.float64]
    _predictors: list[list[_TreePredictor]]
    _baseline_prediction: NDArray[np.float64]
    def fit(
        self,
        X: NDArray[np.floating],
        y: NDArray[Any],
        *,
        X_val: NDArray[np.floating] | None = None,
        y_val: NDArray[Any] | None = None,
    ) -> Self: ...

class HistGradientBoostingRegressor(_HistGradientBoosting):
    def __init__(
        self,
        loss: str = "squared_error",
        *,
        quantile: float | None = None,
        learning_rate: float = 0.1,
        max_iter: int = 100,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        max_features: float = 1.0,
        early_stopping: bool | str = "auto",
        n_iter_no_change: int = 10,
        random_state: int | None = None,
    ) -> None: ...
    def predict(self, X: NDArray[np.floating]) -> NDArray[np.float64]: ...

class HistGradientBoostingClassifier(_HistGradientBoosting):
    classes_: NDArray[Any]
    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        max_iter: int = 100,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        max_features: float = 1.0,
        early_stopping: bool | str = "auto",
        n_iter_no_change: int = 10,
        random_state: int | None = None,
    ) -> None: ...
    def predict_proba(self, X: NDArray[np.floating]) -> NDArray[np.float64]: ...
