"""How a cascade makes one prediction of its experts and their weights, in training and in serving."""

import numpy as np

from leap.predictor.features.batch import Floats

# Two experts closer than this in cumulative weight are interpolated as if this far apart, also where float32 serves,
# so that its rounding of a weight near zero cannot move the median from one expert to the next.
LEAST_STEP = 1e-6


def weighted_mean(values: Floats, weights: Floats) -> Floats:
    """Return the sum of `values` times `weights` in each row; weights add up to 1."""
    mean: Floats = (values * weights).sum(axis=1)
    return mean


def weighted_median(values: Floats, weights: Floats) -> Floats:
    """Return the median of `values` under `weights`, which add up to 1 in each row.

    Each value stands in the middle of its weight, and the median is interpolated between neighbours: unlike
    the first value to reach half the weight it does not jump, so float32 serves what float64 trained.

    Examples
    --------
    >>> weighted_median(np.array([[3.0, 1.0, 2.0]]), np.array([[0.2, 0.2, 0.6]])).round(6).tolist()
    [2.0]
    """
    order = values.argsort(axis=1)
    values = np.take_along_axis(values, order, axis=1)
    weights = np.take_along_axis(weights, order, axis=1)
    middles = weights.cumsum(axis=1) - weights / 2
    steps = np.maximum(np.diff(middles, axis=1), LEAST_STEP)
    shares = np.clip((0.5 - middles[:, :-1]) / steps, 0, 1)
    median: Floats = values[:, 0] + (shares * np.diff(values, axis=1)).sum(axis=1)
    return median


def softmax(logits: Floats) -> Floats:
    """Return weights in the proportion of exp(logits), which add up to 1 in each row."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
