"""The paper's cascade: one expert per bin of throughput, mixed by a classifier of the bin.

Training form: this file imports scikit-learn and is never imported by the serving path.
"""

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from leap.predictor.models.boosted import FLOATS, BoostedTrees, Floats, count_earlier, fit_on_earlier, take_columns
from leap.predictor.models.trees.combination import weighted_mean, weighted_median

Bins = NDArray[np.intp]

# Rows predicted at a time: scikit-learn walks all rows tree by tree, which is faster while they fit the cache.
BLOCK = 4096


class BinnedCascade(RegressorMixin, BaseEstimator):
    """Mixture of boosted experts, one per bin of the target, weighted by a boosted classifier.

    The target is cut into `n_bins` bins of equal frequency. Up to `rounds` times, one expert is fitted per
    bin with the pinball loss at the median and each row moves to the bin whose expert errs least, until
    fewer than `stop_below` of the rows move. Experts are then refitted on the final bins, and a classifier
    learns the bin. With f_k the experts and g_k the classifier's probabilities, the prediction is
    Σ_k g_k(x) f_k(x), or the median of the experts under the weights g_k.

    Rows must arrive in time order: every fit stops early on the latest of its rows.

    Parameters
    ----------
    n_bins : int
        Bins wanted. Fewer are made where the rows do not fill them, see `n_bins_`.
    rounds : int
        Most rounds of fitting and moving; 0 keeps the bins of equal frequency.
    stop_below : float
        Share of moved rows below which no further round is made.
    combination : {"mean", "median"}
        How the experts are combined. The median resists an expert that extrapolates badly.
    max_iter, min_samples_leaf, max_features, validation_fraction, n_iter_no_change, random_state :
        Of each expert and of the classifier, as in `BoostedTrees`.
    max_leaf_nodes, learning_rate :
        Of each expert.
    classifier_max_leaf_nodes, classifier_learning_rate :
        Of the classifier, which grows one tree a bin at each step, over all rows. At the experts' size and rate
        it takes most of a fit and tells the bin no better: docs/ablation.md.
    n_jobs : int
        Processes, of one thread each, that fit experts side by side.

    Attributes
    ----------
    experts_ : list of BoostedTrees
        One per bin.
    classifier_ : HistGradientBoostingClassifier
        Predicts the bin; not asked with a single bin. Its feature indices count within `classifier_columns_`.
    n_bins_ : int
        Bins there are: fewer than `n_bins` when a bin would have less than two leaves' worth of rows, when
        equal targets fill several bins, when a bin loses its rows to others, or when all its rows are among
        the latest, which are not trained on.
    moved_ : list of float
        Share of rows that moved in each round.
    bins_ : ndarray of int, shape (n_samples,)
        Final bin of each training row.
    """

    def __init__(
        self,
        *,
        n_bins: int = 13,
        rounds: int = 3,
        stop_below: float = 0.02,
        combination: Literal["mean", "median"] = "mean",
        max_iter: int = 3000,
        max_leaf_nodes: int = 255,
        learning_rate: float = 0.03,
        classifier_max_leaf_nodes: int = 63,
        classifier_learning_rate: float = 0.1,
        min_samples_leaf: int = 20,
        max_features: float = 1.0,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        n_jobs: int = 1,
        random_state: int = 0,
    ) -> None:
        self.n_bins = n_bins
        self.rounds = rounds
        self.stop_below = stop_below
        self.combination = combination
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.learning_rate = learning_rate
        self.classifier_max_leaf_nodes = classifier_max_leaf_nodes
        self.classifier_learning_rate = classifier_learning_rate
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_jobs = n_jobs
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
        if self.n_bins < 1 or self.combination not in ("mean", "median"):
            raise ValueError(
                "n_bins must be at least 1 and combination 'mean' or 'median', "
                f"got {self.n_bins!r} and {self.combination!r}"
            )
        X, y = validate_data(self, X, y, dtype=FLOATS, ensure_all_finite="allow-nan", y_numeric=True)
        earlier = count_earlier(len(y), self.validation_fraction)
        bins = equal_frequency_bins(y, min(self.n_bins, len(y) // (2 * self.min_samples_leaf)))
        bins = number_bins(bins, earlier)
        self.moved_: list[float] = []
        # Worker processes map one copy of X from disk, and each takes only the rows of its own bin.
        with Parallel(n_jobs=self.n_jobs) as parallel:
            for _ in range(self.rounds):
                predicted = parallel(
                    delayed(fit_and_predict)(self._expert(), X, y, bins == k) for k in range(bins.max() + 1)
                )
                best = move_to_nearest(np.abs(np.column_stack(predicted) - y[:, None]), bins)
                self.moved_.append(float(np.mean(best != bins)))
                bins = number_bins(best, earlier)
                if self.moved_[-1] < self.stop_below:
                    break
            # The classifier goes first because it takes longest.
            tasks: list[Any] = [delayed(fit_on_earlier)(self._classifier(), X, bins, self.validation_fraction)]
            tasks += [delayed(fit_rows)(self._expert(), X, y, bins == k) for k in range(bins.max() + 1)]
            (classifier, columns), *experts = parallel(tasks)
        self.experts_: list[BoostedTrees] = experts
        self.classifier_: HistGradientBoostingClassifier = classifier
        self.classifier_columns_: Bins = columns
        self.bins_ = bins
        self.n_bins_ = len(self.experts_)
        self.n_iter_ = max(expert.n_iter_ for expert in self.experts_)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target of each row of `X`, shape (n_samples,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=FLOATS, ensure_all_finite=False)
        experts = np.column_stack([predict_in_blocks(expert.predict, X) for expert in self.experts_])
        weights = predict_in_blocks(self._weights, X)
        combine = weighted_median if self.combination == "median" else weighted_mean
        return combine(experts, weights)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _expert(self) -> BoostedTrees:
        return BoostedTrees(
            loss="quantile",
            quantile=0.5,
            max_iter=self.max_iter,
            max_leaf_nodes=self.max_leaf_nodes,
            learning_rate=self.learning_rate,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            validation_fraction=self.validation_fraction,
            n_iter_no_change=self.n_iter_no_change,
            random_state=self.random_state,
        )

    def _classifier(self) -> HistGradientBoostingClassifier:
        return HistGradientBoostingClassifier(
            max_iter=self.max_iter,
            max_leaf_nodes=self.classifier_max_leaf_nodes,
            learning_rate=self.classifier_learning_rate,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            n_iter_no_change=self.n_iter_no_change,
            random_state=self.random_state,
        )

    def _weights(self, X: Floats) -> NDArray[np.float64]:
        if self.n_bins_ == 1:
            return np.ones((len(X), 1))
        with threadpool_limits(limits=1, user_api="openmp"):
            return self.classifier_.predict_proba(take_columns(X, self.classifier_columns_))


def equal_frequency_bins(y: Floats, n_bins: int) -> Bins:
    """Cut `y` at its quantiles; equal values share a bin, so bins may be fewer than asked or uneven.

    Examples
    --------
    >>> equal_frequency_bins(np.array([5.0, 1.0, 3.0, 2.0]), 2).tolist()
    [1, 0, 1, 0]
    """
    edges = np.quantile(y, np.arange(1, n_bins) / n_bins)
    bins: Bins = np.searchsorted(edges, y, side="left")
    return bins


def number_bins(bins: Bins, earlier: int) -> Bins:
    """Number the bins that have a row among the `earlier` ones; rows of other bins join the next below, or bin 0.

    Examples
    --------
    >>> number_bins(np.array([0, 4, 2, 4, 3]), earlier=4).tolist()
    [0, 2, 1, 2, 1]
    """
    seen = np.unique(bins[:earlier])
    return np.maximum(np.searchsorted(seen, bins, side="right") - 1, 0)


def move_to_nearest(errors: NDArray[np.float64], bins: Bins) -> Bins:
    """Return the bin of least error for each row of `errors` (rows, bins); a row without a better one stays."""
    best = errors.argmin(axis=1)
    rows = np.arange(len(bins))
    return np.where(errors[rows, best] < errors[rows, bins], best, bins)


def fit_rows(expert: BoostedTrees, X: Floats, y: Floats, rows: NDArray[np.bool_]) -> BoostedTrees:
    """Fit `expert` on some of the rows."""
    return expert.fit(X[rows], y[rows])


def fit_and_predict(expert: BoostedTrees, X: Floats, y: Floats, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Fit `expert` on some of the rows and predict all of them."""
    return predict_in_blocks(fit_rows(expert, X, y, rows).predict, X)


def predict_in_blocks(predict: Callable[[Floats], NDArray[np.float64]], X: Floats) -> NDArray[np.float64]:
    """Apply `predict` to all rows, a block at a time."""
    return np.concatenate([predict(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK)])
