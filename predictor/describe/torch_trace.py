"""Model definitions from what PyTorch traced, as plain data: nothing here needs PyTorch."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from leap.predictor.describe.builder import NORM_FLOPS, Graph
from leap.schemas.launch import ModelDefinition, Operator

#: Operator of the traced graph to its kind; others keep their name.
KINDS = {
    "mm": "matmul", "addmm": "matmul", "bmm": "matmul", "baddbmm": "matmul", "_grouped_mm": "matmul",
    "grouped_mm_fallback": "matmul", "convolution": "conv", "scaled_dot_product_attention": "attention",
    "native_layer_norm": "norm", "native_group_norm": "norm", "_native_batch_norm_legit_no_training": "norm",
    "_native_batch_norm_legit": "norm", "rms_norm": "norm", "_softmax": "softmax",
    "max_pool2d_with_indices": "maxpool", "max_pool3d_with_indices": "maxpool", "avg_pool1d": "averagepool",
    "avg_pool2d": "averagepool", "avg_pool3d": "averagepool", "embedding": "embedding",
    "_embedding_bag": "embedding_bag", "_embedding_bag_forward_only": "embedding_bag",
}  # fmt: skip
#: What only moves values.
MOVES = frozenset({
    "view", "permute", "unsqueeze", "squeeze", "expand", "clone", "slice", "select", "cat", "split_with_sizes", "alias",
    "_to_copy", "index", "index_select", "gather", "embedding", "constant_pad_nd", "repeat", "copy", "detach", "flip",
    "diagonal", "as_strided", "select_scatter", "slice_scatter", "scatter", "index_put", "pixel_shuffle",
    "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad2d",
    "replication_pad3d",
})  # fmt: skip
#: Layers whose weights are used anew at every step of a sequence.
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
#: Products in which each row has the weights of one expert, by the row's place.
GROUPED = frozenset({"_grouped_mm", "grouped_mm_fallback"})
PRECISIONS = {"float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}


class Tensor(msgspec.Struct, frozen=True, array_like=True):
    """Shape and type of a tensor, and bytes of one of its values."""

    shape: tuple[int, ...]
    type: str
    value_bytes: int

    @property
    def values(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all values."""
        return self.values * self.value_bytes


class Node(msgspec.Struct, frozen=True):
    """A call in the order of computation.

    Attributes
    ----------
    operator
        Name without its overload.
    inputs
        Names of the nodes that it reads, each once.
    arguments
        What it was called with: a tensor as its shape, a list of tensors as theirs.
    outputs
        Tensors that it makes; none where it makes anything else.
    flops
        By PyTorch's own counter, where that has a formula.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    arguments: tuple[Any, ...]
    outputs: tuple[Tensor, ...]
    flops: float | None = None


class Trace(msgspec.Struct, frozen=True):
    """What PyTorch says of a module.

    Attributes
    ----------
    name
        Of the module's class.
    inputs
        Node of each input to its tensor.
    weights
        Node of each parameter to the first node of the same parameter: a tied one goes by several names.
    constants
        Node of each parameter and of all else that is given but no input, to its tensor.
    nodes
        Calls.
    """

    name: str
    inputs: dict[str, Tensor]
    weights: dict[str, str]
    constants: dict[str, Tensor]
    nodes: tuple[Node, ...]

    def definition(self) -> ModelDefinition:
        """The operators that an input reaches, and their edges.

        Raises
        ------
        NotDescribed
            If no operator is left, or there are too many.
        """
        return _Reading(self).definition()


class _Reading:
    """One pass over the nodes of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._nodes = trace.nodes
        self._tensors: dict[str, tuple[Tensor, ...]] = {
            name: (tensor,) for name, tensor in (trace.inputs | trace.constants).items()
        }
        self._maker = dict.fromkeys(trace.inputs, Graph.input)
        # Node, if no input reaches it, to the weights that it is made of.
        self._weights = {name: {first} for name, first in trace.weights.items()}
        self._weights |= {name: set() for name in trace.constants.keys() - trace.weights.keys()}
        # Values of each weight that no operator has read yet.
        self._parameters = {first: trace.constants[first].values for first in trace.weights.values()}
        of_type: dict[str, int] = {}
        for first, values in self._parameters.items():
            of_type[trace.constants[first].type] = of_type.get(trace.constants[first].type, 0) + values
        most = max(of_type, key=lambda kind: of_type[kind], default="")
        self._made = Graph(trace.name, PRECISIONS.get(most, "fp32"))

    def definition(self) -> ModelDefinition:
        for node in self._nodes:
            sources = sorted({self._maker[source] for source in node.inputs if source in self._maker})
            if not sources:
                self._weights[node.name] = self._behind(node)
            elif node.operator == "getitem" or not node.outputs:  # one of several outputs; a context
                self._maker[node.name] = sources[-1]
            else:
                self._maker[node.name] = self._made.add(self._operator(node), sources)
            self._tensors[node.name] = node.outputs
        return self._made.definition()

    def _operator(self, node: Node) -> Operator:
        read = [tensor for source in node.inputs if source not in self._weights for tensor in self._tensors[source]]
        shape = node.outputs[0].shape
        return Operator(
            kind=KINDS.get(node.operator, node.operator),
            name=node.name[:512],
            shape=shape[1:] if shape[:1] == (1,) else shape,
            parameters=sum(self._parameters.pop(name, 0) for name in self._behind(node)),
            flops=float(_flops(node, read)),
            bytes=float(_bytes(node, read)),
            attributes=_attributes(node),
        )

    def _behind(self, node: Node) -> set[str]:
        return {name for source in node.inputs for name in self._weights.get(source, ())}


def _rows_read(node: Node) -> int:
    """Values of the rows that a lookup reads from its table."""
    table, rows = node.arguments[:2]
    return int(math.prod(rows) * table[1])


def _flops(node: Node, read: Sequence[Tensor]) -> float:
    kind, values = KINDS.get(node.operator, node.operator), node.outputs[0].values
    if node.operator in MOVES:
        return 0
    if node.flops is not None:
        return node.flops
    if node.operator in RECURRENT:
        sequence, _, weights = node.arguments[:3]
        return float(2 * math.prod(sequence[:-1]) * sum(math.prod(shape) for shape in weights if len(shape) == 2))
    if node.operator in GROUPED:
        rows, weights = node.arguments[:2]
        return float(2 * math.prod(rows) * weights[-1])
    if kind == "embedding_bag":
        return _rows_read(node)
    if kind == "norm":
        return NORM_FLOPS * values
    if kind in ("maxpool", "averagepool"):
        return float(values * math.prod(node.arguments[1]))
    return max(values, *(tensor.values for tensor in read))  # a reduction reads more than it writes


def _bytes(node: Node, read: Iterable[Tensor]) -> int:
    if KINDS.get(node.operator) in ("embedding", "embedding_bag"):
        made = node.outputs[0]
        return made.bytes + made.value_bytes * _rows_read(node)
    return sum(tensor.bytes for tensor in (*read, *node.outputs))


def _attributes(node: Node) -> dict[str, float]:
    """Numbers that the kind has."""
    kind, arguments = KINDS.get(node.operator), node.arguments
    if kind in ("embedding", "embedding_bag"):
        return {"rows": float(arguments[0][0]), "dim": float(arguments[0][1])}
    if kind == "attention":
        return {"heads": float(arguments[0][-3]), "head_dim": float(arguments[0][-1])}
    if kind == "conv":
        return {"kernel": float(arguments[1][-1]), "groups": float(arguments[8])}
    return {}
