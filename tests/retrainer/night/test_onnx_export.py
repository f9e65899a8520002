"""ONNX graphs of trees: the sides that rows take, and agreement with scikit-learn on hostile rows."""

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.onnx_model import Graph
from leap.retrainer.night.onnx_export import export, round_down

Matrix = NDArray[np.float32]
LEAST = np.float32(-np.inf)
MOST = np.float32(np.inf)


@pytest.fixture(scope="module")
def training() -> tuple[Matrix, NDArray[np.float64]]:
    """Rows with few and many distinct values, missing values, one empty column and a wide target."""
    random = np.random.default_rng(11)
    x = random.normal(size=(4000, 8)).astype(np.float32)
    x[:, 1] = np.round(x[:, 1] * 3)
    x[:, 2] = np.exp(8 * x[:, 2])
    x[:, 3] *= 1e-30
    x[random.random(x.shape) < 0.15] = np.nan
    x[:, 4] = np.nan
    y = 6 + 3 * np.nan_to_num(x[:, 0]) + np.isnan(x[:, 1]) * np.nan_to_num(x[:, 5]) + random.normal(size=4000) / 9
    return x, y


def hostile(x: Matrix, thresholds: NDArray[np.float64], rows: int) -> Matrix:
    """Rows of the training matrix in which most values stand on a threshold, beside one, or are special."""
    random = np.random.default_rng(12)
    on = round_down(thresholds)
    values = np.r_[on, np.nextafter(on, LEAST), np.nextafter(on, MOST), [np.nan, LEAST, MOST, 0, -0.0]]
    made = x[random.integers(0, len(x), rows)]
    replaced = random.random(made.shape) < 0.7
    made[replaced] = random.choice(values, size=replaced.sum())
    return made


def thresholds_of(*models: BoostedTrees) -> NDArray[np.float64]:
    """All thresholds of the trees."""
    trees = [tree.nodes for model in models for trees in model.model_._predictors for tree in trees]
    return np.unique(np.concatenate([nodes["num_threshold"][nodes["is_leaf"] == 0] for nodes in trees]))


def test_boosted_trees_agree_on_100_000_hostile_rows(training: tuple[Matrix, NDArray[np.float64]]) -> None:
    x, y = training
    model = BoostedTrees(max_iter=100, max_leaf_nodes=63).fit(x, y)
    rows = hostile(x, thresholds_of(model), 100_000)
    np.testing.assert_allclose(Graph(export(model)).predict(rows), model.predict(rows), rtol=0, atol=1e-4)


@pytest.mark.parametrize("combination", ["mean", "median"])
@pytest.mark.parametrize("n_bins", [1, 2, 5])
def test_cascades_agree_on_hostile_rows(
    training: tuple[Matrix, NDArray[np.float64]], n_bins: int, combination: str
) -> None:
    x, y = training
    model = BinnedCascade(n_bins=n_bins, rounds=0, max_iter=20, learning_rate=0.2, max_leaf_nodes=15)
    model.set_params(combination=combination).fit(x, y)
    assert model.n_bins_ == n_bins
    rows = hostile(x, thresholds_of(*model.experts_), 100_000 // 6)
    np.testing.assert_allclose(Graph(export(model)).predict(rows), model.predict(rows), rtol=0, atol=1e-4)


def test_a_cascade_gives_its_experts_and_weights(training: tuple[Matrix, NDArray[np.float64]]) -> None:
    x, y = training
    model = BinnedCascade(n_bins=3, rounds=0, max_iter=10).fit(x, y)
    graph = onnx.load_model_from_string(export(model))
    assert {output.name for output in graph.graph.output} == {"log_throughput", "experts", "weights"}
    session = Graph(export(model))._session
    experts, weights = session.run(["experts", "weights"], {"features": x})
    for k, expert in enumerate(model.experts_):
        np.testing.assert_allclose(experts[:, k], expert.predict(x), atol=1e-5)
    np.testing.assert_allclose(weights, model.classifier_.predict_proba(x[:, model.classifier_columns_]), atol=1e-5)


def test_a_value_between_a_threshold_and_its_float32_goes_to_the_side_of_training() -> None:
    # Thresholds lie halfway: between 0.1 and its successor in float32, there is no float32 for the middle.
    low = np.float32(0.1)
    high = np.nextafter(low, MOST)
    x = np.repeat([low, high], 50).reshape(-1, 1)
    y = np.repeat([1.0, 2.0], 50)
    model = BoostedTrees(max_iter=1, learning_rate=1.0, validation_fraction=0).fit(x, y)
    assert np.float32(thresholds_of(model)[0]) in (low, high)
    assert Graph(export(model)).predict(np.array([[low], [high]], dtype=np.float32)).tolist() == [1.0, 2.0]


def test_missing_values_take_the_side_that_was_learned() -> None:
    x = np.repeat([1.0, 2.0, np.nan], 50).astype(np.float32).reshape(-1, 1)
    for missing in (1.0, 2.0):
        y = np.r_[np.full(50, 1.0), np.full(50, 2.0), np.full(50, missing)]
        model = BoostedTrees(max_iter=1, learning_rate=1.0, validation_fraction=0).fit(x, y)
        assert Graph(export(model)).predict(x[-1:])[0] == pytest.approx(missing)


def test_trees_without_a_split_are_served_too() -> None:
    x = np.zeros((10, 2), dtype=np.float32)
    y = np.arange(10.0)
    assert Graph(export(BoostedTrees(max_iter=3).fit(x, y))).predict(x).tolist() == pytest.approx([4.0] * 10)


def test_thresholds_are_rounded_down() -> None:
    thresholds = np.array([0.1, -0.1, 0.5, 1e300, np.inf, 1e-60, -1e-60])
    rounded = round_down(thresholds)
    assert (rounded <= thresholds).all()
    assert (np.nextafter(rounded[:3], MOST) > thresholds[:3]).all()
    assert rounded[3] == np.finfo(np.float32).max
    assert rounded[4] == np.inf
    assert rounded[5] == 0
    assert rounded[6] == -np.float32(2**-149)


def test_the_same_model_gives_the_same_bytes(training: tuple[Matrix, NDArray[np.float64]]) -> None:
    x, y = training
    assert export(BoostedTrees(max_iter=5).fit(x, y)) == export(BoostedTrees(max_iter=5).fit(x, y))
