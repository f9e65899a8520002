"""The past attempts most like a new one: context for models that learn from examples at the time they are asked."""

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.matrix import Matrix
from leap.retrainer.dataset.training_set import TrainingSet, imputed_of, vocabulary_of

#: What another name costs beside a distance of one over the numeric features.
MISMATCH = {"family": 1.0, "hardware_type": 1.0, "model_type": 2.0}
_BLOCK = 256


class Neighbours:
    """Distance over standardised features, in which a missing value is an average one, and over names."""

    def __init__(self, training: TrainingSet) -> None:
        self._vocabulary, self._imputed = vocabulary_of(training), imputed_of(training)
        X = compressed(self.matrix(training))
        present = ~np.isnan(X).all(axis=0)
        self._mean, self._scale = np.zeros(X.shape[1], np.float32), np.ones(X.shape[1], np.float32)
        self._mean[present] = np.nanmean(X[:, present], axis=0)
        self._scale[present] = np.maximum(np.nanstd(X[:, present], axis=0), 1e-6)
        self._points = self.points(training)
        self._names = _names(training)

    def matrix(self, attempts: TrainingSet) -> Matrix:
        """The features of rows, coded as the training rows are."""
        return attempts.matrix(self._vocabulary, self._imputed)

    def nearest(self, attempts: TrainingSet, count: int) -> NDArray[np.intp]:
        """(n, count) training rows, the most similar first; the latest of those that are equally so."""
        points, names = self.points(attempts), _names(attempts)
        total = len(self._points)
        nearest = np.empty((len(points), min(count, total)), dtype=np.intp)
        lengths = (self._points**2).sum(axis=1)
        for start in range(0, len(points), _BLOCK):
            block = slice(start, start + _BLOCK)
            squared = lengths - 2.0 * points[block] @ self._points.T + (points[block] ** 2).sum(axis=1)[:, None]
            distance = np.sqrt(np.maximum(squared, 0.0) / points.shape[1])
            for name, cost in MISMATCH.items():
                distance += np.float32(cost) * (names[name][block, None] != self._names[name])
            order = np.argsort(distance[:, ::-1], axis=1, kind="stable")[:, : nearest.shape[1]]
            nearest[block] = total - 1 - order
        return nearest

    def points(self, attempts: TrainingSet) -> Matrix:
        """(n, features) standardised; 0 where missing."""
        points: Matrix = np.nan_to_num((compressed(self.matrix(attempts)) - self._mean) / self._scale)
        return points


def compressed(X: Matrix) -> Matrix:
    """sign(x) ln(1 + |x|): sizes over many decades."""
    return np.sign(X) * np.log1p(np.abs(X))


def grouped(nearest: NDArray[np.intp], size: int, context: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Questions that share a context: (positions of at most `size` questions, at most `context` training rows) each.

    Questions whose most similar row is near each other in time are asked together; the context takes every question's
    first, then every second, until it is full.
    """
    order = np.argsort(nearest[:, 0], kind="stable")
    groups = []
    for start in range(0, len(order), size):
        asked = order[start : start + size]
        rows = list(dict.fromkeys(nearest[asked].T.ravel().tolist()))[:context]
        groups.append((asked, np.sort(np.array(rows, dtype=np.intp))))
    return groups


def _names(attempts: TrainingSet) -> dict[str, NDArray[np.object_]]:
    jobs = attempts.pairs.jobs
    return {
        "family": jobs.family,
        "hardware_type": attempts.pairs.hardware_type,
        "model_type": jobs.model_type,
    }
