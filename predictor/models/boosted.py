"""Gradient-boosted trees that stop early on the latest rows.

Training form: this file imports scikit-learn and is never imported by the serving path.
"""

from typing import Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

Floats = NDArray[np.floating]
Trees = TypeVar("Trees", HistGradientBoostingRegressor, HistGradientBoostingClassifier)
FLOATS = (np.float32, np.float64)
Loss = Literal["squared_error", "absolute_error", "quantile"]


class BoostedTrees(RegressorMixin, BaseEstimator):
    """Histogram gradient boosting whose early stopping looks at the latest rows.

    Rows must arrive in time order: scikit-learn's own early stopping holds out rows at random, so rows of
    one day would sit on both sides and the stop would come too late (scikit-learn issue 25460).

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "quantile"}
        What the trees minimise. Squared error of ln throughput wins w20, absolute error w5 and MdAPE.
    quantile : float or None
        The quantile of the pinball loss, with ``loss="quantile"`` only.
    max_iter, max_leaf_nodes, learning_rate, min_samples_leaf, l2_regularization, max_features :
        As in `sklearn.ensemble.HistGradientBoostingRegressor`.
    validation_fraction : float
        Share of the rows, the latest ones, that decide when to stop and are not trained on; 0 trains all
        `max_iter` trees on every row.
    n_iter_no_change : int
        Trees without progress on the latest rows before the fit stops.
    random_state : int
        Seed of the row sample that sets the bin borders and of the features drawn at each split.

    Attributes
    ----------
    model_ : HistGradientBoostingRegressor
        The fitted trees; their feature indices count within `columns_`.
    columns_ : ndarray of int, shape (n_used,)
        Columns that vary in the rows trained on. No tree can split on another, each costs as much as one that
        does, and one that is missing in every row would break scikit-learn's binning.
    n_iter_ : int
        Number of trees.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 400, dtype=np.float32).reshape(-1, 1)
    >>> order = np.random.default_rng(0).permutation(400)
    >>> model = BoostedTrees(learning_rate=0.1).fit(x[order], np.floor(4 * x[order, 0]))
    >>> model.predict([[0.1], [0.6]]).round(1).tolist()
    [0.0, 2.0]
    """

    def __init__(
        self,
        *,
        loss: Loss = "squared_error",
        quantile: float | None = None,
        max_iter: int = 400,
        max_leaf_nodes: int = 255,
        learning_rate: float = 0.05,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        max_features: float = 1.0,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.quantile = quantile
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.learning_rate = learning_rate
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on rows in time order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, earliest row first, missing values as NaN. float32 is taken as it is.
        y : array-like of shape (n_samples,)
            Target, finite.

        Raises
        ------
        ValueError
            A parameter is out of range, a value is infinite, `y` is missing, or every feature is missing in every row.
        """
        X, y = validate_data(self, X, y, dtype=FLOATS, ensure_all_finite="allow-nan", y_numeric=True)
        trees = HistGradientBoostingRegressor(
            loss=self.loss,
            quantile=self.quantile,
            max_iter=self.max_iter,
            max_leaf_nodes=self.max_leaf_nodes,
            learning_rate=self.learning_rate,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            max_features=self.max_features,
            n_iter_no_change=self.n_iter_no_change,
            random_state=self.random_state,
        )
        self.model_, self.columns_ = fit_on_earlier(trees, X, y, self.validation_fraction)
        self.n_iter_ = self.model_.n_iter_
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target of each row of `X`, shape (n_samples,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=FLOATS, ensure_all_finite=False)
        with threadpool_limits(limits=1, user_api="openmp"):
            return self.model_.predict(take_columns(X, self.columns_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def fit_on_earlier(
    model: Trees, X: Floats, y: NDArray[np.generic], validation_fraction: float
) -> tuple[Trees, NDArray[np.intp]]:
    """Fit `model` on the earlier rows, stopping early on the latest; return it and the columns that it uses."""
    earlier = count_earlier(len(y), validation_fraction)
    columns = varying(X[:earlier])
    if columns.size == 0:  # scikit-learn wants one, even if it says nothing
        columns = np.flatnonzero(~np.isnan(X[0]))[:1]
    if columns.size == 0:
        raise ValueError(f"every feature is missing in all {earlier} rows to train on: check the feature table")
    X = take_columns(X, columns)
    # A night runs one process per core; more threads in each would only wait for one another.
    with threadpool_limits(limits=1, user_api="openmp"):
        if earlier == len(y):
            model.set_params(early_stopping=False).fit(X, y)
        else:
            model.set_params(early_stopping=True)
            model.fit(X[:earlier], y[:earlier], X_val=X[earlier:], y_val=y[earlier:])
    return model, columns


def count_earlier(n_rows: int, validation_fraction: float) -> int:
    """Number of rows to train on when the latest `validation_fraction` of `n_rows` is held out."""
    if not 0 <= validation_fraction < 1:
        raise ValueError(f"validation_fraction must be in [0, 1), got {validation_fraction}")
    return n_rows - int(n_rows * validation_fraction)


def varying(X: Floats) -> NDArray[np.intp]:
    """Columns of `X` that have more than one value; missing is one.

    Examples
    --------
    >>> varying(np.array([[1.0, 1.0, np.nan, np.nan], [1.0, 2.0, np.nan, 3.0]])).tolist()
    [1, 3]
    """
    differs = X[:1] != X
    return np.flatnonzero((differs & ~(np.isnan(X) & np.isnan(X[:1]))).any(axis=0))


def take_columns(X: Floats, columns: NDArray[np.intp]) -> Floats:
    """Return the `columns` of `X`, without a copy when these are all of them."""
    return X if columns.size == X.shape[1] else X[:, columns]
