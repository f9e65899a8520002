"""Trees to one ONNX graph, for whoever serves with something else. Extra `[onnx]`.

The graph takes `features`, float32 (rows, features), and gives `log_throughput`, float32 (rows,). A cascade
also gives its `experts` and their `weights`, float32 (rows, bins). Each expert and each class is a `TreeEnsemble`
of ai.onnx.ml 5 of its own.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, NodeProto, checker, helper, numpy_helper, parser

from leap.predictor.models.trees.combination import LEAST_STEP
from leap.predictor.models.trees.forest import Forest, spread
from leap.predictor.models.trees.model import Combination, Trees

# What stands after the trees, in the textual form of ONNX.
BOOSTED = """
<ir_version: 10, opset_import: ["" : 18, "ai.onnx.ml" : 5]>
boosted (float[rows, {features}] features) => (float[rows] log_throughput) {{
    columns = Constant <value_ints = [1]> ()
    log_throughput = Squeeze (experts, columns)
}}
"""
CASCADE = """
<ir_version: 10, opset_import: ["" : 18, "ai.onnx.ml" : 5]>
cascade (float[rows, {features}] features)
    => (float[rows] log_throughput, float[rows, {bins}] experts, float[rows, {bins}] weights) {{
    columns = Constant <value_ints = [1]> ()
    weights = Softmax <axis = 1> (logits)
    {combination}
}}
"""
# leap.predictor.models.trees.combination.weighted_mean
MEAN = """
    weighted = Mul (experts, weights)
    log_throughput = ReduceSum <keepdims = 0> (weighted, columns)
"""
# leap.predictor.models.trees.combination.weighted_median, line by line
MEDIAN = f"""
    bins = Constant <value_ints = [{{bins}}]> ()
    first = Constant <value_ints = [0]> ()
    second = Constant <value_ints = [1]> ()
    last = Constant <value_ints = [-1]> ()
    half = Constant <value_float = 0.5> ()
    zero = Constant <value_float = 0.0> ()
    one = Constant <value_float = 1.0> ()
    least_step = Constant <value_float = {LEAST_STEP}> ()
    values, order = TopK <axis = 1, largest = 0> (experts, bins)
    ordered = GatherElements <axis = 1> (weights, order)
    halves = Mul (ordered, half)
    cumulative = CumSum (ordered, columns)
    middles = Sub (cumulative, halves)
    lower = Slice (middles, first, last, columns)
    upper = Slice (middles, second, bins, columns)
    gaps = Sub (upper, lower)
    steps = Max (gaps, least_step)
    missing = Sub (half, lower)
    reached = Div (missing, steps)
    shares = Clip (reached, zero, one)
    lower_values = Slice (values, first, last, columns)
    upper_values = Slice (values, second, bins, columns)
    rises = Sub (upper_values, lower_values)
    climbs = Mul (shares, rises)
    climb = ReduceSum (climbs, columns)
    lowest = Slice (values, first, second, columns)
    median = Add (lowest, climb)
    log_throughput = Squeeze (median, columns)
"""
COMBINATIONS = {Combination.mean: MEAN, Combination.median: MEDIAN}
BRANCH_LEQ = 0


def export_graph(trees: Trees) -> bytes:
    """Return the serialized ONNX graph of trees.

    On float32 rows every tree takes the side that it takes here; what differs is the rounding of float32 sums.
    """
    forest = trees.forest
    ensembles = list(_ensembles(forest))
    if trees.combination is Combination.single:
        graph = parser.parse_model(BOOSTED.format(features=forest.features))
        nodes = _sums("experts", ensembles, forest.baseline)
    else:
        bins = len(ensembles) // 2
        text = CASCADE.replace("{combination}", COMBINATIONS[trees.combination])
        graph = parser.parse_model(text.format(features=forest.features, bins=bins))
        nodes = [
            *_sums("experts", ensembles[:bins], forest.baseline[:bins]),
            *_sums("logits", ensembles[bins:], forest.baseline[bins:]),
        ]
    tail = list(graph.graph.node)
    del graph.graph.node[:]
    graph.graph.node.extend([*nodes, *tail])
    checker.check_model(graph)
    data: bytes = graph.SerializeToString()
    return data


def _sums(name: str, ensembles: list[NodeProto], baseline: NDArray[np.float64]) -> list[NodeProto]:
    """The operators that compute `name`, float32 (rows, targets), from `features`."""
    for position, ensemble in enumerate(ensembles):
        ensemble.output[0] = f"{name}_{position}"
    constant = numpy_helper.from_array(baseline.astype(np.float32))
    return [
        *ensembles,
        helper.make_node("Concat", [ensemble.output[0] for ensemble in ensembles], [f"{name}_trees"], axis=1),
        helper.make_node("Constant", [], [f"{name}_baseline"], value=constant),
        helper.make_node("Add", [f"{name}_trees", f"{name}_baseline"], [name]),
    ]


def _ensembles(forest: Forest) -> Iterator[NodeProto]:
    """The operator that adds up the trees of each target."""
    inner = forest.node_split >= 0
    target = spread(inner, np.repeat(np.arange(len(forest.trees)), forest.trees))
    right = int(forest.trees.sum()) + 2 * (np.cumsum(inner) - 1)
    value = np.zeros(len(inner), dtype=np.float32)
    value[~inner] = forest.leaf_value
    roots = np.arange(len(inner)) < forest.trees.sum()
    for number in range(len(forest.trees)):
        own = target == number
        bare = np.flatnonzero(own & roots & ~inner)  # a tree of one leaf needs a split, which ONNX wants
        splits, leaves = np.flatnonzero(own & inner), np.flatnonzero(own & ~inner)
        position = np.zeros(len(inner), dtype=np.int64)
        position[splits], position[leaves] = np.arange(len(splits)), np.arange(len(leaves))
        children = [np.concatenate((right[splits] + side, bare)) for side in (1, 0)]
        root = np.concatenate((position[own & roots & inner], len(splits) + np.arange(len(bare))))
        split = np.concatenate((forest.node_split[splits], np.full(len(bare), -1)))
        yield _ensemble(forest, split, root, [(position[child], ~inner[child]) for child in children], value[leaves])


def _ensemble(
    forest: Forest,
    split: NDArray[np.int32],
    roots: NDArray[np.int64],
    children: list[tuple[NDArray[np.int64], NDArray[np.bool_]]],
    weights: NDArray[np.float32],
) -> NodeProto:
    """The operator over inner nodes with their splits, -1 where it does not matter, and their children, left first."""
    (left, left_is_leaf), (right, right_is_leaf) = children
    feature, missing, threshold = (
        np.append(column, np.zeros(1, column.dtype))[split]
        for column in (forest.split_feature, forest.split_missing_left, forest.split_threshold)
    )
    integers = {
        "tree_roots": roots,
        "nodes_featureids": feature,
        "nodes_truenodeids": left,
        "nodes_trueleafs": left_is_leaf,
        "nodes_falsenodeids": right,
        "nodes_falseleafs": right_is_leaf,
        "nodes_missing_value_tracks_true": missing,
        "leaf_targetids": np.zeros(len(weights)),
    }
    tensors = {
        "nodes_modes": np.full(len(split), BRANCH_LEQ, dtype=np.uint8),
        "nodes_splits": threshold,
        "leaf_weights": weights,
    }
    ensemble = helper.make_node("TreeEnsemble", ["features"], [""], domain="ai.onnx.ml", n_targets=1)
    for name, values in integers.items():
        ensemble.attribute.add(name=name, type=AttributeProto.INTS, ints=values.astype(np.int64).tolist())
    for name, values in tensors.items():
        ensemble.attribute.append(helper.make_attribute(name, numpy_helper.from_array(values)))
    return ensemble
