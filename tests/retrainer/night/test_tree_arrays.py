"""Trees as arrays: the sides that rows take, and agreement with scikit-learn on hostile rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.trees.model import Combination
from leap.retrainer.night.tree_arrays import round_down, serving_form
from tests.predictor.models.trees.trained import MOST, Matrix, hostile, thresholds_of
from tests.predictor.models.trees.trained import training as make_training

Training = tuple[Matrix, NDArray[np.float64]]


@pytest.fixture(scope="module")
def training() -> Training:
    return make_training()


def test_boosted_trees_agree_on_100_000_hostile_rows(training: Training) -> None:
    x, y = training
    model = BoostedTrees(max_iter=100, max_leaf_nodes=63).fit(x, y)
    rows = hostile(x, thresholds_of(model), 100_000)
    np.testing.assert_allclose(serving_form(model).predict(rows), model.predict(rows), rtol=0, atol=1e-9)


@pytest.mark.parametrize("combination", ["mean", "median"])
@pytest.mark.parametrize("n_bins", [1, 2, 5])
def test_cascades_agree_on_hostile_rows(training: Training, n_bins: int, combination: str) -> None:
    x, y = training
    model = BinnedCascade(n_bins=n_bins, rounds=0, max_iter=20, learning_rate=0.2, max_leaf_nodes=15)
    model.set_params(combination=combination).fit(x, y)
    assert model.n_bins_ == n_bins
    rows = hostile(x, thresholds_of(*model.experts_), 100_000 // 6)
    trees = serving_form(model)
    assert trees.combination is Combination(combination)
    np.testing.assert_allclose(trees.predict(rows), model.predict(rows), rtol=0, atol=1e-9)


@settings(max_examples=25)
@given(st.data())
def test_any_fit_serves_what_it_predicts(data: st.DataObject) -> None:
    """Values of few bits, so that rows of any fit stand on its thresholds; half of them missing or infinite."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = random.integers(-3, 4, size=(200, 3)).astype(np.float32) * np.float32(
        data.draw(st.sampled_from([1, 0.1, 1e30]))
    )
    y = np.nan_to_num(x[:, 0], posinf=9, neginf=-9).clip(-9, 9) + random.normal(size=200)
    x[random.random(x.shape) < 0.2] = np.nan
    model = BoostedTrees(
        max_iter=data.draw(st.integers(1, 30)),
        max_leaf_nodes=data.draw(st.integers(2, 40)),
        min_samples_leaf=data.draw(st.integers(1, 40)),
        validation_fraction=0,
    ).fit(x, y)
    x[random.random(x.shape) < 0.2] = random.choice([np.inf, -np.inf])
    trees = serving_form(model)
    np.testing.assert_allclose(trees.predict(x), model.predict(x), rtol=0, atol=1e-9)


def test_a_row_has_one_prediction_alone_and_in_any_batch(training: Training) -> None:
    x, y = training
    model = BinnedCascade(n_bins=3, rounds=0, max_iter=10).fit(x, y)
    for trees in (serving_form(model), serving_form(BoostedTrees(max_iter=40).fit(x, y))):
        together = trees.predict(x[:300])
        assert [float(trees.predict(x[row : row + 1])[0]) for row in range(300)] == together.tolist()
        for size in (7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 300):
            assert trees.predict(x[:size]).tolist() == together[:size].tolist()


def test_a_value_between_a_threshold_and_its_float32_goes_to_the_side_of_training() -> None:
    # Thresholds lie halfway: between 0.1 and its successor in float32, there is no float32 for the middle.
    low = np.float32(0.1)
    high = np.nextafter(low, MOST)
    x = np.repeat([low, high], 50).reshape(-1, 1)
    y = np.repeat([1.0, 2.0], 50)
    model = BoostedTrees(max_iter=1, learning_rate=1.0, validation_fraction=0).fit(x, y)
    assert np.float32(thresholds_of(model)[0]) in (low, high)
    assert serving_form(model).predict(np.array([[low], [high]], dtype=np.float32)).tolist() == [1.0, 2.0]


def test_missing_values_take_the_side_that_was_learned() -> None:
    x = np.repeat([1.0, 2.0, np.nan], 50).astype(np.float32).reshape(-1, 1)
    for missing in (1.0, 2.0):
        y = np.r_[np.full(50, 1.0), np.full(50, 2.0), np.full(50, missing)]
        model = BoostedTrees(max_iter=1, learning_rate=1.0, validation_fraction=0).fit(x, y)
        assert serving_form(model).predict(x[-1:])[0] == pytest.approx(missing)


def test_trees_without_a_split_are_served_too() -> None:
    x = np.zeros((10, 2), dtype=np.float32)
    y = np.arange(10.0)
    assert serving_form(BoostedTrees(max_iter=3).fit(x, y)).predict(x).tolist() == pytest.approx([4.0] * 10)


def test_thresholds_are_rounded_down() -> None:
    thresholds = np.array([0.1, -0.1, 0.5, 1e300, np.inf, 1e-60, -1e-60])
    rounded = round_down(thresholds)
    assert (rounded <= thresholds).all()
    assert (np.nextafter(rounded[:3], MOST) > thresholds[:3]).all()
    assert rounded[3] == np.finfo(np.float32).max
    assert rounded[4] == np.inf
    assert rounded[5] == 0
    assert rounded[6] == -np.float32(2**-149)


def test_the_same_model_gives_the_same_arrays(training: Training) -> None:
    x, y = training
    first, second = (serving_form(BoostedTrees(max_iter=5).fit(x, y)).arrays() for _ in range(2))
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
