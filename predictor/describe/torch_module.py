"""Model definitions from PyTorch modules, through the graph that ``torch.export`` traces.

The factory is called with the meta device in force, so that weights made in the ordinary way take no memory. The
operations of products and convolutions are those of PyTorch's own counter.
"""

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

from predictor.describe.graph import NORM_FLOPS, Graph, NotDescribed
from schemas.launch import ModelDefinition, Operator

#: Operator of the traced graph to its kind; others keep their name.
KINDS = {
    "mm": "matmul", "addmm": "matmul", "bmm": "matmul", "baddbmm": "matmul", "convolution": "conv",
    "scaled_dot_product_attention": "attention", "native_layer_norm": "norm", "native_group_norm": "norm",
    "_native_batch_norm_legit_no_training": "norm", "_native_batch_norm_legit": "norm", "_softmax": "softmax",
    "max_pool2d_with_indices": "maxpool", "avg_pool2d": "averagepool", "embedding": "embedding",
}  # fmt: skip
#: What only moves values.
MOVES = frozenset({
    "view", "permute", "unsqueeze", "squeeze", "expand", "clone", "slice", "select", "cat", "split_with_sizes", "alias",
    "_to_copy", "index", "gather", "embedding", "constant_pad_nd", "repeat", "copy", "detach",
})  # fmt: skip


def describe(place: str) -> ModelDefinition:
    """The model that a factory makes.

    Parameters
    ----------
    place
        ``package.module:factory``; called without arguments it returns a module and the tuple of its inputs for
        one sample, each with a first dimension of one.

    Raises
    ------
    NotDescribed
        If PyTorch is not installed, there is no such factory, or its module cannot be traced.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise NotDescribed("PyTorch is not installed; run: pip install torch") from None
    try:
        factory = resolve_name(place)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise NotDescribed(f"{place}: {error}; expected package.module:factory") from None
    with torch.device("meta"):
        made = factory()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise NotDescribed(f"{place}: returned {type(made).__name__}; expected (module, inputs of one sample)")
    module, inputs = made
    try:
        kept = torch.export.default_decompositions()
        kept.pop(torch.ops.aten.scaled_dot_product_attention.default)  # attention stays one operator
        with torch.no_grad():
            program = torch.export.export(module.eval(), tuple(inputs)).run_decompositions(kept)
    except Exception as error:  # whatever the module raises, or PyTorch when it cannot follow it
        raise NotDescribed(f"{place}: cannot be traced: {type(error).__name__}: {str(error)[:500]}") from None
    return _Reading(module, program).definition()


class _Reading:
    """One pass over the nodes of a traced program."""

    def __init__(self, module: Any, program: Any) -> None:
        from torch.utils import flop_counter

        self._counter = flop_counter
        self._nodes = list(program.graph.nodes)
        signature = program.graph_signature
        self._inputs = set(signature.user_inputs)
        self._parameters: dict[str, int] = {}  # values of each weight that no operator has read yet
        self._weights: dict[str, set[str]] = {}  # node, if no input reaches it, to the weights that it is made of
        names: dict[int, str] = {}
        values: dict[str, int] = {}
        for node, target in signature.inputs_to_parameters.items():
            weight = module.get_parameter(target)
            first = names.setdefault(id(weight), node)  # a tied weight goes by several names
            self._weights[node] = {first}
            if first != node:
                continue
            self._parameters[node] = weight.numel()
            values[str(weight.dtype)] = values.get(str(weight.dtype), 0) + weight.numel()
        self._weights |= {node: set() for node in signature.inputs_to_buffers}
        most = max(values, key=lambda each: values[each], default="")
        precision = {"torch.float64": "fp64", "torch.float16": "fp16", "torch.bfloat16": "bf16"}.get(most, "fp32")
        self._made = Graph(type(module).__name__, precision)

    def definition(self) -> ModelDefinition:
        """The operators that an input reaches, and their edges."""
        maker = dict.fromkeys(self._inputs, Graph.input)
        for node in self._nodes:
            sources = sorted({maker[each.name] for each in node.all_input_nodes if each.name in maker})
            if node.op != "call_function":
                continue
            if not sources:
                self._weights[node.name] = self._behind(node)
            elif node.target.__name__ == "getitem" or "val" not in node.meta:  # one of several outputs; a context
                maker[node.name] = sources[-1]
            else:
                maker[node.name] = self._made.add(self._operator(node), sources)
        return self._made.definition()

    def _operator(self, node: Any) -> Operator:
        name = node.target.__name__.partition(".")[0]
        outputs = _tensors(node.meta["val"])
        read = _tensors([each.meta["val"] for each in node.all_input_nodes if each.name not in self._weights])
        arguments = [each.meta["val"] if hasattr(each, "meta") else each for each in node.args]
        shape = tuple(int(size) for size in outputs[0].shape)
        return Operator(
            kind=KINDS.get(name, name),
            name=node.name[:512],
            shape=shape[1:] if shape[:1] == (1,) else shape,
            parameters=self._taken(node),
            flops=self._flops(name, node, arguments, outputs),
            bytes=_bytes([*(outputs if name == "embedding" else read), *outputs]),
            attributes=_attributes(name, arguments),
        )

    def _taken(self, node: Any) -> int:
        """Parameters that the node is the first to read."""
        return sum(self._parameters.pop(name, 0) for name in self._behind(node))

    def _behind(self, node: Any) -> set[str]:
        return {name for each in node.all_input_nodes for name in self._weights.get(each.name, ())}

    def _flops(self, name: str, node: Any, arguments: Sequence[Any], outputs: Sequence[Any]) -> float:
        counter, packet = self._counter, getattr(node.target, "overloadpacket", None)
        if name in MOVES:
            return 0.0
        if name == "scaled_dot_product_attention":
            return float(counter.sdpa_flop_count(*(each.shape for each in arguments[:3])))
        if packet in counter.flop_registry:
            return float(counter.flop_registry[packet](*arguments, **node.kwargs, out_val=node.meta["val"]))
        values = outputs[0].numel()
        return float(NORM_FLOPS * values if KINDS.get(name) == "norm" else values)


def _tensors(value: Any) -> list[Any]:
    several = value if isinstance(value, list | tuple) else [value]
    return [each for each in several if hasattr(each, "numel")]


def _bytes(tensors: Sequence[Any]) -> float:
    return float(sum(each.numel() * each.element_size() for each in tensors))


def _attributes(name: str, arguments: Sequence[Any]) -> dict[str, float]:
    """Numbers that the kind has."""
    if name == "embedding":
        return {"rows": float(arguments[0].shape[0]), "dim": float(arguments[0].shape[1])}
    if name == "scaled_dot_product_attention":
        return {"heads": float(arguments[0].shape[-3]), "head_dim": float(arguments[0].shape[-1])}
    if name == "convolution":
        return {"kernel": float(arguments[1].shape[-1]), "groups": float(arguments[8])}
    return {}
