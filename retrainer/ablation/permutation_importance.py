"""Importance by permutation of any family: points of w20 lost when attempts exchange inputs."""

from dataclasses import replace

import numpy as np

from leap.predictor.features.batch import Floats
from leap.predictor.models.accuracy import within
from leap.retrainer.ablation.candidate import Estimator
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.report.permutation_importance import CATEGORIES, REPEATS, ROWS, exchange

#: What is exchanged: all inputs of a category, and each by itself.
GROUPS = CATEGORIES | {name: (name,) for names in CATEGORIES.values() for name in names if len(names) > 1}


def importance(estimator: Estimator, attempts: TrainingSet) -> dict[str, float]:
    """Category or input to points of w20 lost, the most first; what changes no prediction is left out."""
    attempts = attempts.where(np.arange(len(attempts)) % max(1, len(attempts) // ROWS) == 0)

    def w20(mean: Floats) -> float:
        return 100.0 * float(within(np.exp(mean), np.exp(attempts.y), 20).mean())

    mean, rng, losses = estimator.predict(attempts).mean, np.random.default_rng(0), {}
    orders = [rng.permutation(len(attempts)) for _ in range(REPEATS)]
    for name, inputs in GROUPS.items():
        asked = [replace(attempts, pairs=exchange(attempts.pairs, inputs, order)) for order in orders]
        changed = [estimator.predict(prediction).mean for prediction in asked]
        if not all(np.array_equal(prediction, mean, equal_nan=True) for prediction in changed):
            losses[name] = round(w20(mean) - float(np.mean([w20(prediction) for prediction in changed])), 1)
    return dict(sorted(losses.items(), key=lambda item: -item[1]))
