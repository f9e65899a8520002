"""ONNX: exported graphs predict what is served, and graphs of earlier nights become the trees that they were."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.serving import TreesModel, load
from leap.predictor.models.trees.model import Trees
from leap.predictor.models.trees.onnx_export import export_graph
from leap.predictor.models.trees.onnx_import import read_graph
from leap.retrainer.night.tree_arrays import serving_form
from tests.onnx_graph import run_graph
from tests.predictor.models.trees.trained import Matrix, hostile, thresholds_of
from tests.predictor.models.trees.trained import training as make_training

Fitted = tuple[Trees, Matrix]


def boosted(x: Matrix, y: NDArray[np.float64]) -> tuple[Trees, list[BoostedTrees]]:
    model = BoostedTrees(max_iter=100, max_leaf_nodes=63).fit(x, y)
    return serving_form(model), [model]


def cascade(n_bins: int, combination: str) -> Callable[..., tuple[Trees, list[BoostedTrees]]]:
    def fit(x: Matrix, y: NDArray[np.float64]) -> tuple[Trees, list[BoostedTrees]]:
        model = BinnedCascade(n_bins=n_bins, rounds=0, max_iter=20, learning_rate=0.2, max_leaf_nodes=15)
        model.set_params(combination=combination).fit(x, y)
        return serving_form(model), model.experts_

    return fit


MODELS = {"boosted": boosted} | {
    f"{combination} of {n_bins}": cascade(n_bins, combination)
    for combination in ("mean", "median")
    for n_bins in (1, 2, 5)
}


@pytest.fixture(scope="module", params=list(MODELS.values()), ids=list(MODELS))
def fitted(request: pytest.FixtureRequest) -> Fitted:
    x, y = make_training()
    trees, models = request.param(x, y)
    return trees, hostile(x, thresholds_of(*models), 20_000)


def test_a_graph_predicts_what_is_served(fitted: Fitted) -> None:
    trees, rows = fitted
    [predicted] = run_graph(export_graph(trees), rows, "log_throughput")
    np.testing.assert_allclose(predicted, trees.predict(rows), rtol=0, atol=1e-4)


def test_a_graph_is_read_back(fitted: Fitted) -> None:
    trees, rows = fitted
    again = read_graph(export_graph(trees))
    assert again.combination is trees.combination
    np.testing.assert_allclose(again.predict(rows), trees.predict(rows), rtol=0, atol=1e-5)


def test_a_cascade_gives_its_experts_and_weights() -> None:
    x, y = make_training()
    model = BinnedCascade(n_bins=3, rounds=0, max_iter=10).fit(x, y)
    experts, weights = run_graph(export_graph(serving_form(model)), x, "experts", "weights")
    for k, expert in enumerate(model.experts_):
        np.testing.assert_allclose(experts[:, k], expert.predict(x), atol=1e-5)
    np.testing.assert_allclose(weights, model.classifier_.predict_proba(x[:, model.classifier_columns_]), atol=1e-5)


def small() -> bytes:
    x, y = make_training()
    return export_graph(serving_form(BoostedTrees(max_iter=2, max_leaf_nodes=4).fit(x[:200], y[:200])))


GRAPH = small()


def changed(attribute: str, values: list[int]) -> bytes:
    model = onnx.ModelProto.FromString(GRAPH)
    [found] = [found for found in model.graph.node[0].attribute if found.name == attribute]
    del found.ints[:]
    found.ints.extend(values)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        ("nodes_featureids", [8] * 6),
        ("nodes_featureids", [-1] * 6),
        ("nodes_featureids", [2**40] * 6),
        ("nodes_truenodeids", [0] * 6),
        ("nodes_falsenodeids", [-1] * 6),
        ("nodes_falsenodeids", [2**62] * 6),
        ("tree_roots", [0] * 3_000_000),
        ("tree_roots", [-1, 0]),
    ],
)
def test_refuses_a_graph_that_leads_astray(attribute: str, values: list[int]) -> None:
    with pytest.raises(ValueError, match="not a graph that a night exported"):
        read_graph(changed(attribute, values))


@pytest.mark.parametrize("installed", [True, False])
def test_an_artifact_with_a_graph_is_read_where_onnx_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    (tmp_path / "model.onnx").write_bytes(GRAPH)
    if installed:
        model = load(tmp_path, features=8)
        assert isinstance(model, TreesModel)
        assert len(model.trees.forest.trees) == 1
        return
    monkeypatch.delitem(sys.modules, read_graph.__module__)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"model.onnx: .* retrain, or pip install 'leap-launch\[onnx\]'"):
        load(tmp_path, features=8)


@given(st.binary(max_size=400))
def test_no_bytes_pass_or_fail_in_another_way(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a graph that a night exported"):
        read_graph(data)


@given(st.data())
def test_a_graph_with_some_bytes_changed_is_refused_or_predicts(data: st.DataObject) -> None:
    graph = bytearray(GRAPH)
    for _ in range(data.draw(st.integers(1, 4))):
        graph[data.draw(st.integers(0, len(graph) - 1))] = data.draw(st.integers(0, 255))
    try:
        trees = read_graph(bytes(graph))
    except ValueError:
        return
    assert trees.predict(np.zeros((3, trees.forest.features), np.float32)).shape == (3,)
