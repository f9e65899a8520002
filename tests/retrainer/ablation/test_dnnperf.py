"""The network over the operator graph: what goes in, what attention does, and that it learns."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from leap.retrainer.ablation.neural import dnnperf
from leap.retrainer.ablation.neural import training as networks
from leap.retrainer.ablation.neural.dnnperf import DNNPerf, attention, embed, graph_network
from leap.retrainer.ablation.neural.operator_graph import MAX_NODES, graphs
from leap.retrainer.ablation.problem import FleetSource
from leap.schemas.launch import ModelDefinition, Operator
from tests.builders import MODEL


def test_nodes_and_edges_are_those_of_the_definition() -> None:
    found = graphs({"m": MODEL}).raw
    assert found.graph.tolist() == [0, 1, 1, 1, 1]
    assert list(zip(found.source.tolist(), found.target.tolist(), strict=True))[:4] == [(1, 2), (2, 3), (3, 4), (1, 4)]
    assert list(zip(found.target.tolist(), found.source.tolist(), strict=True))[4:] == [(1, 2), (2, 3), (3, 4), (1, 4)]
    np.testing.assert_allclose(found.edges[:4, 0], np.log1p([16, 32, 32, 16]), rtol=1e-6)
    assert found.edges[:, 1].tolist() == [1] * 4 + [0] * 4
    linear = found.nodes[2]
    assert linear[0] == 1 and linear[:8].sum() == 1
    np.testing.assert_allclose(linear[8:], np.log1p([1, 544, 1024, 2400, 32]), rtol=1e-6)


def test_a_large_model_becomes_groups_that_hold_all_of_it() -> None:
    layer = Operator(kind="linear", shape=(2,), parameters=10, flops=7.0)
    count = 5 * MAX_NODES
    chain = ModelDefinition(operators=(layer,) * count, edges=tuple((i, i + 1) for i in range(count - 1)))
    found = graphs({"deep": chain}).raw
    assert len(found.nodes) == 1 + MAX_NODES
    assert len(found.source) == 2 * (MAX_NODES - 1)
    np.testing.assert_allclose(np.expm1(found.nodes[1:, 9]).sum(), 10 * count, rtol=1e-4)


def test_attention_shares_sum_to_one_at_every_node() -> None:
    target = np.array([0, 0, 0, 2, 2], dtype=np.int32)
    share = np.asarray(attention(np.array([0.0, np.log(2.0), 0.0, 500.0, 500.0]), target, 3))
    np.testing.assert_allclose(share, [0.25, 0.5, 0.25, 0.5, 0.5], rtol=1e-6)


def test_a_graph_is_known_by_its_edges_not_by_the_order_of_its_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dnnperf, "LAYERS", 1)
    order = [2, 0, 3, 1]
    place = {old: new for new, old in enumerate(order)}
    shuffled = replace_operators(MODEL, order, place)
    cut = ModelDefinition(operators=MODEL.operators, edges=MODEL.edges[1:], precision=MODEL.precision)
    found = graphs({"m": MODEL, "shuffled": shuffled, "cut": cut}).raw
    network = graph_network(np.random.default_rng(0))
    _, first, same, other = np.asarray(jax.jit(embed)(network, found))
    np.testing.assert_allclose(first, same, atol=1e-5)
    assert np.abs(first - other).max() > 0.01


def replace_operators(model: ModelDefinition, order: list[int], place: dict[int, int]) -> ModelDefinition:
    edges = tuple((place[a], place[b]) for a, b in model.edges)
    return ModelDefinition(operators=tuple(model.operators[i] for i in order), edges=edges)


def test_it_learns_and_does_not_look_at_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dnnperf, "LAYERS", 1)
    monkeypatch.setattr(networks, "BLOCKS", 1)
    monkeypatch.setattr(networks, "MAX_EPOCHS", 25)
    problem = FleetSource(days=5, per_day=150).problem(0)
    ((training, held_out),) = problem.folds()
    few = dict(list(problem.models.items())[:20])  # the others are as without a definition
    model = DNNPerf(few, seed=1).fit(training)
    predicted = model.predict(held_out).mean
    constant = np.median(np.abs(held_out.y - training.y.mean()))
    assert np.median(np.abs(predicted - held_out.y)) < 0.5 * constant
    unanswered = replace(held_out, y=np.full(len(held_out), np.nan))
    np.testing.assert_array_equal(model.predict(unanswered).mean, predicted)
