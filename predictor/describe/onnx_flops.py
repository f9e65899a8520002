"""Operations of ONNX operators, from the shapes of what they read and write."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from onnx import NodeProto, helper

from leap.predictor.describe.builder import NORM_FLOPS
from leap.schemas.errors import LeapError

Shape = tuple[int, ...]


class Unknown(LeapError, ValueError):
    """A number of operations that the shapes do not tell."""


class Tensor(NamedTuple):
    """Shape, -1 where a dimension is open and None where the rank is; and type of an element."""

    shape: Shape | None = None
    type: int = 0


#: What only moves or selects values.
_MOVES = frozenset({
    "Cast", "CastLike", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
    "Identity", "OneHot", "Pad", "Reshape", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Tile", "Transpose", "Unsqueeze", "Dropout", "Compress", "ReverseSequence", "NonZero", "Trilu",
})  # fmt: skip
_NORMS = frozenset({
    "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization",
    "MeanVarianceNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "LRN",
})  # fmt: skip
_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
#: What multiplies and adds much more often than it writes, by no formula below.
_NO_FORMULA = frozenset({"DFT", "Det", "LinearAttention", "QLinearConv", "STFT"})
_READS_ALL = frozenset({"GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "ArgMax", "ArgMin", "TopK"})
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def elements(shape: Shape | None) -> int:
    """Number of values; a dimension that is open counts as one."""
    return math.prod(max(size, 1) if size else 0 for size in shape) if shape is not None else 0


def kind(op_type: str, from_table: bool) -> str:
    """Kind of operator, by the names that :data:`leap.predictor.features.operator_classes.CLASSES` knows.

    >>> kind("MatMul", False), kind("Gather", True), kind("Gather", False)
    ('matmul', 'embedding', 'take')
    """
    if op_type == "Gather":
        return "embedding" if from_table else "take"
    return op_type.lower()[:512]


def attributes(node: NodeProto, inputs: Sequence[Tensor], from_table: bool) -> dict[str, float]:
    """Numbers that the kind has."""
    if from_table and inputs[0].shape and len(inputs[0].shape) == 2:
        return {"rows": float(inputs[0].shape[0]), "dim": float(inputs[0].shape[1])}
    if node.op_type in ("Conv", "ConvTranspose") and inputs[1].shape:
        return {"kernel": float(inputs[1].shape[-1]), "groups": float(_integer(node, "group", 1))}
    if node.op_type == "Attention":
        heads, _, dim = _attention(node, inputs)
        return {"heads": float(heads), "head_dim": float(dim)}
    return {}


def flops(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> float:
    """Floating point operations of one run.

    Raises
    ------
    Unknown
        If a multiplication's shape is open, or its formula is not here.
    """
    name = node.op_type
    if name in _MOVES:
        return 0.0
    if name in _FORMULAS:
        return float(_FORMULAS[name](node, inputs, outputs))
    if name in _NO_FORMULA:
        raise Unknown("its number of operations is not known; export the model without it")
    if name in _NORMS:
        return float(NORM_FLOPS * elements(outputs[0].shape))
    if name in _READS_ALL or name.startswith("Reduce"):
        return float(elements(inputs[0].shape))
    if name in _POOLS:
        return float(elements(outputs[0].shape) * math.prod(_integers(node, "kernel_shape")))
    if node.domain not in ("", "ai.onnx"):
        raise Unknown(f"operators of {node.domain[:100]!r} are not known; export the model before it is optimised")
    return float(sum(elements(tensor.shape) for tensor in outputs))


def _known(tensor: Tensor, what: str) -> Shape:
    if tensor.shape is None or -1 in tensor.shape:
        raise Unknown(f"the shape of its {what} is open, {tensor.shape}; export with fixed shapes")
    return tensor.shape


def _matmul(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return 2 * elements(_known(outputs[0], "output")) * _known(inputs[0], "first input")[-1]


def _gemm(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    inner = _known(inputs[0], "first input")[0 if _integer(node, "transA", 0) else 1]
    return 2 * elements(_known(outputs[0], "output")) * inner


def _conv(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return 2 * elements(_known(outputs[0], "output")) * elements(_known(inputs[1], "kernel")[1:])


def _conv_transpose(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return 2 * elements(_known(inputs[0], "input")) * elements(_known(inputs[1], "kernel")[1:])


def _recurrent(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    steps, samples, _ = _known(inputs[0], "input")
    into, within = _known(inputs[1], "weights"), _known(inputs[2], "recurrent weights")
    if into[1] != _GATES[node.op_type] * within[2]:
        raise Unknown(f"weights {into} and {within} do not fit")
    return 2 * steps * samples * (elements(into) + elements(within))


def _einsum(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    equation = next(
        helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name == "equation"
    ).decode()
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if "..." in equation or len(terms) != len(inputs):
        raise Unknown(f"equation {equation[:100]!r} is not of plain letters, one term an input")
    extent: dict[str, int] = {}
    for term, tensor in zip(terms, inputs, strict=True):
        extent |= zip(term, _known(tensor, "input"), strict=True)
    return max(1, 2 * (len(terms) - 1)) * math.prod(extent.values())


def _attention(node: NodeProto, inputs: Sequence[Tensor]) -> tuple[int, int, int]:
    """Heads of the queries, values of the queries, and dimension of a head."""
    query = _known(inputs[0], "query")
    if len(query) == 4:
        return query[1], math.prod(query), query[3]
    heads = _integer(node, "q_num_heads", 0)
    if len(query) != 3 or heads < 1:
        raise Unknown("queries of three dimensions need q_num_heads")
    return heads, math.prod(query), query[2] // heads


def _attend(node: NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    _, queries, _ = _attention(node, inputs)
    return 2 * (queries + elements(_known(outputs[0], "output"))) * _known(inputs[1], "keys")[-2]


_Formula = Callable[[NodeProto, Sequence[Tensor], Sequence[Tensor]], int]
_FORMULAS: dict[str, _Formula] = {
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "ConvInteger": _conv,
    "CausalConvWithState": _conv,
    "DeformConv": _conv,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Einsum": _einsum,
    "Attention": _attend,
}


def _integer(node: NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _integers(node: NodeProto, name: str) -> list[int]:
    return next((list(attribute.ints) for attribute in node.attribute if attribute.name == name), [1])
