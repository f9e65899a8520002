"""A model definition in the making."""

from collections.abc import Sequence

import msgspec

from leap.schemas.errors import LeapError
from leap.schemas.launch import MAX_EDGES, MAX_OPERATORS, ModelDefinition, Operator

#: Operations of a norm a value.
NORM_FLOPS = 5


class NotDescribed(LeapError, ValueError):
    """A model that cannot be described; the text says what was wrong, where, and what to do."""


class Graph:
    """Operators of one sample's forward pass, joined as they are added.

    Parameters
    ----------
    name
        What the framework calls the model.
    precision
        Of the parameters.

    Examples
    --------
    >>> graph = Graph("tiny", "fp32")
    >>> first = graph.add(Operator(kind="matmul", parameters=40, flops=192.0), [graph.input])
    >>> last = graph.add(Operator(kind="relu", flops=24.0), [first])
    >>> tiny = graph.definition()
    >>> [operator.kind for operator in tiny.operators], tiny.edges
    (['matmul', 'relu'], ((0, 1),))
    """

    #: Source of an operator that reads what the model is given.
    input = -1

    def __init__(self, name: str, precision: str) -> None:
        self.name, self.precision = name, precision
        self._operators: list[Operator] = []
        self._edges: dict[tuple[int, int], None] = {}

    def add(self, operator: Operator, sources: Sequence[int]) -> int:
        """Position of an operator; `sources` are those of the operators whose output it reads."""
        position = len(self._operators)
        self._operators.append(operator)
        self._edges |= {(source, position): None for source in sources if source != self.input}
        if position >= MAX_OPERATORS or len(self._edges) > MAX_EDGES:
            raise NotDescribed(f"{self.name}: more than {MAX_OPERATORS:,} operators or {MAX_EDGES:,} edges")
        return position

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
