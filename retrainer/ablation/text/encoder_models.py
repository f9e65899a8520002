"""Throughput from the job as text: a frozen encoder under a network or under boosted trees. Group `ablation`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leap.predictor.features.matrix import Matrix
from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.serving import Prediction, TreesModel
from leap.retrainer.ablation.neural import training as networks
from leap.retrainer.ablation.neural.training import Weights
from leap.retrainer.ablation.text.frozen_encoder import Encoder
from leap.retrainer.ablation.text.nearest_neighbours import compressed
from leap.retrainer.ablation.text.serialization import texts
from leap.retrainer.dataset.training_set import TrainingSet, imputed_of, vocabulary_of
from leap.retrainer.night.tree_arrays import serving_form

#: Directions of the embedding that trees are given: most of the others are noise to a split on one of them.
COMPONENTS = 32


class Embedded:
    """Vectors of the texts of rows, each different text encoded once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._place: dict[str, int] = {}
        self._found: list[Matrix] = []

    def of(self, rows: Sequence[str]) -> Matrix:
        """(n, width) vectors."""
        new = [text for text in dict.fromkeys(rows) if text not in self._place]
        if new:
            self._place |= {text: len(self._place) + position for position, text in enumerate(new)}
            self._found = [np.concatenate([*self._found, self._encoder.embed(new)])]
        return self._found[0][[self._place[text] for text in rows]]


class TextNetwork:
    """The vector of the text beside standardised numeric features, under a residual network."""

    def __init__(self, encoder: Encoder, seed: int = 0) -> None:
        self._embedded, self._seed = Embedded(encoder), seed

    def fit(self, training: TrainingSet) -> "TextNetwork":
        """See `Estimator`."""
        self._vocabulary, self._imputed = vocabulary_of(training), imputed_of(training)
        X = training.matrix(self._vocabulary, self._imputed)
        present = ~np.isnan(X).all(axis=0)
        mean, scale = np.zeros(X.shape[1], np.float32), np.ones(X.shape[1], np.float32)
        mean[present] = np.nanmean(compressed(X)[:, present], axis=0)
        scale[present] = np.maximum(np.nanstd(compressed(X)[:, present], axis=0), 1e-6)
        columns = self._columns(training, X)
        rng = np.random.default_rng(self._seed)
        weights: Weights = networks.resnet(rng, columns[0].shape[1] + 2 * X.shape[1])
        self._network = networks.train(forward, weights, (mean, scale), columns, training.y, self._seed)
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        X = attempts.matrix(self._vocabulary, self._imputed)
        return Prediction(self._network.predict(self._columns(attempts, X)))

    def save(self, folder: Path) -> None:
        """See `Estimator`; the encoder is not counted, it is as large as it is."""
        np.savez(folder / "weights.npz", *jax.tree.leaves((self._network.weights, self._network.fixed)))

    def _columns(self, attempts: TrainingSet, X: Matrix) -> tuple[Matrix, Matrix]:
        return self._embedded.of(texts(attempts)), compressed(X)


def forward(weights: Weights, fixed: tuple[Matrix, Matrix], vector: Any, X: Any) -> Any:
    """(n,) standardised targets."""
    mean, scale = fixed
    missing = jnp.isnan(X)
    numeric = jnp.where(missing, 0.0, (X - mean) / scale)
    flags = jnp.asarray(missing, jnp.float32)
    return networks.apply_resnet(weights, jnp.concatenate((vector, numeric, flags), axis=1))


class TextTrees:
    """Boosted trees over the feature matrix and the main directions of the vector."""

    def __init__(self, encoder: Encoder, seed: int = 0) -> None:
        self._embedded, self._seed = Embedded(encoder), seed

    def fit(self, training: TrainingSet) -> "TextTrees":
        """See `Estimator`."""
        self._vocabulary, self._imputed = vocabulary_of(training), imputed_of(training)
        vectors = self._embedded.of(texts(training))
        self._centre = vectors.mean(axis=0)
        _, _, directions = np.linalg.svd(vectors - self._centre, full_matrices=False)
        self._directions = directions[:COMPONENTS].T
        self._trees = BoostedTrees(
            max_leaf_nodes=63, max_iter=800, max_features=0.4, validation_fraction=1 / 30, random_state=self._seed
        ).fit(self._matrix(training), training.y)
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        return Prediction(self._trees.predict(self._matrix(attempts)))

    def save(self, folder: Path) -> None:
        """See `Estimator`; the encoder is not counted."""
        TreesModel(serving_form(self._trees)).save(folder)
        np.savez(folder / "directions.npz", self._directions, self._centre)

    def _matrix(self, attempts: TrainingSet) -> Matrix:
        vectors = (self._embedded.of(texts(attempts)) - self._centre) @ self._directions
        return np.hstack((attempts.matrix(self._vocabulary, self._imputed), vectors))
