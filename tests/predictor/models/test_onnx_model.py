"""Graph: what it takes, what it gives, and files that it must refuse."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper, numpy_helper, parser

from leap.predictor.models import onnx_model as graph
from leap.predictor.models.onnx_model import Graph

SUM = """
<ir_version: 10, opset_import: ["" : 18]>
sum (float[rows, 3] features) => (float[rows] log_throughput) {
    columns = Constant <value_ints = [1]> ()
    log_throughput = ReduceSum <keepdims = 0> (features, columns)
}
"""


def compiled(text: str) -> bytes:
    data: bytes = parser.parse_model(text).SerializeToString()
    return data


def test_predicts_rows_from_bytes_and_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(compiled(SUM))
    rows = np.array([[1, 2, 3], [0.5, 0, 0]], dtype=np.float32)
    for model in (Graph(path), Graph(path.read_bytes())):
        assert model.features == 3
        predicted = model.predict(rows)
        assert predicted.tolist() == [6.0, 0.5]
        assert predicted.dtype == np.float64
    assert Graph(path).predict(rows[:0]).tolist() == []


@pytest.mark.parametrize("rows", [np.zeros((2, 4), np.float32), np.zeros((2, 3)), np.zeros(3, np.float32)])
def test_refuses_rows_of_another_shape_or_type(rows: NDArray[np.floating]) -> None:
    with pytest.raises(ValueError, match=r"the graph takes float32 \(rows, 3\)"):
        Graph(compiled(SUM)).predict(rows)


@pytest.mark.parametrize("location", ["weights.bin", "/etc/passwd", "*/_ORT_MEM_ADDR_/*"])
def test_refuses_data_outside_the_file(location: str) -> None:
    model = parser.parse_model(SUM)
    tensor = onnx.TensorProto(name="columns", data_type=onnx.TensorProto.INT64, dims=[1])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["other"], value=tensor))
    with pytest.raises(ValueError, match=r"constant with field 1[34], which no model of Leap has; do not trust"):
        Graph(model.SerializeToString())
    del model.graph.node[0]
    model.graph.initializer.append(tensor)
    with pytest.raises(ValueError, match="graph with field 5, which no model of Leap has; do not trust"):
        Graph(model.SerializeToString())


def test_refuses_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MAX_BYTES", 100)
    path = tmp_path / "model.onnx"
    path.write_bytes(compiled(SUM))
    with pytest.raises(ValueError, match=r"model.onnx: over 100 bytes"):
        Graph(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"ORTM" * 100,
        compiled(SUM)[:-20],
        compiled(SUM.replace("ReduceSum", "NoSuchOperator")),
    ],
)
def test_refuses_what_is_not_a_graph(data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"cannot load it|do not trust its source"):
        Graph(data)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("ours", "other"),
    [("features", "rows"), ("log_throughput", "throughput"), ("float[rows, 3]", "double[rows, 3]")],
)
def test_refuses_another_signature(ours: str, other: str) -> None:
    text = SUM.replace(ours, other)
    if other.startswith("double"):
        text = text.replace("float[rows] ", "double[rows] ")
    with pytest.raises(ValueError, match="not `features` and `log_throughput`"):
        Graph(compiled(text))


def trees(**changed: list[int]) -> bytes:
    """One tree of two leaves over three features, with some of its numbers replaced."""
    numbers = {
        "tree_roots": [0], "nodes_featureids": [2], "nodes_truenodeids": [0], "nodes_trueleafs": [1],
        "nodes_falsenodeids": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0],
    }  # fmt: skip
    node = helper.make_node("TreeEnsemble", ["features"], ["trees"], domain="ai.onnx.ml", n_targets=1)
    for name, values in (numbers | changed).items():
        node.attribute.append(helper.make_attribute(name, values))
    for name, array in (
        ("nodes_modes", np.zeros(1, np.uint8)),
        ("nodes_splits", np.zeros(1, np.float32)),
        ("leaf_weights", np.array([1.0, 2.0], np.float32)),
    ):
        node.attribute.append(helper.make_attribute(name, numpy_helper.from_array(array)))
    text = SUM.replace('["" : 18]', '["" : 18, "ai.onnx.ml" : 5]')
    model = parser.parse_model(text.replace("ReduceSum <keepdims = 0> (features", "Squeeze (trees"))
    model.graph.node.insert(0, node)
    data: bytes = model.SerializeToString()
    return data


def test_a_tree_that_looks_at_the_row_predicts() -> None:
    rows = np.array([[9, 9, -1], [9, 9, 1]], np.float32)
    assert Graph(trees()).predict(rows).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"nodes_featureids": [3]}, "trees look at column 4 of 3"),
        ({"nodes_featureids": [2**40]}, "trees look at column|cannot load it"),
        ({"nodes_featureids": [-1]}, "not plain integers|look at no features"),
        ({"tree_roots": [0] * 3_000_000}, "more trees than nodes"),
        ({"nodes_truenodeids": [0], "nodes_trueleafs": [0]}, "cannot load it"),
    ],
)
def test_refuses_trees_that_lead_astray(changed: dict[str, list[int]], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Graph(trees(**changed))


LOOP = """
    often = Constant <value_int = 9223372036854775807> ()
    always = Constant <value_ints = [1]> ()
    out = Loop (often, always, features) <body = body (int64 i, bool go, float[a, b] x) => (bool go2, float[a, b] y) {
        go2 = Identity (go)
        y = Add (x, x)
    }>
    log_throughput = Squeeze (out, always)
"""
BOMBS = {
    "endless loop": LOOP,
    "constant of a terabyte": "shape = Constant <value_ints = [1048576, 1048576]> ()\n big = ConstantOfShape (shape)"
    "\n log_throughput = ReduceSum <keepdims = 0> (features)",
    "doubling": "a = Concat <axis = 0> (features, features)\n log_throughput = ReduceSum <keepdims = 0> (a)",
    "repeating": "often = Constant <value_ints = [1000000000, 1]> ()\n a = Tile (features, often)"
    "\n log_throughput = ReduceSum <keepdims = 0> (a)",
    "500 operators too many": "\n".join(f"x{n} = Add (features, features)" for n in range(1012))
    + "\n log_throughput = ReduceSum <keepdims = 0> (x1)",
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_refuses_what_would_take_memory_or_time_without_end(body: str) -> None:
    head = SUM.partition("{")[0]
    model = parser.parse_model(f"{head}{{ {body} }}")
    with pytest.raises(ValueError, match=r"which no model of Leap has|something else than trees|over the limit of 512"):
        Graph(model.SerializeToString())


def test_refuses_functions_and_unfolding_constants() -> None:
    model = parser.parse_model(SUM)
    sparse = onnx.SparseTensorProto(dims=[2**40])
    constant = helper.make_node("Constant", [], ["big"])
    constant.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse)
    model.graph.node.append(constant)
    with pytest.raises(ValueError, match="attribute with field 22"):
        Graph(model.SerializeToString())
    model = parser.parse_model(SUM)
    model.functions.append(helper.make_function("d", "f", [], [], [], [helper.make_opsetid("", 18)]))
    with pytest.raises(ValueError, match="model with field 25"):
        Graph(model.SerializeToString())
    model = parser.parse_model(SUM)
    square = numpy_helper.from_array(np.zeros((2, 2), np.float32))
    model.graph.node.append(helper.make_node("Constant", [], ["square"], value=square))
    with pytest.raises(ValueError, match="a constant of 2 dimensions"):
        Graph(model.SerializeToString())
    model = parser.parse_model(SUM)
    model.graph.node.append(helper.make_node("Constant", [], ["long"], value_floats=[0.0] * 20_000))
    with pytest.raises(ValueError, match="over the limit of 65536"):
        Graph(model.SerializeToString())


def field(number: int, data: bytes) -> bytes:
    """A field of bytes, as protobuf writes it."""
    length = bytes([len(data) & 127 | 128, len(data) >> 7])
    return bytes([number << 3 | 2]) + length + data


def with_node(node: bytes, model: bytes = b"") -> bytes:
    """A model with one more operator in front, given by its bytes."""
    parsed = onnx.ModelProto.FromString(model or compiled(SUM))
    graph = parsed.graph.SerializeToString()
    parsed.ClearField("graph")
    return bytes(parsed.SerializeToString()) + field(7, field(1, node) + graph)


ONES = b"\x10\x01" + field(9, np.ones(4, np.float32).tobytes())
SQUARES = {
    "packed": field(5, field(1, b"\x02\x02") + ONES),
    "scattered": field(5, b"\x08\x02") + field(5, b"\x08\x02" + ONES),
}


@pytest.mark.parametrize("square", SQUARES.values(), ids=SQUARES)
def test_refuses_dimensions_however_they_are_written(square: bytes) -> None:
    """Two of 65,536 values, along different axes, would add up to terabytes when the graph is loaded."""
    attribute = field(1, b"value") + square + b"\xa0\x01\x04"
    node = field(2, b"square") + field(4, b"Constant") + field(5, attribute)
    parsed = onnx.ModelProto.FromString(with_node(node))
    assert numpy_helper.to_array(parsed.graph.node[0].attribute[0].t).shape == (2, 2)
    with pytest.raises(ValueError, match="a constant of 2 dimensions"):
        Graph(with_node(node))


def test_refuses_an_operator_under_the_name_of_another() -> None:
    """The second name is written as a number, which a parser passes over."""
    node = helper.make_node("ConstantOfShape", ["columns"], ["big"]).SerializeToString() + b"\x25Clip"
    assert onnx.NodeProto.FromString(node).op_type == "ConstantOfShape"
    with pytest.raises(ValueError, match="operator with a number for its op_type"):
        Graph(with_node(node))


def test_refuses_a_message_of_very_many_fields() -> None:
    node = helper.make_node("Add", ["features", "features"], ["twice"])
    node.input.extend([""] * 16_384)
    model = parser.parse_model(SUM)
    model.graph.node.append(node)
    with pytest.raises(ValueError, match="operator of over 16384 fields"):
        Graph(model.SerializeToString())


@pytest.mark.parametrize("targets", [0, 2, 10**9])
def test_refuses_trees_that_fill_the_memory_with_targets(targets: int) -> None:
    model = onnx.ModelProto.FromString(trees())
    [attribute] = [one for one in model.graph.node[0].attribute if one.name == "n_targets"]
    attribute.i = targets
    with pytest.raises(ValueError, match="trees of another number of targets than one"):
        Graph(model.SerializeToString())


def test_refuses_an_attribute_of_trees_under_two_names() -> None:
    model = onnx.ModelProto.FromString(trees())
    attribute = field(1, b"aggregate_function") + b"\x18\x02\xa0\x01\x02" + field(1, b"n_targets")
    assert onnx.AttributeProto.FromString(attribute).name == "n_targets"
    node = model.graph.node.pop(0).SerializeToString()
    with pytest.raises(ValueError, match="'aggregate_function' with another name behind it"):
        Graph(with_node(bytes(node) + field(5, attribute), model.SerializeToString()))


@given(st.binary(max_size=400))
def test_no_bytes_pass_or_fail_in_another_way(data: bytes) -> None:
    with pytest.raises(ValueError):
        Graph(data)


@given(st.data())
def test_a_graph_with_some_bytes_changed_is_refused_or_predicts(data: st.DataObject) -> None:
    graph = bytearray(trees())
    for _ in range(data.draw(st.integers(1, 4))):
        graph[data.draw(st.integers(0, len(graph) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = Graph(bytes(graph))
    except ValueError:
        return
    assert found.features >= 3
