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


class ModelDefinition(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """The operators of a model and the edges between them.

    Attributes
    ----------
    operators
        In any order.
    edges
        Pairs of positions in `operators`: data flow from the first to the second.
    precision
        Precision of the parameters, for example ``bf16``.
    name
        Name of the model in the framework.

    Raises
    ------
    ValueError
        If an edge refers to an operator that does not exist.
    """

    operators: Annotated[tuple[Operator, ...], Meta(min_length=1, max_length=MAX_OPERATORS)]
    edges: Annotated[tuple[Edge, ...], Meta(max_length=MAX_EDGES)] = ()
    precision: Text | None = None
    name: Text = ""

    def __post_init__(self) -> None:
        count = len(self.operators)
        for source, target in self.edges:
            if source >= count or target >= count:
                raise ValueError(f"edge [{source}, {target}] refers to an operator beyond the {count} given")
