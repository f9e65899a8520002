"""Launch configuration and, optionally, the model definition of a submission."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

MAX_NAME = 512
MAX_OPERATORS = 100_000
MAX_EDGES = 400_000
MAX_EXTRA = 256
MAX_DIMENSIONS = 16

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, Meta(max_length=MAX_NAME)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Size = Annotated[int, Meta(ge=0, le=2**62)]
Amount = Annotated[float, Meta(ge=0.0, le=1e30)]
Positive = Annotated[float, Meta(gt=0.0, le=1e30)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Dimension = Annotated[int, Meta(ge=-1, le=2**53)]
Edge = Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)]


class LaunchConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Configuration of one attempt, as known at submission.

    Attributes
    ----------
    num_trainers
        Number of hosts.
    accelerators_per_trainer
        Accelerators per host.
    batch_size
        Samples per optimizer step and trainer.
    data_readers
        Input-pipeline workers over all trainers.
    precision, optimizer, sharding
        As the launcher names it, for example ``bf16``, ``adamw``, ``zero3``.
    sequence_length
        Tokens per sample, for sequence models.
    gradient_accumulation
        Micro-batches per optimizer step.
    activation_checkpointing
        Whether activations are recomputed in the backward pass.
    data_parallel, tensor_parallel, pipeline_parallel, expert_parallel
        Size of the parallel group.
    extra
        Additional numbers and strings, specific to a fleet.
    unknown
        Fields of a newer launcher that this version does not know; preserved, never an error.
    """

    num_trainers: Count
    accelerators_per_trainer: Count
    batch_size: Positive | None = None
    data_readers: Amount | None = None
    precision: Text | None = None
    optimizer: Text | None = None
    sequence_length: Positive | None = None
    gradient_accumulation: Positive | None = None
    activation_checkpointing: bool | None = None
    data_parallel: Count | None = None
    tensor_parallel: Count | None = None
    pipeline_parallel: Count | None = None
    expert_parallel: Count | None = None
    sharding: Text | None = None
    extra: Annotated[dict[Name, float | Text], Meta(max_length=MAX_EXTRA)] = {}
    unknown: dict[str, Any] = {}

    @property
    def accelerators(self) -> int:
        """Accelerators over all trainers."""
        return self.num_trainers * self.accelerators_per_trainer


class Operator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One operator of a model's forward graph, per sample.

    Attributes
    ----------
    kind
        Kind of operation: ``matmul``, ``conv``, ``embedding``, ``attention``, ``norm``, ...
    name
        Name in the framework.
    shape
        Output shape without the batch dimension; -1 for variable sizes.
    parameters
        Number of trainable parameters.
    flops
        Floating point operations of the forward pass.
    bytes
        Bytes read and written by the forward pass.
    attributes
        Attributes of the kind, for example ``heads``, ``head_dim``, ``rows``, ``dim``, ``kernel``.
    """

    kind: Name
    name: Text = ""
    shape: Annotated[tuple[Dimension, ...], Meta(max_length=MAX_DIMENSIONS)] = ()
    parameters: Size = 0
    flops: Amount = 0.0
    bytes: Amount = 0.0
    attributes: Annotated[dict[Name, float], Meta(max_length=64)] = {}


class ModelTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is known of a model without its operators, per sample and for the forward pass; any of it may be absent.

    docs/features.md ("Architecture") has the formula of each value; ratios of two totals follow from them. A sample is
    what throughput counts: of a language model usually a sequence.

    Attributes
    ----------
    operators, edges, depth, kinds
        Number of operators, of edges, of operators on the longest path, and of distinct kinds.
    fan_out, fan_in
        Most edges that leave one operator, and that enter one.
    parameters
        Number of trainable parameters.
    flops
        Floating point operations of the forward pass: twice the multiply-adds.
    training_flops
        Those of forward and backward pass, for whoever knows only these; taken as three forward passes.
    bytes
        Bytes read and written by the forward pass.
    activations, largest_activation
        Number of values that all operators put out, and that one does at most.
    matmul_operators, conv_operators, embedding_operators, attention_operators, norm_operators
        Number of operators of a class.
    recurrent_operators, elementwise_operators, other_operators
        Number of operators of a class.
    matmul_parameter_share, conv_parameter_share, embedding_parameter_share
        Share of the parameters that a class of operators holds.
    attention_parameter_share, recurrent_parameter_share, other_parameter_share
        Share of the parameters that a class of operators holds.
    matmul_flop_share, conv_flop_share, embedding_flop_share, attention_flop_share, recurrent_flop_share
        Share of the FLOP that a class of operators takes.
    elementwise_flop_share
        Share of the FLOP that a class of operators takes.
    largest_parameter_share, largest_flop_share
        Share of one operator at most.
    embedding_rows, embedding_largest, embedding_dim
        Rows of all embedding tables, of the largest one, and their mean dimension.
    heads, head_dim
        Mean number of heads of attention, and their mean dimension.
    layer_width
        Largest last dimension of an output.
    sequence
        Positions that attention runs over.
    precision_bits
        Bits of a parameter; those of `ModelDefinition.precision` where that is known.

    Raises
    ------
    ValueError
        If FLOP are stated both ways, or shares of the classes add up to more than 1.
    """

    operators: Positive | None = None
    edges: Amount | None = None
    depth: Positive | None = None
    fan_out: Amount | None = None
    fan_in: Amount | None = None
    kinds: Positive | None = None
    parameters: Amount | None = None
    flops: Amount | None = None
    training_flops: Amount | None = None
    bytes: Amount | None = None
    matmul_operators: Amount | None = None
    conv_operators: Amount | None = None
    embedding_operators: Amount | None = None
    attention_operators: Amount | None = None
    norm_operators: Amount | None = None
    recurrent_operators: Amount | None = None
    elementwise_operators: Amount | None = None
    other_operators: Amount | None = None
    matmul_parameter_share: Share | None = None
    conv_parameter_share: Share | None = None
    embedding_parameter_share: Share | None = None
    attention_parameter_share: Share | None = None
    recurrent_parameter_share: Share | None = None
    other_parameter_share: Share | None = None
    matmul_flop_share: Share | None = None
    conv_flop_share: Share | None = None
    embedding_flop_share: Share | None = None
    attention_flop_share: Share | None = None
    recurrent_flop_share: Share | None = None
    elementwise_flop_share: Share | None = None
    largest_parameter_share: Share | None = None
    largest_flop_share: Share | None = None
    embedding_rows: Amount | None = None
    embedding_largest: Amount | None = None
    embedding_dim: Amount | None = None
    heads: Amount | None = None
    head_dim: Amount | None = None
    layer_width: Amount | None = None
    activations: Amount | None = None
    largest_activation: Amount | None = None
    sequence: Amount | None = None
    precision_bits: Annotated[float, Meta(gt=0.0, le=128.0)] | None = None

    def __post_init__(self) -> None:
        if self.flops is not None and self.training_flops is not None:
            raise ValueError("flops and training_flops both state the work; keep flops, those of the forward pass")
        stated = self.values()
        for of in ("parameter", "flop"):
            shares = sum(stated.get(f"{name}_{of}_share", 0.0) for name in _CLASSES)
            if shares > 1.001:  # as rounded in a table
                raise ValueError(f"the shares of the {of}s by class add up to {shares:.4g}, above 1")

    def values(self) -> dict[str, float]:
        """Name to value, of those that are stated."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


_CLASSES = ("matmul", "conv", "embedding", "attention", "recurrent", "elementwise", "other")


class ModelDefinition(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """What is known of a model: its operators and the edges between them, or totals alone.

    Attributes
    ----------
    operators
        In any order.
    totals
        Of a model whose operators are not known; such a definition has no operators.
    edges
        Pairs of positions in `operators`: data flow from the first to the second.
    precision
        Precision of the parameters, for example ``bf16``.
    name
        Name of the model in the framework.

    Raises
    ------
    ValueError
        If neither operators nor totals are given, or both, or an edge refers to an operator that does not exist.
    """

    operators: Annotated[tuple[Operator, ...], Meta(max_length=MAX_OPERATORS)] = ()
    totals: ModelTotals | None = None
    edges: Annotated[tuple[Edge, ...], Meta(max_length=MAX_EDGES)] = ()
    precision: Text | None = None
    name: Text = ""

    def __post_init__(self) -> None:
        if bool(self.operators) == (self.totals is not None):
            raise ValueError("give either operators or totals of the model")
        count = len(self.operators)
        for source, target in self.edges:
            if source >= count or target >= count:
                raise ValueError(f"edge [{source}, {target}] refers to an operator beyond the {count} given")
