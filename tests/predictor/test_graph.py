"""Graph: what it takes, what it gives, and files that it must refuse."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import parser

from predictor import graph
from predictor.graph import Graph

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
    del model.graph.node[0]
    model.graph.initializer.append(tensor)
    with pytest.raises(ValueError, match="has data outside itself"):
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
    with pytest.raises(ValueError, match="cannot load it"):
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
