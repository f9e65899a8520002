"""ONNX files that are wrong, damaged or meant to do harm: refused with a reason, or read without it."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from leap.predictor.describe.builder import NotDescribed
from leap.predictor.describe.onnx_file import describe
from tests.predictor.describe.test_onnx import FLOAT, LIGHT, written


def hostile(change: Callable[[onnx.ModelProto], None], folder: Path) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    path = written(folder, nodes, {"x": [1, 8]}, {"z": [1, 4]}, {"w": (8, 4)})
    model = onnx.load_model_from_string(path.read_bytes())
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


def _cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "z"


def _twice(model: onnx.ModelProto) -> None:
    model.graph.node[1].output[0] = "y"


def _functions(model: onnx.ModelProto) -> None:
    model.functions.add(name="f", domain="d")


def _branches(model: onnx.ModelProto) -> None:
    for _ in range(5000):
        model.graph.node[1].attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.name = "inner"


def _nested(model: onnx.ModelProto) -> None:
    graph = model.graph
    for _ in range(200):
        graph = graph.node.add(op_type="If").attribute.add(name="b", type=onnx.AttributeProto.GRAPH).g
        graph.name = "inner"


def _crowd(model: onnx.ModelProto) -> None:
    for number in range(100_000):
        model.graph.node.add(op_type="Relu", input=["y"], output=[f"n{number}"])


def _huge(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [2**62, 2**62]


def _many_large(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].dims[:] = [2**40, 2**40]
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**40
    model.graph.ClearField("output")
    model.graph.output.append(helper.make_tensor_value_info("z", FLOAT, None))


def _negative(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -8


def _strange(model: onnx.ModelProto) -> None:
    model.graph.node[1].domain, model.graph.node[1].op_type = "com.example", "FusedEverything"
    model.opset_import.add(domain="com.example", version=1)


def _too_few(model: onnx.ModelProto) -> None:
    node = model.graph.node[1]
    node.op_type = "Einsum"
    model.graph.ClearField("output")
    model.graph.output.append(helper.make_tensor_value_info("z", FLOAT, None))


def _not_text(model: onnx.ModelProto) -> None:
    node = model.graph.node[1]
    model.graph.node[1].ParseFromString(node.SerializeToString().replace(b"Relu", b"R\xffxx"))


def _misfit(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [4, 8]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_cycle, "reads 'z' before anything makes it"),
        (_twice, "'y' is made twice"),
        (_functions, "inline them first"),
        (_branches, "no fixed number of operations"),
        (_nested, "nested too deeply"),
        (_crowd, "100,002 nodes, over the 100,000"),
        (_huge, "a dimension is not from 0 to"),
        (_negative, "dimension 1 is not from 1 to"),
        (_strange, "operators of 'com.example' are not known"),
        (_misfit, "shapes do not fit"),
        (_too_few, "shapes do not fit|is missing"),
        (_not_text, "a name is not text"),
    ],
)
def test_what_cannot_be_described_is_refused(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None], said: str
) -> None:
    with pytest.raises(NotDescribed, match=said):
        describe(hostile(change, tmp_path), {})


def test_shapes_beyond_a_definition_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotDescribed, match=r"\$.operators"):
        describe(hostile(_many_large, tmp_path), {})


def test_weights_beside_the_file_are_never_opened(tmp_path: Path) -> None:
    def outside(model: onnx.ModelProto) -> None:
        weight = model.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="../../nowhere/weights.bin")
        weight.external_data.add(key="length", value=str(2**62))
        weight.dims[:] = [8, 2**36]
        model.graph.ClearField("output")
        model.graph.output.append(helper.make_tensor_value_info("z", FLOAT, None))

    model = describe(hostile(outside, tmp_path), {})
    assert model.operators[0].parameters == 8 * 2**36


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=20))
def test_a_damaged_file_is_described_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    data = bytearray((LIGHT / "light_zfnet512.onnx").read_bytes())
    for place, value in changes:
        data[place % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(data)
    try:
        assert describe(path, {}).operators
    except NotDescribed as refused:
        assert "damaged.onnx" in str(refused)


@given(st.binary(max_size=200))
def test_any_bytes_are_described_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.onnx"
    path.write_bytes(data)
    with pytest.raises(NotDescribed):
        describe(path, {})
