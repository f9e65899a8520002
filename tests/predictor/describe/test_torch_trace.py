"""Traces of PyTorch, recorded, become definitions with the figures that PyTorch's own counter gave.

PyTorch is not in the lock. `traces.jsonl` holds what `torch_module.trace` made of eight modules, and beside each its
number of parameters and what `FlopCounterMode` counted over a run of the whole module, by the version that each line
names; `record_traces.py` wrote it. So the conversion is held to figures that it did not make, from real traces; that
PyTorch still traces so is not seen here. Products and convolutions carry their own FLOP by that counter in a trace;
those of recurrent layers are ours alone.
"""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from leap.predictor.describe.builder import NORM_FLOPS, NotDescribed
from leap.predictor.describe.torch_trace import Node, Tensor, Trace
from leap.predictor.features.operator_classes import operator_class
from leap.schemas.launch import ModelDefinition, Operator

PRODUCTS = {"matmul", "conv", "attention", "recurrent"}


class Recorded(msgspec.Struct):
    """A line of the file."""

    name: str
    torch: str
    parameters: int
    flops: int
    trace: Trace


LINES = (Path(__file__).parent / "traces.jsonl").read_bytes().splitlines()
RECORDED = {one.name: one for one in (msgspec.json.decode(line, type=Recorded) for line in LINES)}


def of_kind(model: ModelDefinition, kind: str) -> list[Operator]:
    return [each for each in model.operators if each.kind == kind]


@pytest.mark.parametrize("name", RECORDED)
def test_parameters_and_products_are_those_that_pytorch_counts(name: str) -> None:
    recorded = RECORDED[name]
    operators = recorded.trace.definition().operators
    assert sum(each.parameters for each in operators) == recorded.parameters
    assert sum(each.flops for each in operators if operator_class(each.kind) in PRODUCTS) == recorded.flops


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("mlp", {"matmul": 2, "relu": 1}),
        ("residual", {"conv": 7, "norm": 5, "relu": 5, "maxpool": 1, "add": 2, "mean": 1, "matmul": 1}),
        ("depthwise", {"conv": 3, "hardtanh": 1}),
        ("encoder", {"matmul": 4, "attention": 1, "norm": 2, "add": 2, "relu": 1}),
        ("lstm", {"embedding": 1, "lstm": 1, "matmul": 1}),
        ("gru", {"embedding": 1, "gru": 1, "matmul": 1}),
        ("recommender", {"matmul": 3, "relu": 1, "embedding_bag": 3}),
        ("decoder", {"embedding": 1, "norm": 1, "matmul": 4, "attention": 1, "add": 1}),
    ],
)
def test_operators_are_those_that_were_written(name: str, kinds: dict[str, int]) -> None:
    found = Counter(each.kind for each in RECORDED[name].trace.definition().operators)
    assert {kind: number for kind, number in found.items() if operator_class(kind) != "other"} == kinds


def test_what_is_no_product_by_hand() -> None:
    model = RECORDED["residual"].trace.definition()
    [pool], [mean] = of_kind(model, "maxpool"), of_kind(model, "mean")
    assert pool.flops == 16 * 16 * 16 * 3 * 3
    assert mean.flops == 64 * 8 * 8  # what it reads, not the 64 that it writes
    assert of_kind(model, "norm")[0].flops == NORM_FLOPS * 16 * 32 * 32
    assert not sum(each.flops for each in model.operators if operator_class(each.kind) == "other")


def test_a_recurrent_layer_uses_its_weights_at_each_of_7_steps() -> None:
    [layer] = of_kind(RECORDED["lstm"].trace.definition(), "lstm")
    first, second = 4 * 32 * (16 + 32), 4 * 32 * (32 + 32)
    assert layer.flops == 2 * 7 * (first + second)
    assert layer.parameters == first + second + 2 * 2 * 4 * 32


def test_a_bag_is_a_table_of_which_5_rows_are_read_and_added() -> None:
    bag = of_kind(RECORDED["recommender"].trace.definition(), "embedding_bag")[1]
    assert (bag.attributes, bag.parameters) == ({"rows": 2000, "dim": 16}, 32_000)
    assert (bag.shape, bag.flops, bag.bytes) == ((16,), 5 * 16, 4 * 16 * (5 + 1))


def test_a_tied_table_counts_once_and_in_its_own_precision() -> None:
    model = RECORDED["decoder"].trace.definition()
    [table] = of_kind(model, "embedding")
    assert (model.precision, table.parameters, of_kind(model, "matmul")[-1].parameters) == ("bf16", 6400, 0)
    assert table.bytes == 2 * 2 * 12 * 64
    assert [each.attributes for each in of_kind(model, "attention")] == [{"heads": 4, "head_dim": 16}]
    assert [of_kind(RECORDED["depthwise"].trace.definition(), "conv")[0].attributes] == [{"kernel": 3, "groups": 8}]


def test_edges_join_what_reads_to_what_makes() -> None:
    [first, second] = RECORDED["mlp"].trace.definition().edges
    assert (first, second) == ((0, 1), (1, 2))
    model = RECORDED["encoder"].trace.definition()
    attention = next(n for n, each in enumerate(model.operators) if each.kind == "attention")
    assert len([source for source, target in model.edges if target == attention]) == 3


def test_what_no_input_reaches_is_no_operator() -> None:
    one = Tensor((4,), "float32", 4)
    made = (Node("made", "exp", ("w",), ((4,),), (one,)), Node("y", "add", ("x", "made"), ((4,), (4,)), (one,)))
    folded = Trace("M", {"x": one}, {"w": "w"}, {"w": one}, made).definition()
    assert [(each.kind, each.parameters) for each in folded.operators] == [("add", 4)]
    with pytest.raises(NotDescribed, match="no operator is left"):
        Trace("M", {"x": one}, {"w": "w"}, {"w": one}, made[:1]).definition()
