"""Model definitions from PyTorch modules, through the graph that ``torch.export`` traces.

The factory is called with the meta device in force, so that weights made in the ordinary way take no memory. The
operations of products and convolutions are those of PyTorch's own counter.
"""

from pkgutil import resolve_name
from typing import Any

from leap.predictor.describe.builder import NotDescribed
from leap.predictor.describe.torch_trace import Node, Tensor, Trace
from leap.schemas.launch import ModelDefinition

#: Stay one operator, which would be taken apart: attention, RMS norm, and a recurrent layer into every step.
WHOLE = (
    "scaled_dot_product_attention.default", "rms_norm.default", "lstm.input", "gru.input", "rnn_tanh.input",
    "rnn_relu.input",
)  # fmt: skip


def describe(reference: str) -> ModelDefinition:
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
    return trace(reference).definition()


def trace(reference: str) -> Trace:
    """What PyTorch says of the model that a factory makes; see `describe`."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise NotDescribed("PyTorch is not installed; run: pip install torch") from None
    try:
        factory = resolve_name(reference)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise NotDescribed(f"{reference}: {error}; expected package.module:factory") from None
    with torch.device("meta"):
        made = factory()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise NotDescribed(f"{reference}: returned {type(made).__name__}; expected (module, inputs of one sample)")
    module, inputs = made
    return export(reference, module, tuple(inputs), {})


def export(reference: str, module: Any, inputs: tuple[Any, ...], named_inputs: dict[str, Any]) -> Trace:
    """What PyTorch says of a module on inputs of one sample; `reference` is where it came from, for the error."""
    import torch

    try:
        taken_apart = torch.export.default_decompositions()
        for name in WHOLE:
            taken_apart.pop(resolve_name(f"torch:ops.aten.{name}"))
        with torch.no_grad():
            program = torch.export.export(module.eval(), inputs, named_inputs).run_decompositions(taken_apart)
    except Exception as error:  # whatever the module raises, or PyTorch when it cannot follow it
        raise NotDescribed(f"{reference}: cannot be traced: {type(error).__name__}: {str(error)[:500]}") from None
    return _plain(module, program)


def _plain(module: Any, program: Any) -> Trace:
    """A traced program as plain data."""
    signature = program.graph_signature
    firsts: dict[int, str] = {}
    weights = {
        node: firsts.setdefault(id(module.get_parameter(target)), node)
        for node, target in signature.inputs_to_parameters.items()
    }
    given = {
        node.name: tensor
        for node in program.graph.nodes
        if node.op == "placeholder"
        for tensor in _tensors(node.meta["val"])
    }
    return Trace(
        name=type(module).__name__,
        inputs={name: tensor for name, tensor in given.items() if name in signature.user_inputs},
        weights=weights,
        constants={name: tensor for name, tensor in given.items() if name not in signature.user_inputs},
        nodes=tuple(_node(node) for node in program.graph.nodes if node.op == "call_function"),
    )


def _node(node: Any) -> Node:
    return Node(
        name=node.name,
        operator=node.target.__name__.partition(".")[0],
        inputs=tuple(source.name for source in node.all_input_nodes),
        arguments=tuple(_shape(value) for value in node.args),
        outputs=_tensors(node.meta.get("val")),
        flops=_counted(node),
    )


def _counted(node: Any) -> float | None:
    """Operations by PyTorch's counter, where it has a formula."""
    from torch.utils import flop_counter

    packet = getattr(node.target, "overloadpacket", None)
    arguments = [value.meta["val"] if hasattr(value, "meta") else value for value in node.args]
    if getattr(packet, "__name__", "") == "scaled_dot_product_attention":
        return float(flop_counter.sdpa_flop_count(*(value.shape for value in arguments[:3])))
    if packet in flop_counter.flop_registry:
        return float(flop_counter.flop_registry[packet](*arguments, **node.kwargs, out_val=node.meta["val"]))
    return None


def _tensors(value: Any) -> tuple[Tensor, ...]:
    several = value if isinstance(value, list | tuple) else [value]
    return tuple(
        Tensor(tuple(int(size) for size in value.shape), str(value.dtype).removeprefix("torch."), value.element_size())
        for value in several
        if hasattr(value, "numel")
    )


def _shape(argument: Any) -> Any:
    """A tensor's shape, or those of several; numbers as they are, and of all else its text."""
    if isinstance(argument, list | tuple):
        return tuple(_shape(value) for value in argument)
    if hasattr(argument, "meta"):
        shapes = [value.shape for value in _tensors(argument.meta["val"])]
        return shapes[0] if len(shapes) == 1 else shapes
    return argument if isinstance(argument, int | float | None) else str(argument)
