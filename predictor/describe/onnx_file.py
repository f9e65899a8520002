"""Model definitions from ONNX files.

Only shapes are read: weights beside the file are never opened, large ones inside it are dropped at once. What
depends on constants and shapes alone is no operator; tensors of floating point among it that an operator reads
are its parameters, but for scalars and the running statistics of a batch normalisation.
"""

from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from leap.predictor.describe.builder import Graph, NotDescribed
from leap.predictor.describe.onnx_flops import Shape, Tensor, Unknown, attributes, elements, flops, kind
from leap.schemas.launch import MAX_OPERATORS, ModelDefinition, Operator

MAX_FILE_BYTES = 2**31 - 1  # no protobuf is larger
MAX_DIMENSION = 2**40
_KEPT_VALUES = 1024  # an initializer up to this length may be the shape of a Reshape

PRECISIONS: dict[int, str] = {
    TensorProto.DOUBLE: "fp64",
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
}
#: Type of an element to its bytes; other types are as wide as the widest of these.
ELEMENT_BYTES: dict[int, int] = {
    TensorProto.FLOAT: 4, TensorProto.FLOAT16: 2, TensorProto.BFLOAT16: 2, TensorProto.DOUBLE: 8,
    TensorProto.INT64: 8, TensorProto.INT32: 4, TensorProto.INT16: 2, TensorProto.INT8: 1,
    TensorProto.UINT8: 1, TensorProto.BOOL: 1,
}  # fmt: skip
_OF_SHAPE_ONLY = frozenset({"Shape", "Size"})


def describe(path: Path, sizes: Mapping[str, int]) -> ModelDefinition:
    """The model that an ONNX file holds.

    Parameters
    ----------
    sizes
        A value for each symbolic dimension but the first of an input, which is the batch and one sample. ``batch``
        says how many samples one run takes, where that is not the first dimension of the first input.

    Raises
    ------
    NotDescribed
        If the file is not an ONNX model, has loops, branches or functions, is not in the order of computation,
        leaves the shape of a multiplication open, or is beyond what a definition may hold.
    """
    if path.stat().st_size > MAX_FILE_BYTES:
        raise NotDescribed(f"{path}: over {MAX_FILE_BYTES:,} bytes; export it with its weights beside it")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except Exception as error:  # protobuf's own, whose package says nothing of its types
        raise NotDescribed(f"{path}: not an ONNX model, or nested too deeply: {error}") from None
    graph = model.graph
    try:
        _check(model)
        batch = _fix_inputs(graph, dict(sizes))
        _drop_weights(graph)
        try:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError) as error:
            raise NotDescribed(f"shapes do not fit: {str(error)[:500]}") from None
        return _Reading(model.graph, path.stem, batch).definition()
    except NotDescribed as error:
        raise NotDescribed(f"{path}: {error}") from None
    except TypeError as error:  # protobuf gives names that are not UTF-8 as bytes
        raise NotDescribed(f"{path}: a name is not text: {error}") from None


def _check(model: ModelProto) -> None:
    """What needs no shapes: size, order, and nothing whose work is not fixed."""
    graph = model.graph
    if model.functions:
        raise NotDescribed("has functions of its own; inline them first with onnx.inliner.inline_local_functions")
    if len(graph.node) > MAX_OPERATORS:
        raise NotDescribed(f"{len(graph.node):,} nodes, over the {MAX_OPERATORS:,} that a definition may have")
    made = {""} | {tensor.name for tensor in graph.input} | {tensor.name for tensor in graph.initializer}
    made |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise NotDescribed(f"{_place(node)}: a branch or loop has no fixed number of operations; export without it")
        for name in node.input:
            if name not in made:
                raise NotDescribed(f"{_place(node)}: reads {name!r} before anything makes it: a cycle, or out of order")
        for name in filter(None, node.output):
            if name in made:
                raise NotDescribed(f"{_place(node)}: {name!r} is made twice")
            made.add(name)
    for tensor in graph.initializer:
        if any(not 0 <= size <= MAX_DIMENSION for size in tensor.dims):
            raise NotDescribed(f"initializer {tensor.name!r}: a dimension is not from 0 to {MAX_DIMENSION:,}")


def _fix_inputs(graph: GraphProto, sizes: dict[str, int]) -> int:
    """Put numbers in place of symbols; return how many samples one run takes."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [tensor for tensor in graph.input if tensor.name not in weights]
    batch = sizes.pop("batch", None)
    missing, used = set(), set()
    for tensor in inputs:
        for axis, dimension in enumerate(tensor.type.tensor_type.shape.dim):
            name = dimension.dim_param
            if name in sizes:
                dimension.dim_value = sizes[name]
                used.add(name)
            elif not dimension.HasField("dim_value"):
                if axis == 0:
                    dimension.dim_value = batch or 1
                else:
                    missing.add(name or f"unnamed dimension {axis} of input {tensor.name!r}")
            if dimension.HasField("dim_value") and not 1 <= dimension.dim_value <= MAX_DIMENSION:
                raise NotDescribed(f"input {tensor.name!r}: dimension {axis} is not from 1 to {MAX_DIMENSION:,}")
    if missing:
        raise NotDescribed(f"say the size of {', '.join(sorted(missing))}, as in --size {min(missing)}=128")
    if strange := sizes.keys() - used:
        raise NotDescribed(f"no input has a dimension {', '.join(sorted(strange))}")
    first = inputs[0].type.tensor_type.shape.dim if inputs else ()
    return batch or (first[0].dim_value if first else 1)


def _drop_weights(graph: GraphProto) -> None:
    """Shape inference copies the model: without what it does not look at."""
    for tensor in graph.initializer:
        if elements(tuple(tensor.dims)) > _KEPT_VALUES:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)


class _Reading:
    """One pass over the nodes of a graph whose shapes are known."""

    def __init__(self, graph: GraphProto, name: str, batch: int) -> None:
        self.batch = batch
        self.nodes = list(graph.node)
        self.tensors: dict[str, Tensor] = {}
        for tensor in (*graph.input, *graph.value_info, *graph.output):
            self.tensors[tensor.name] = _tensor(tensor)
        weights = {tensor.name for tensor in graph.initializer}
        for tensor in graph.initializer:
            self.tensors[tensor.name] = Tensor(tuple(tensor.dims), tensor.data_type)
        self.constant = {"", *weights, *(tensor.values.name for tensor in graph.sparse_initializer)}
        self.maker: dict[str, int] = {tensor.name: Graph.input for tensor in graph.input if tensor.name not in weights}
        self.counted: set[str] = set()
        self.values: dict[int, int] = {}  # of each type, over the parameters
        self.made = Graph(name, "fp32")

    def definition(self) -> ModelDefinition:
        """The operators, their edges, and the precision that most parameters have."""
        for node in self.nodes:
            if node.op_type in _OF_SHAPE_ONLY or all(name in self.constant for name in node.input):
                self.constant.update(node.output)
                continue
            try:
                self._add(node)
            except Unknown as error:
                raise NotDescribed(f"{_place(node)}: {error}") from None
            except (LookupError, StopIteration, ValueError) as error:
                raise NotDescribed(f"{_place(node)}: an input, dimension or attribute is missing: {error}") from None
        most = max(self.values, key=lambda kind: self.values[kind], default=TensorProto.FLOAT)
        self.made.precision = PRECISIONS[most]
        return self.made.definition()

    def _add(self, node: NodeProto) -> None:
        inputs = [self.tensors.get(name, Tensor()) for name in node.input]
        outputs = [self.tensors.get(name, Tensor()) for name in node.output if name]
        read = [name for name in dict.fromkeys(node.input) if name not in self.constant]
        from_table = node.op_type == "Gather" and node.input[0] in self.constant
        moved = [*outputs, *outputs] if from_table else [*(self.tensors.get(name, Tensor()) for name in read), *outputs]
        operator = Operator(
            kind=kind(node.op_type, from_table),
            name=(node.name or node.output[0])[:512],
            shape=self._of_a_sample(outputs[0].shape) if outputs else (),
            parameters=self._parameters(node),
            flops=flops(node, inputs, outputs) / self.batch,
            bytes=sum(elements(tensor.shape) * ELEMENT_BYTES.get(tensor.type, 8) for tensor in moved) / self.batch,
            attributes=attributes(node, inputs, from_table),
        )
        position = self.made.add(operator, sorted({self.maker[name] for name in read}))
        self.maker |= {name: position for name in node.output if name}

    def _parameters(self, node: NodeProto) -> int:
        total = 0
        for name in node.input[:3] if node.op_type == "BatchNormalization" else node.input:
            tensor = self.tensors.get(name, Tensor())
            if name in self.constant and name not in self.counted and tensor.type in PRECISIONS and tensor.shape:
                values = elements(tensor.shape)
                if values > 1:
                    self.counted.add(name)
                    self.values[tensor.type] = self.values.get(tensor.type, 0) + values
                    total += values
        return total

    def _of_a_sample(self, shape: Shape | None) -> Shape:
        """Without the batch where it comes first; nothing where the rank is not known."""
        if shape is None:
            return ()
        return shape[1:] if shape and shape[0] == self.batch else shape


def _tensor(value: ValueInfoProto) -> Tensor:
    described = value.type.tensor_type
    if not described.HasField("shape"):
        return Tensor(None, described.elem_type)
    sizes = tuple(axis.dim_value if axis.HasField("dim_value") else -1 for axis in described.shape.dim)
    return Tensor(sizes, described.elem_type)


def _place(node: NodeProto) -> str:
    return f"node {(node.name or '/'.join(node.output))[:200]!r} ({node.op_type[:100]})"
