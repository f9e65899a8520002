"""Trees of the ONNX graphs that nights published before trees were arrays. Extra `[onnx]`.

Nothing is run: the ensembles are read as the arrays that they are, and checked as every other forest. To be dropped
when no artifact within retention has a graph.
"""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from leap.predictor.models.arrays import problem_of
from leap.predictor.models.trees.model import SPECS, Combination, Trees
from leap.predictor.models.trees.nodes import Nodes, forest_of


def read_graph(data: bytes) -> Trees:
    """Trees of a serialized graph.

    Raises
    ------
    ValueError
        If it is none that a night exported.
    """
    try:
        graph = onnx.ModelProto.FromString(data).graph
        [features] = [dimension.dim_value for dimension in graph.input[0].type.tensor_type.shape.dim][1:]
        experts, logits = (_targets(graph, features, name) for name in ("experts", "logits"))
        trees = Trees(forest_of(features, [*experts, *logits]), _combination(graph))
        sizes: dict[str, int] = {}
        problems = [problem_of(array, SPECS[name], sizes) for name, array in trees.arrays().items()]
    except Exception as error:  # what a hostile file ends in cannot be foreseen
        raise ValueError(f"not a graph that a night exported: {error!r}") from error
    if any(problems):
        raise ValueError(f"not a graph that a night exported: {'; '.join(filter(None, problems))}")
    return trees


def _combination(graph: onnx.GraphProto) -> Combination:
    operators = {node.op_type for node in graph.node}
    if "Softmax" not in operators:
        return Combination.single
    return Combination.median if "TopK" in operators else Combination.mean


def _targets(graph: onnx.GraphProto, features: int, name: str) -> list[Nodes]:
    ensembles = [
        node for node in graph.node if node.op_type == "TreeEnsemble" and node.output[0].startswith(f"{name}_")
    ]
    if not ensembles:
        return []
    [constant] = [node for node in graph.node if node.output[0] == f"{name}_baseline"]
    baseline = numpy_helper.to_array(constant.attribute[0].t)
    return [_nodes(node, features, float(value)) for node, value in zip(ensembles, baseline, strict=True)]


def _nodes(ensemble: onnx.NodeProto, features: int, baseline: float) -> Nodes:
    """Inner nodes first, then leaves."""
    attributes: dict[str, NDArray[np.generic]] = {
        attribute.name: numpy_helper.to_array(attribute.t)
        if attribute.type == onnx.AttributeProto.TENSOR
        else np.array(attribute.ints, dtype=np.int64)
        for attribute in ensemble.attribute
        if attribute.type in (onnx.AttributeProto.TENSOR, onnx.AttributeProto.INTS)
    }
    inner, leaves = len(attributes["nodes_featureids"]), len(attributes["leaf_weights"])
    if np.any(attributes["nodes_modes"]):
        raise ValueError("splits of another kind than <=")
    if not 0 <= attributes["nodes_featureids"].min() <= attributes["nodes_featureids"].max() < features:
        raise ValueError(f"splits that look beyond the {features} columns of a row")
    left, right = (
        np.where(attributes[f"nodes_{side}leafs"], inner, 0) + attributes[f"nodes_{side}nodeids"]
        for side in ("true", "false")
    )
    if min(left.min(), right.min()) < 0 or attributes["tree_roots"].min() < 0:
        raise ValueError("nodes before the first")
    none = np.zeros(leaves, dtype=np.int64)
    return Nodes(
        is_leaf=np.arange(inner + leaves) >= inner,
        left=np.concatenate((left, none)),
        right=np.concatenate((right, none)),
        feature=np.concatenate((attributes["nodes_featureids"], none)),
        threshold=np.concatenate((attributes["nodes_splits"], none)).astype(np.float32),
        missing_left=np.concatenate((attributes["nodes_missing_value_tracks_true"] != 0, none != 0)),
        value=np.concatenate((np.zeros(inner), attributes["leaf_weights"])).astype(np.float64),
        roots=attributes["tree_roots"].astype(np.intp),
        baseline=baseline,
    )
