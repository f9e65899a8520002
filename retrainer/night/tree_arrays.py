"""Trees of scikit-learn to the flat arrays that serve."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.trees.model import Combination, Trees
from leap.predictor.models.trees.nodes import Nodes, forest_of


def serving_form(model: BoostedTrees | BinnedCascade) -> Trees:
    """Return what a fitted model serves with.

    On float32 rows every tree takes the side that it takes in scikit-learn, also for values that equal a threshold and
    for missing and infinite ones; what differs is rounding in the twelfth digit.
    """
    if isinstance(model, BoostedTrees):
        return Trees(forest_of(model.n_features_in_, targets_of(model.model_, model.columns_)), Combination.single)
    experts = [target for expert in model.experts_ for target in targets_of(expert.model_, expert.columns_)]
    forest = forest_of(model.n_features_in_, [*experts, *class_targets(model)])
    return Trees(forest, Combination(model.combination))


def targets_of(
    model: HistGradientBoostingRegressor | HistGradientBoostingClassifier, columns: NDArray[np.intp]
) -> list[Nodes]:
    """Return what a fitted scikit-learn model adds up: one target, or one per class."""
    # Nothing public gives the trees; these attributes have kept their form since scikit-learn 0.21.
    by_target = zip(*model._predictors, strict=True)
    return [
        nodes_of([tree.nodes for tree in trees], columns, float(baseline))
        for trees, baseline in zip(by_target, model._baseline_prediction.ravel(), strict=True)
    ]


def class_targets(model: BinnedCascade) -> list[Nodes]:
    """Return one target per bin; their softmax weighs the experts."""
    if model.n_bins_ == 1:
        return [constant()]
    targets = targets_of(model.classifier_, model.classifier_columns_)
    # scikit-learn models two classes by the log odds of the second.
    return [constant(), *targets] if model.n_bins_ == 2 else targets


def constant() -> Nodes:
    """Return a target that is zero."""
    zero = np.zeros(1, dtype=np.intp)
    return Nodes(
        is_leaf=np.ones(1, dtype=np.bool_),
        left=zero,
        right=zero,
        feature=zero,
        threshold=zero.astype(np.float32),
        missing_left=zero.astype(np.bool_),
        value=zero.astype(np.float64),
        roots=zero,
        baseline=0.0,
    )


def nodes_of(trees: Sequence[NDArray[np.void]], columns: NDArray[np.intp], baseline: float) -> Nodes:
    """Return scikit-learn's node records of trees as one target over whole rows, of which they know `columns`."""
    sizes = np.array([len(tree) for tree in trees], dtype=np.intp)
    roots = np.cumsum(sizes) - sizes
    nodes = np.concatenate(trees)
    first = np.repeat(roots, sizes)
    return Nodes(
        is_leaf=nodes["is_leaf"].astype(np.bool_),
        left=nodes["left"].astype(np.intp) + first,
        right=nodes["right"].astype(np.intp) + first,
        feature=columns[nodes["feature_idx"]],
        threshold=round_down(nodes["num_threshold"]),
        missing_left=nodes["missing_go_to_left"].astype(np.bool_),
        value=nodes["value"].astype(np.float64),
        roots=roots,
        baseline=baseline,
    )


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
