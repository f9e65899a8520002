"""BoostedTrees: estimator conventions, early stopping on the latest rows, columns without a value."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from leap.predictor.models.boosted import BoostedTrees

Rows = tuple[NDArray[np.float32], NDArray[np.float64]]


@pytest.fixture
def rows() -> Rows:
    """Rows of which a fifth of the values are missing, and a target that depends on two of five columns."""
    random = np.random.default_rng(5)
    x = random.normal(size=(1000, 5)).astype(np.float32)
    y = np.where(x[:, 0] > 0, 2.0, -1.0) + np.abs(x[:, 1]) + random.normal(scale=0.1, size=1000)
    x[random.random(x.shape) < 0.2] = np.nan
    return x, y


@parametrize_with_checks([BoostedTrees(), BoostedTrees(loss="quantile", quantile=0.5)])
def test_common_estimator_checks(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


def test_stops_where_scikit_learn_stops_when_given_the_latest_rows(rows: Rows) -> None:
    x, y = rows
    ours = BoostedTrees(max_iter=300, max_leaf_nodes=8, validation_fraction=0.3).fit(x, y)
    theirs = HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=300, max_leaf_nodes=8, early_stopping=True, random_state=0
    ).fit(x[:700], y[:700], X_val=x[700:], y_val=y[700:])
    assert ours.n_iter_ == theirs.n_iter_ < 300
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))


def test_the_latest_rows_alone_decide_when_to_stop(rows: Rows) -> None:
    x, y = rows
    latest_are_noise = y.copy()
    latest_are_noise[900:] = np.random.default_rng(1).permutation(y[900:])
    learnable = BoostedTrees(max_leaf_nodes=8).fit(x, y)
    not_learnable = BoostedTrees(max_leaf_nodes=8).fit(x, latest_are_noise)
    assert not_learnable.n_iter_ < learnable.n_iter_ / 2


def test_without_validation_rows_every_row_is_trained_on(rows: Rows) -> None:
    x, y = rows
    ours = BoostedTrees(max_iter=20, validation_fraction=0).fit(x, y)
    theirs = HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=20, max_leaf_nodes=255, early_stopping=False, random_state=0
    ).fit(x, y)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))


@pytest.mark.parametrize("present_in_the_latest", [False, True])
def test_a_column_without_a_value_to_train_on_changes_nothing(rows: Rows, present_in_the_latest: bool) -> None:
    x, y = rows
    missing = np.full((1000, 1), np.nan, dtype=np.float32)
    if present_in_the_latest:
        missing[900:] = 7.0
    with_missing = np.hstack([x[:, :2], missing, x[:, 2:]])
    expected = BoostedTrees(max_iter=30).fit(x, y)
    model = BoostedTrees(max_iter=30).fit(with_missing, y)
    assert model.columns_.tolist() == [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(model.predict(with_missing), expected.predict(x))


def test_a_column_that_never_varies_changes_nothing(rows: Rows) -> None:
    x, y = rows
    wide = np.column_stack((np.full(len(x), 7.0, dtype=x.dtype), x))
    expected, model = BoostedTrees(max_iter=20).fit(x, y), BoostedTrees(max_iter=20).fit(wide, y)
    np.testing.assert_array_equal(model.predict(wide), expected.predict(x))
    assert model.columns_.tolist() == list(range(1, wide.shape[1]))


def test_features_that_say_nothing_still_give_the_median() -> None:
    x, y = np.ones((90, 2)), np.arange(90.0)
    model = BoostedTrees(loss="quantile", quantile=0.5, validation_fraction=0).fit(x, y)
    assert model.predict([[1.0, 1.0], [5.0, np.nan]]) == pytest.approx([44.5, 44.5])


def test_the_same_seed_gives_the_same_trees(rows: Rows) -> None:
    x, y = rows
    first, second, other = (
        BoostedTrees(max_iter=20, max_features=0.4, random_state=seed).fit(x, y).predict(x) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_says_what_is_wrong(rows: Rows) -> None:
    x, y = rows
    with pytest.raises(ValueError, match=r"validation_fraction must be in \[0, 1\), got 1"):
        BoostedTrees(validation_fraction=1.0).fit(x, y)
    with pytest.raises(ValueError, match="every feature is missing"):
        BoostedTrees().fit(np.full_like(x, np.nan), y)
    x[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        BoostedTrees().fit(x, y)
