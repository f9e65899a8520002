"""Operators of many models as one graph of arrays, for a network over graphs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import operator_classes
from leap.predictor.features.matrix import Matrix
from leap.schemas.launch import ModelDefinition, Operator

#: A model with more operators is given as so many groups of neighbours.
MAX_NODES = 128
_CLASSES = (*operator_classes.CLASSES, operator_classes.OTHER)
NODE_VALUES = len(_CLASSES) + 5

Indices = NDArray[np.int32]


class Arrays(NamedTuple):
    """Models side by side; the first is a model without a definition, one node of zeros.

    Attributes
    ----------
    nodes
        (nodes, `NODE_VALUES`) standardised: shares of the operator classes, ln(1 + x) of the number of operators, their
        parameters, FLOP, bytes and output values.
    graph
        (nodes,) graph of each node.
    sizes
        (graphs,) nodes of each graph.
    source, target
        (edges,) nodes; every edge is there in both directions.
    edges
        (edges, 2): ln(1 + x) of the values that flow, and 1 for the direction of the data, else 0.
    """

    nodes: Matrix
    graph: Indices
    sizes: Matrix
    source: Indices
    target: Indices
    edges: Matrix


@dataclass(frozen=True)
class Graphs:
    """Model type to its graph among the arrays."""

    position: dict[str, int]
    raw: Arrays

    def arrays(self) -> Arrays:
        """With each value of the nodes standardised over the different nodes that there are."""
        different = np.unique(self.raw.nodes, axis=0)
        scale = np.maximum(different.std(axis=0), np.float32(1e-3))
        return self.raw._replace(nodes=(self.raw.nodes - different.mean(axis=0)) / scale)


def graphs(models: Mapping[str, ModelDefinition]) -> Graphs:
    """The graphs of some model types."""
    nodes, owner = [np.zeros((1, NODE_VALUES), np.float32)], [0]
    pairs, flows = [], []
    for position, model in enumerate(models.values(), 1):
        offset, count = len(owner), len(model.operators)
        groups = min(count, MAX_NODES)
        group = np.arange(count) * groups // count
        values = np.array([_values(operator) for operator in model.operators])
        summed = np.zeros((groups, values.shape[1]))
        np.add.at(summed, group, values)
        amounts = np.log1p(summed[:, len(_CLASSES) :])
        shares = summed[:, : len(_CLASSES)] / summed[:, len(_CLASSES), None]
        nodes.append(np.hstack((shares, amounts)).astype(np.float32))
        owner += [position] * groups
        joined = {(int(group[a]), int(group[b])): values[a, -1] for a, b in model.edges if group[a] != group[b]}
        pairs += [(offset + a, offset + b) for a, b in joined]
        flows += [float(np.log1p(flow)) for flow in joined.values()]
    ends = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    forth = np.column_stack((flows, np.ones(len(flows)))).astype(np.float32).reshape(-1, 2)
    back = forth * np.array([1.0, 0.0], dtype=np.float32)
    raw = Arrays(
        nodes=np.concatenate(nodes),
        graph=np.array(owner, dtype=np.int32),
        sizes=np.bincount(owner).astype(np.float32),
        source=np.concatenate((ends[:, 0], ends[:, 1])),
        target=np.concatenate((ends[:, 1], ends[:, 0])),
        edges=np.concatenate((forth, back)),
    )
    return Graphs({name: position for position, name in enumerate(models, 1)}, raw)


def _values(operator: Operator) -> list[float]:
    member = [0.0] * len(_CLASSES)
    member[_CLASSES.index(operator_classes.operator_class(operator.kind))] = 1.0
    outputs = float(np.prod([max(size, 1) for size in operator.shape], dtype=np.float64)) if operator.shape else 0.0
    return [*member, 1.0, float(operator.parameters), operator.flops, operator.bytes, outputs]
