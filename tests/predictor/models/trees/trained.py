"""Small trees, and rows that stand on their thresholds."""

import numpy as np
from numpy.typing import NDArray

from leap.predictor.models.boosted import BoostedTrees
from leap.retrainer.night.tree_arrays import round_down

Matrix = NDArray[np.float32]
LEAST = np.float32(-np.inf)
MOST = np.float32(np.inf)


def training() -> tuple[Matrix, NDArray[np.float64]]:
    """Rows with few and many distinct values, missing values, one empty column and a wide target."""
    random = np.random.default_rng(11)
    x = random.normal(size=(4000, 8)).astype(np.float32)
    x[:, 1] = np.round(x[:, 1] * 3)
    x[:, 2] = np.exp(8 * x[:, 2])
    x[:, 3] *= 1e-30
    x[random.random(x.shape) < 0.15] = np.nan
    x[:, 4] = np.nan
    y = 6 + 3 * np.nan_to_num(x[:, 0]) + np.isnan(x[:, 1]) * np.nan_to_num(x[:, 5]) + random.normal(size=4000) / 9
    return x, y


def thresholds_of(*models: BoostedTrees) -> NDArray[np.float64]:
    """All thresholds of the trees."""
    trees = [tree.nodes for model in models for trees in model.model_._predictors for tree in trees]
    return np.unique(np.concatenate([nodes["num_threshold"][nodes["is_leaf"] == 0] for nodes in trees]))


def hostile(x: Matrix, thresholds: NDArray[np.float64], rows: int) -> Matrix:
    """Rows of the training matrix in which most values stand on a threshold, beside one, or are special."""
    random = np.random.default_rng(12)
    on = round_down(thresholds)
    values = np.r_[on, np.nextafter(on, LEAST), np.nextafter(on, MOST), [np.nan, LEAST, MOST, 0, -0.0]]
    made = x[random.integers(0, len(x), rows)]
    replaced = random.random(made.shape) < 0.7
    made[replaced] = random.choice(values, size=replaced.sum())
    return made
