"""Models from ONNX files, against figures that others published and against counting by hand."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from leap.predictor.describe.builder import NotDescribed
from leap.predictor.describe.onnx_file import describe
from leap.predictor.features.architecture import summary
from leap.schemas.launch import ModelDefinition

FLOAT = TensorProto.FLOAT
INTEGERS = {"x": [1, 5, 8], "i": [1, 3, 8, 8]}
LIGHT = Path(str(files("onnx.backend.test"))) / "data" / "light"  # well-known models whose weights are constants


def written(
    folder: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int | str]],
    weights: dict[str, tuple[int, ...]] | None = None,
) -> Path:
    """A file; weights are zeros."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in (weights or {}).items()],
    )
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]).SerializeToString())
    return path


def only(model: ModelDefinition, kind: str) -> list[float]:
    return [each.flops for each in model.operators if each.kind == kind]


@pytest.mark.parametrize(
    ("name", "parameters", "giga"),
    [
        ("bvlc_alexnet", 60_965_224, None),  # Caffe's reference model
        ("inception_v1", 6_998_552, None),  # Caffe's GoogLeNet
        ("resnet50", 25_557_032, 4.089),  # torchvision's table: parameters and 10^9 multiplications and additions
        ("squeezenet", 1_235_496, 0.349),
        ("vgg19", 143_667_240, 19.632),
    ],
)
def test_known_models_are_as_published(name: str, parameters: int, giga: float | None) -> None:
    model = describe(LIGHT / f"light_{name}.onnx", {})
    assert summary(model)["parameters"] == parameters
    if giga:
        products = sum(each.flops for each in model.operators if each.kind in ("conv", "gemm"))
        assert products / 2e9 == pytest.approx(giga, abs=5e-4)


def test_two_layers_by_hand(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    path = written(tmp_path, nodes, {"x": ["n", 5, 8]}, {"y": ["n", 5, 4]}, {"w": (8, 16), "b": (16,), "v": (16, 4)})
    model = describe(path, {})
    first, bias, relu, last = model.operators
    assert (first.shape, first.parameters, first.flops, first.bytes) == ((5, 16), 128, 2 * 5 * 8 * 16, 4 * 5 * (8 + 16))
    assert (bias.parameters, bias.flops) == (16, 80)
    assert (relu.parameters, relu.flops, relu.bytes) == (0, 80, 4 * 160)
    assert (last.parameters, last.flops) == (64, 2 * 5 * 16 * 4)
    assert model.edges == ((0, 1), (1, 2), (2, 3))
    assert model.precision == "fp32"


def test_a_batch_is_taken_out(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"])]
    path = written(tmp_path, nodes, {"x": [32, 8]}, {"y": [32, 4]}, {"w": (8, 4)})
    [one] = describe(path, {}).operators
    assert (one.flops, one.shape, one.parameters) == (2 * 8 * 4, (4,), 32)
    [half] = describe(path, {"batch": 16}).operators
    assert (half.flops, half.shape) == (2 * 2 * 8 * 4, (32, 4))


def test_operators_of_each_formula_by_hand(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], group=2, pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("ConvTranspose", ["a", "t"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("Einsum", ["c", "c"], ["d"], equation="bchw,bcHw->bchH"),
        helper.make_node("ReduceMean", ["d"], ["e"]),
        helper.make_node("InstanceNormalization", ["b", "s", "h"], ["f"]),
    ]
    weights: dict[str, tuple[int, ...]] = {"k": (6, 2, 3, 3), "t": (6, 5, 2, 2), "s": (5,), "h": (5,)}
    path = written(tmp_path, nodes, {"x": [1, 4, 16, 16]}, {"e": [1, 1, 1, 1], "f": [1, 5, 9, 9]}, weights)
    model = describe(path, {})
    assert only(model, "conv") == [2 * 6 * 8 * 8 * 2 * 3 * 3]
    assert only(model, "convtranspose") == [2 * 6 * 8 * 8 * 5 * 2 * 2]
    assert only(model, "maxpool") == [5 * 7 * 7 * 9]
    assert only(model, "einsum") == [2 * 5 * 7 * 7 * 7]
    assert only(model, "reducemean") == [5 * 7 * 7]
    assert only(model, "instancenormalization") == [5 * 5 * 9 * 9]


def test_a_deformable_convolution_by_hand(tmp_path: Path) -> None:
    nodes = [helper.make_node("DeformConv", ["x", "k", "o"], ["y"], group=2, pads=[1, 1, 1, 1])]
    inputs: dict[str, list[int | str]] = {"x": [1, 32, 16, 16], "o": [1, 18, 16, 16]}
    path = written(tmp_path, nodes, inputs, {"y": [1, 64, 16, 16]}, {"k": (64, 16, 3, 3)})
    assert only(describe(path, {}), "deformconv") == [2 * 64 * 16 * 16 * 3 * 3 * 16]  # 4,718,592


def test_products_of_integers_by_hand(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("MatMulInteger", ["x", "w"], ["y"]),
            helper.make_node("QLinearMatMul", ["x", "s", "z", "w", "s", "z", "s", "z"], ["q"]),
            helper.make_node("ConvInteger", ["i", "k"], ["c"]),
        ],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.UINT8, shape) for name, shape in INTEGERS.items()],
        [
            helper.make_tensor_value_info("y", TensorProto.INT32, [1, 5, 4]),
            helper.make_tensor_value_info("q", TensorProto.UINT8, [1, 5, 4]),
            helper.make_tensor_value_info("c", TensorProto.INT32, [1, 6, 7, 7]),
        ],
        [
            numpy_helper.from_array(np.zeros((8, 4), np.uint8), "w"),
            numpy_helper.from_array(np.zeros((6, 3, 2, 2), np.uint8), "k"),
            numpy_helper.from_array(np.array(1, np.float32), "s"),
            numpy_helper.from_array(np.array(0, np.uint8), "z"),
        ],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    flops = {each.kind: each.flops for each in describe(path, {}).operators}
    assert flops == {
        "matmulinteger": 2 * 5 * 4 * 8, "qlinearmatmul": 2 * 5 * 4 * 8, "convinteger": 2 * 6 * 7 * 7 * 3 * 2 * 2,
    }  # fmt: skip


def test_a_product_without_a_formula_is_said_not_guessed(tmp_path: Path) -> None:
    path = written(tmp_path, [helper.make_node("Det", ["x"], ["y"])], {"x": [1, 8, 8]}, {"y": [1]})
    with pytest.raises(NotDescribed, match=r"\(Det\): its number of operations is not known; export"):
        describe(path, {})


@pytest.mark.parametrize(("cell", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_by_hand(tmp_path: Path, cell: str, gates: int) -> None:
    nodes = [helper.make_node(cell, ["x", "w", "r"], ["y"], hidden_size=5)]
    weights: dict[str, tuple[int, ...]] = {"w": (1, gates * 5, 3), "r": (1, gates * 5, 5)}
    path = written(tmp_path, nodes, {"x": [7, 1, 3]}, {"y": [7, 1, 1, 5]}, weights)
    [one] = describe(path, {"batch": 1}).operators
    assert one.flops == 2 * 7 * gates * 5 * (3 + 5)
    assert one.parameters == gates * 5 * 8


def test_attention_by_hand(tmp_path: Path) -> None:
    nodes = [helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=4)]
    shape: list[int | str] = ["n", "t", 32]
    path = written(tmp_path, nodes, {"q": shape, "k": shape, "v": shape}, {"y": shape})
    [one] = describe(path, {"t": 10}).operators
    assert one.flops == 4 * 10 * 10 * 32
    assert one.attributes == {"heads": 4, "head_dim": 8}


def test_a_table_that_is_read_by_position_is_an_embedding(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Gather", ["w", "ids"], ["y"])],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["n", "length", 8])],
        [numpy_helper.from_array(np.zeros((1000, 8), np.float16), "w")],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(NotDescribed, match="say the size of length, as in --size length=128"):
        describe(path, {})
    model = describe(path, {"length": 6})
    [one] = model.operators
    assert (one.kind, one.parameters, one.flops, one.shape) == ("embedding", 8000, 0, (6, 8))
    assert one.attributes == {"rows": 1000, "dim": 8}
    assert model.precision == "fp16"


def test_what_shapes_alone_decide_is_no_operator(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(np.zeros((8, 2), np.float32))),
        helper.make_node("Reshape", ["x", "s"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    model = describe(written(tmp_path, nodes, {"x": ["n", 8]}, {"y": ["n", 2]}), {})
    assert [(each.kind, each.parameters) for each in model.operators] == [("reshape", 0), ("matmul", 16)]
