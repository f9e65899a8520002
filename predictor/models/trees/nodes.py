"""Trees as records that point at one another, to the flat arrays of a forest."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.trees.forest import LEAF, MAX_DEPTH, MAX_NODES, Forest, spread

#: Bits of a float64's fraction: so many times the unit of a sum, every smaller multiple of it is exact.
_EXACT_BITS = 52


class Nodes(NamedTuple):
    """(nodes,) arrays of the nodes of all trees of a target; children by position. A leaf has a value alone.

    Attributes
    ----------
    roots
        (trees,) positions.
    baseline
        What the trees add to.
    """

    is_leaf: NDArray[np.bool_]
    left: Indices
    right: Indices
    feature: Indices
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.bool_]
    value: Floats
    roots: Indices
    baseline: float


def forest_of(features: int, targets: Sequence[Nodes]) -> Forest:
    """The forest of targets of trees over rows of so many features.

    Raises
    ------
    ValueError
        If nodes lead in a circle or the forest is larger than any of Leap.
    """
    sizes = np.array([len(target.is_leaf) for target in targets], dtype=np.intp)
    before = np.cumsum(sizes) - sizes
    first = np.repeat(before, sizes)
    is_leaf, feature, threshold, missing_left, value = (
        np.concatenate([getattr(target, name) for target in targets])
        for name in ("is_leaf", "feature", "threshold", "missing_left", "value")
    )
    left, right = (np.concatenate([getattr(target, side) for target in targets]) + first for side in ("left", "right"))
    trees = np.array([len(target.roots) for target in targets], dtype=np.int64)
    order = level_order(
        is_leaf, left, right, np.concatenate([target.roots for target in targets]) + np.repeat(before, trees)
    )
    inner, leaves = order[~is_leaf[order]], order[is_leaf[order]]
    # Equal splits are equal integers: the feature, the bits of the threshold, the side of a missing value.
    bits = (threshold[inner] + np.float32(0)).view(np.uint32).astype(np.int64)  # -0 is 0
    keys = (feature[inner].astype(np.int64) << 33) | (bits << 1) | missing_left[inner]
    _, shown, split = np.unique(keys, return_index=True, return_inverse=True)
    node_split = np.full(len(order), LEAF, dtype=np.int32)
    node_split[~is_leaf[order]] = split
    baseline = np.array([target.baseline for target in targets], dtype=np.float64)
    return Forest(
        features=features,
        split_feature=feature[inner][shown].astype(np.int32),
        split_threshold=threshold[inner][shown].astype(np.float32),
        split_missing_left=missing_left[inner][shown].astype(np.bool_),
        node_split=node_split,
        leaf_value=on_grid(value[leaves].astype(np.float64), node_split < 0, trees),
        trees=trees,
        baseline=baseline,
    )


def level_order(is_leaf: NDArray[np.bool_], left: Indices, right: Indices, roots: Indices) -> Indices:
    """Positions of the nodes of trees, level by level, right children before left."""
    level, order, count = roots, [roots], len(roots)
    for _ in range(MAX_DEPTH):
        inner = level[~is_leaf[level]]
        level = np.column_stack((right[inner], left[inner])).ravel()
        order.append(level)
        count += len(level)
        if not len(level):
            return np.concatenate(order)
        if count > MAX_NODES:
            break
    raise ValueError(f"trees of over {MAX_DEPTH} levels or {MAX_NODES} nodes")


def on_grid(values: Floats, is_leaf: NDArray[np.bool_], trees: NDArray[np.int64]) -> Floats:
    """Round (leaves,) values of trees, in level order, so that float64 adds one of each tree exactly, in any order.

    Each is a multiple of the least power of two of which so many fit into a fraction as the largest leaves of all
    trees of a target add up to: for sums up to 1,000 that is 1e-13.
    """
    tree = spread(~is_leaf, np.arange(int(trees.sum())))[is_leaf]
    largest = np.zeros(int(trees.sum()))
    np.maximum.at(largest, tree, np.abs(values))
    target = np.repeat(np.arange(len(trees)), trees)
    bound = np.bincount(target, weights=largest, minlength=len(trees))
    unit = np.exp2(np.ceil(np.log2(np.maximum(bound, 1e-300))) - _EXACT_BITS)[target][tree]
    return np.asarray(np.round(values / unit) * unit)
