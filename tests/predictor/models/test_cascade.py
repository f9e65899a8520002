"""BinnedCascade against a slow reference written from the description of the paper."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from leap.predictor.models.cascade import BinnedCascade, equal_frequency_bins
from leap.predictor.models.trees.combination import weighted_median

Rows = tuple[NDArray[np.float32], NDArray[np.float64]]


@pytest.fixture
def rows() -> Rows:
    """Rows whose target jumps, so that bins of equal frequency are not the best ones."""
    random = np.random.default_rng(2)
    x = random.normal(size=(900, 4)).astype(np.float32)
    y = 3.0 * (x[:, 0] > 0) + np.sin(3 * x[:, 1]) + random.normal(scale=0.3, size=900)
    return x, y


@parametrize_with_checks([BinnedCascade(max_iter=20, learning_rate=0.1)])
def test_common_estimator_checks(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


def reference(x: NDArray[np.float32], y: NDArray[np.float64], rounds: int) -> tuple[list[float], NDArray[np.float64]]:
    """Shares of moved rows, and predictions for `x`, of a cascade with four bins, one row at a time."""
    trees: dict[str, Any] = {"max_iter": 25, "random_state": 0, "early_stopping": True}

    def expert(of_bin: NDArray[np.bool_]) -> HistGradientBoostingRegressor:
        own_x, own_y = x[of_bin], y[of_bin]
        cut = len(own_y) - len(own_y) // 10
        model = HistGradientBoostingRegressor("quantile", quantile=0.5, learning_rate=0.1, max_leaf_nodes=6, **trees)
        return model.fit(own_x[:cut], own_y[:cut], X_val=own_x[cut:], y_val=own_y[cut:])

    bins = np.empty(len(y), dtype=int)
    for rank, row in enumerate(np.argsort(y)):
        bins[row] = rank * 4 // len(y)
    shares = []
    for _ in range(rounds):
        predicted = [expert(bins == k).predict(x) for k in range(4)]
        moved = 0
        for row in range(len(y)):
            errors = [abs(predicted[k][row] - y[row]) for k in range(4)]
            best = min(range(4), key=errors.__getitem__)
            if errors[best] < errors[bins[row]]:
                bins[row] = best
                moved += 1
        shares.append(moved / len(y))
        if shares[-1] < 0.02:
            break
    experts = [expert(bins == k) for k in range(4)]
    cut = len(y) - len(y) // 10
    classifier = HistGradientBoostingClassifier(learning_rate=0.2, max_leaf_nodes=5, **trees)
    classifier.fit(x[:cut], bins[:cut], X_val=x[cut:], y_val=bins[cut:])
    probabilities = classifier.predict_proba(x)
    values = [sum(probabilities[row, k] * experts[k].predict(x[[row]])[0] for k in range(4)) for row in range(50)]
    return shares, np.array(values)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_is_the_cascade_of_the_paper(rows: Rows, rounds: int) -> None:
    x, y = rows
    model = BinnedCascade(
        n_bins=4,
        rounds=rounds,
        max_iter=25,
        learning_rate=0.1,
        max_leaf_nodes=6,
        classifier_learning_rate=0.2,
        classifier_max_leaf_nodes=5,
    ).fit(x, y)
    shares, values = reference(x, y, rounds)
    assert model.moved_ == shares
    assert len(shares) == rounds
    np.testing.assert_allclose(model.predict(x[:50]), values, rtol=1e-12)


def test_no_further_round_once_few_rows_move(rows: Rows) -> None:
    model = BinnedCascade(n_bins=4, max_iter=25, stop_below=0.9).fit(*rows)
    assert len(model.moved_) == 1
    assert 0 < model.moved_[0] < 0.9


def test_processes_change_nothing(rows: Rows) -> None:
    x, y = rows
    one, two = (BinnedCascade(n_bins=3, max_iter=10, n_jobs=n_jobs).fit(x, y) for n_jobs in (1, 2))
    assert one.moved_ == two.moved_
    np.testing.assert_array_equal(one.predict(x), two.predict(x))


@pytest.mark.parametrize(
    ("n_rows", "n_bins"),
    [(1, 1), (39, 1), (80, 2), (519, 12), (520, 13)],
)
def test_each_bin_has_rows_for_two_leaves(n_rows: int, n_bins: int) -> None:
    x = np.random.default_rng(0).normal(size=(n_rows, 2)).astype(np.float32)
    model = BinnedCascade(max_iter=5, rounds=0).fit(x, x[:, 0].astype(np.float64))
    assert model.n_bins_ == len(model.experts_) == n_bins
    assert np.isfinite(model.predict(x)).all()


def test_equal_targets_share_a_bin() -> None:
    x = np.arange(200, dtype=np.float32).reshape(-1, 1)
    model = BinnedCascade(n_bins=4, max_iter=5).fit(x, np.full(200, 2.5))
    assert model.n_bins_ == 1
    np.testing.assert_allclose(model.predict(x), 2.5)


def test_a_bin_that_only_the_latest_rows_fill_joins_the_one_below() -> None:
    x = np.arange(400, dtype=np.float32).reshape(-1, 1)
    y = np.r_[np.zeros(180), np.ones(180), np.full(40, 9.0)]
    assert set(equal_frequency_bins(y, 10).tolist()) == {0, 4, 9}
    model = BinnedCascade(n_bins=10, rounds=0, max_iter=5).fit(x, y)
    assert model.n_bins_ == 2
    assert model.bins_.tolist() == [0] * 180 + [1] * 220


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([4.0], [1.0], 4.0),
        ([1.0, 2.0, 3.0], [0.0, 1.0, 0.0], 2.0),
        ([3.0, 1.0], [0.5, 0.5], 2.0),
        # Middles .1, .5, .9: the median stands on the second value.
        ([9.0, 1.0, 5.0], [0.2, 0.2, 0.6], 5.0),
        # Sorted 1, 5 with middles .4, .9: a fifth of the way from .4 to .9 is .5.
        ([5.0, 1.0], [0.2, 0.8], 1.8),
        # The middle of the least value lies above one half: nothing below it to interpolate with.
        ([0.0, 1.0], [1.0, 0.0], 0.0),
    ],
)
def test_weighted_median(values: list[float], weights: list[float], expected: float) -> None:
    assert weighted_median(np.array([values]), np.array([weights]))[0] == pytest.approx(expected)


def test_says_what_is_wrong(rows: Rows) -> None:
    with pytest.raises(ValueError, match="'mode'"):
        BinnedCascade().set_params(combination="mode").fit(*rows)
    with pytest.raises(ValueError, match="got 0"):
        BinnedCascade(n_bins=0).fit(*rows)
