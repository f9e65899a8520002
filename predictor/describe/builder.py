"""A model definition in the making: operators with the usual arithmetic, joined as they are added."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from leap.schemas.errors import LeapError
from leap.schemas.launch import MAX_EDGES, MAX_OPERATORS, ModelDefinition, Operator

#: Name of a precision to the bytes of one value.
BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
NORM_FLOPS = 5


class NotDescribed(LeapError, ValueError):
    """A model that cannot be described; the text says what was wrong, where, and what to do."""


class Size(NamedTuple):
    """What a configuration leaves open: tokens of a sample or pixels of an image's side."""

    name: str
    usual: int
    most: int
    least: int = 1


class Graph:
    """Operators of one sample's forward pass. Each method adds one and returns its position.

    Bytes are those of activations, read and written, and of the rows read from a table; weights are read once
    a step, not once a sample.

    Parameters
    ----------
    name
        What the framework calls the model.
    precision
        Of the parameters, by a name of `BYTES`.

    Examples
    --------
    >>> graph = Graph("tiny", "fp32")
    >>> first = graph.linear("up", graph.input, rows=3, width_in=4, width_out=8)
    >>> last = graph.elementwise("relu", "act", (first,), (3, 8))
    >>> tiny = graph.definition()
    >>> [(each.kind, each.parameters, each.flops) for each in tiny.operators], tiny.edges
    ([('matmul', 40, 192.0), ('relu', 0, 24.0)], ((0, 1),))
    """

    #: Source of an operator that reads what the model is given.
    input = -1

    def __init__(self, name: str, precision: str) -> None:
        self.name, self.precision = name, precision
        self.value_bytes = BYTES[precision]
        self._operators: list[Operator] = []
        self._edges: dict[tuple[int, int], None] = {}

    def add(self, operator: Operator, sources: Sequence[int]) -> int:
        """Any operator; `sources` are positions of those whose output it reads."""
        position = len(self._operators)
        self._operators.append(operator)
        self._edges |= {(source, position): None for source in sources if source != self.input}
        if position >= MAX_OPERATORS or len(self._edges) > MAX_EDGES:
            raise NotDescribed(f"{self.name}: more than {MAX_OPERATORS:,} operators or {MAX_EDGES:,} edges")
        return position

    def linear(
        self,
        name: str,
        source: int,
        rows: int,
        width_in: int,
        width_out: int,
        bias: bool = True,
        tied: bool = False,
        experts: int = 1,
        chosen: int = 1,
    ) -> int:
        """A dense layer over `rows` rows.

        Parameters
        ----------
        tied
            Its weights, but for the bias, belong to another operator.
        experts, chosen
            Copies of the layer, and how many of them each row goes through.
        """
        weights = (0 if tied else width_in * width_out) + (width_out if bias else 0)
        attributes = {"width_in": float(width_in), "width_out": float(width_out)}
        if experts > 1:
            attributes |= {"experts": float(experts), "experts_per_row": float(chosen)}
        operator = Operator(
            kind="matmul",
            name=name,
            shape=(rows, width_out),
            parameters=experts * weights,
            flops=2.0 * chosen * rows * width_in * width_out,
            bytes=float(self.value_bytes * chosen * rows * (width_in + width_out)),
            attributes=attributes,
        )
        return self.add(operator, (source,))

    def attention(
        self,
        name: str,
        sources: Sequence[int],
        rows: int,
        context: int,
        heads: int,
        head_dim: int,
        groups: int | None = None,
    ) -> int:
        """Every one of `rows` positions attends to `context` others; keys and values have `groups` heads."""
        if not head_dim:
            raise NotDescribed(f"{self.name}: {heads} heads are more than the width that they share")
        width, groups = heads * head_dim, groups or heads
        moved = 2 * rows * width + 2 * context * groups * head_dim
        operator = Operator(
            kind="attention",
            name=name,
            shape=(rows, width),
            flops=4.0 * rows * context * width,
            bytes=float(self.value_bytes * moved),
            attributes={"heads": float(heads), "head_dim": float(head_dim), "key_value_heads": float(groups)},
        )
        return self.add(operator, sources)

    def norm(self, name: str, source: int, shape: tuple[int, ...], width: int, bias: bool = True) -> int:
        """A normalisation with a scale, and a shift if `bias`, for each of `width` channels."""
        values = math.prod(shape)
        operator = Operator(
            kind="norm",
            name=name,
            shape=shape,
            parameters=width * (2 if bias else 1),
            flops=float(NORM_FLOPS * values),
            bytes=2.0 * self.value_bytes * values,
        )
        return self.add(operator, (source,))

    def embedding(self, name: str, lookups: int, rows: int, dim: int, tied: bool = False) -> int:
        """`lookups` rows of a table."""
        operator = Operator(
            kind="embedding",
            name=name,
            shape=(lookups, dim),
            parameters=0 if tied else rows * dim,
            bytes=2.0 * self.value_bytes * lookups * dim,
            attributes={"rows": float(rows), "dim": float(dim)},
        )
        return self.add(operator, (self.input,))

    def conv(
        self, name: str, source: int, side: int, stride: int, width_in: int, width_out: int, kernel: int, bias: bool
    ) -> int:
        """A square convolution of `side` pixels to ``ceil(side / stride)``."""
        after = -(-side // stride)
        weights = kernel * kernel * width_in * width_out
        operator = Operator(
            kind="conv",
            name=name,
            shape=(width_out, after, after),
            parameters=weights + (width_out if bias else 0),
            flops=2.0 * after * after * weights,
            bytes=float(self.value_bytes * (side * side * width_in + after * after * width_out)),
            attributes={"kernel": float(kernel), "stride": float(stride)},
        )
        return self.add(operator, (source,))

    def elementwise(
        self, kind: str, name: str, sources: Sequence[int], shape: tuple[int, ...], parameters: int = 0
    ) -> int:
        """One operation for each value of the output."""
        values = math.prod(shape)
        moved = self.value_bytes * values * (1 + len(sources))
        operator = Operator(
            kind=kind, name=name, shape=shape, parameters=parameters, flops=float(values), bytes=float(moved)
        )
        return self.add(operator, sources)

    def definition(self) -> ModelDefinition:
        """What was added.

        Raises
        ------
        NotDescribed
            If it would not be taken at the door.
        """
        if not self._operators:
            raise NotDescribed(f"{self.name}: no operator is left once constants are folded")
        made = ModelDefinition(
            operators=tuple(self._operators), edges=tuple(self._edges), precision=self.precision, name=self.name
        )
        try:
            return msgspec.convert(msgspec.to_builtins(made), ModelDefinition)
        except msgspec.ValidationError as error:
            raise NotDescribed(f"{self.name}: {error}") from None
