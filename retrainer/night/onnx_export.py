"""Trees of scikit-learn to one ONNX graph.

The graph takes `features`, float32 (rows, features), and gives `log_throughput`, float32 (rows,). A cascade
also gives its `experts` and their `weights`, float32 (rows, bins). Each expert and each class is a `TreeEnsemble`
of ai.onnx.ml 5 of its own: with one target an operator passes all rows through a tree while that is in the
cache (measured: a fifth faster than one operator with 26 targets, and loaded in a fifth of the time).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, NodeProto, checker, helper, numpy_helper, parser
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import LEAST_STEP, BinnedCascade

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
# leap.predictor.models.cascade.weighted_mean
MEAN = """
    weighted = Mul (experts, weights)
    log_throughput = ReduceSum <keepdims = 0> (weighted, columns)
"""
# leap.predictor.models.cascade.weighted_median, line by line
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

BRANCH_LEQ = 0
# What is read of scikit-learn's node records.
NODE = [
    ("is_leaf", "u1"),
    ("left", "u4"),
    ("right", "u4"),
    ("feature_idx", "i8"),
    ("num_threshold", "f8"),
    ("missing_go_to_left", "u1"),
    ("value", "f8"),
]


class Target(NamedTuple):
    """Trees, as scikit-learn's node records, that add up to one number from a baseline."""

    trees: Sequence[NDArray[np.void]]
    baseline: float


def export(model: BoostedTrees | BinnedCascade) -> bytes:
    """Return the serialized ONNX graph of a fitted model.

    On float32 rows every tree takes the side that it takes in scikit-learn, also for values that equal a
    threshold and for missing and infinite ones; what differs is the rounding of float32 sums.
    """
    if isinstance(model, BoostedTrees):
        graph = parser.parse_model(BOOSTED.format(features=model.n_features_in_))
        nodes = sum_trees("experts", targets_of(model.model_, model.columns_))
    else:
        combination = MEDIAN if model.combination == "median" else MEAN
        text = CASCADE.replace("{combination}", combination)
        graph = parser.parse_model(text.format(features=model.n_features_in_, bins=model.n_bins_))
        nodes = [*sum_trees("experts", expert_targets(model)), *sum_trees("logits", class_targets(model))]
    tail = list(graph.graph.node)
    del graph.graph.node[:]
    graph.graph.node.extend([*nodes, *tail])
    checker.check_model(graph)
    data: bytes = graph.SerializeToString()
    return data


def targets_of(
    model: HistGradientBoostingRegressor | HistGradientBoostingClassifier, columns: NDArray[np.intp]
) -> list[Target]:
    """Return what a fitted scikit-learn model adds up: one target, or one per class."""
    # Nothing public gives the trees; these attributes have kept their form since scikit-learn 0.21.
    by_target = zip(*model._predictors, strict=True)
    return [
        Target([readdress(tree.nodes, columns) for tree in trees], baseline)
        for trees, baseline in zip(by_target, model._baseline_prediction.ravel(), strict=True)
    ]


def expert_targets(model: BinnedCascade) -> list[Target]:
    """Return one target per expert."""
    return [target for expert in model.experts_ for target in targets_of(expert.model_, expert.columns_)]


def class_targets(model: BinnedCascade) -> list[Target]:
    """Return one target per bin; their softmax weighs the experts."""
    constant = Target([readdress(np.zeros(1, dtype=NODE), model.classifier_columns_)], 0.0)
    if model.n_bins_ == 1:
        return [constant]
    targets = targets_of(model.classifier_, model.classifier_columns_)
    # scikit-learn models two classes by the log odds of the second.
    return [constant, *targets] if model.n_bins_ == 2 else targets


def sum_trees(name: str, targets: Sequence[Target]) -> list[NodeProto]:
    """Return the operators that compute `name`, float32 (rows, targets), from `features`."""
    ensembles = [tree_ensemble(target.trees, f"{name}_{index}") for index, target in enumerate(targets)]
    baseline = np.array([target.baseline for target in targets], dtype=np.float32)
    return [
        *ensembles,
        helper.make_node("Concat", [ensemble.output[0] for ensemble in ensembles], [f"{name}_trees"], axis=1),
        helper.make_node("Constant", [], [f"{name}_baseline"], value=numpy_helper.from_array(baseline)),
        helper.make_node("Add", [f"{name}_trees", f"{name}_baseline"], [name]),
    ]


def tree_ensemble(trees: Sequence[NDArray[np.void]], output: str) -> NodeProto:
    """Return the operator that adds up `trees`, as float32 (rows, 1)."""
    sizes = [len(tree) for tree in trees]
    roots = np.cumsum(sizes) - sizes
    nodes = np.concatenate(trees)
    # The operator numbers inner nodes and leaves apart.
    is_leaf = nodes["is_leaf"].astype(bool)
    position = np.where(is_leaf, np.cumsum(is_leaf), np.cumsum(~is_leaf)) - 1
    inner = nodes[~is_leaf]
    left, right = (inner[side] + np.repeat(roots, sizes)[~is_leaf] for side in ("left", "right"))
    integers = {
        "tree_roots": position[roots],
        "nodes_featureids": inner["feature_idx"],
        "nodes_truenodeids": position[left],
        "nodes_trueleafs": is_leaf[left],
        "nodes_falsenodeids": position[right],
        "nodes_falseleafs": is_leaf[right],
        "nodes_missing_value_tracks_true": inner["missing_go_to_left"],
        "leaf_targetids": np.zeros(is_leaf.sum()),
    }
    tensors = {
        "nodes_modes": np.full(len(inner), BRANCH_LEQ, dtype=np.uint8),
        "nodes_splits": round_down(inner["num_threshold"]),
        "leaf_weights": nodes["value"][is_leaf].astype(np.float32),
    }
    ensemble = helper.make_node("TreeEnsemble", ["features"], [output], domain="ai.onnx.ml", n_targets=1)
    for name, values in integers.items():
        ensemble.attribute.add(name=name, type=AttributeProto.INTS, ints=values.astype(np.int64).tolist())
    for name, values in tensors.items():
        ensemble.attribute.append(helper.make_attribute(name, numpy_helper.from_array(values)))
    return ensemble


def readdress(tree: NDArray[np.void], columns: NDArray[np.intp]) -> NDArray[np.void]:
    """Point the splits of a tree at columns of the whole row; give a bare leaf a split, which ONNX wants."""
    nodes = tree.copy()
    if len(nodes) == 1:
        nodes = np.repeat(nodes, 3)
        nodes["is_leaf"] = [0, 1, 1]
        nodes["left"], nodes["right"] = 1, 2
    nodes["feature_idx"] = columns[nodes["feature_idx"]]
    return nodes


def round_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the greatest float32 at or below each threshold: x <= t is the same for both if x is float32.

    Examples
    --------
    >>> round_down(np.array([0.1, 0.5, 1e300])).astype(float).tolist()
    [0.09999999403953552, 0.5, 3.4028234663852886e+38]
    """
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
