"""What the neural families share: inputs, layers, and the loop that trains them. Group `ablation`.

JAX on the CPU, one thread, as every other family.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import Matrix
from leap.predictor.models.boosted import count_earlier

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")  # read at the first computation

#: A tree of arrays: what is learned.
Weights = Any
#: Weights, what is fixed, and the columns of some rows to the standardised target of each. What is fixed is given, not
#: closed over: the compiler would work on it as on code.
Forward = Callable[..., jax.Array]

BINS = 12
WIDTH, BLOCKS = 128, 3
BATCH, LEARNING_RATE, WEIGHT_DECAY = 256, 1e-3, 1e-4
MAX_EPOCHS, PATIENCE = 80, 10
VALIDATION_FRACTION = 0.1


class Piecewise(NamedTuple):
    """Piecewise linear encoding: one value a bin, how far the feature has come through it.

    Attributes
    ----------
    low, width
        (features, bins) float32; bins hold as many training rows each.

    References
    ----------
    Gorishniy, Rubachev, Babenko: On embeddings for numerical features in tabular deep learning, 2022.

    Examples
    --------
    >>> encoding = Piecewise.learn(np.array([[0.0], [1.0], [2.0], [4.0]], dtype=np.float32), bins=2)
    >>> np.asarray(encoding(np.array([[0.75], [2.75], [np.nan]], dtype=np.float32))).tolist()
    [[0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """

    low: Matrix
    width: Matrix

    @classmethod
    def learn(cls, X: Matrix, bins: int = BINS) -> "Piecewise":
        """Bins from the quantiles of (n, features) rows; a feature that is missing in all of them encodes as zeros."""
        present = ~np.isnan(X).all(axis=0)
        edges = np.zeros((bins + 1, X.shape[1]), dtype=np.float32)
        edges[:, present] = np.nanquantile(X[:, present], np.linspace(0, 1, bins + 1), axis=0)
        return cls(edges[:-1].T.copy(), np.maximum(np.diff(edges, axis=0), np.float32(1e-6)).T.copy())

    def __call__(self, X: Matrix) -> jax.Array:
        """(n, features × bins + features) values, the last of them 1 where a feature is missing."""
        missing = jnp.isnan(X)
        inside = jnp.clip((jnp.where(missing, 0.0, X)[:, :, None] - self.low) / self.width, 0.0, 1.0)
        inside = jnp.where(missing[:, :, None], 0.0, inside)
        return jnp.concatenate((inside.reshape(len(X), -1), jnp.asarray(missing, jnp.float32)), axis=1)

    @property
    def size(self) -> int:
        """Values of one encoded row."""
        return self.low.size + len(self.low)


def dense(rng: np.random.Generator, width_in: int, width_out: int) -> Weights:
    """Weights of a dense layer, with deviations that keep the size of what rectifiers let through."""
    scale = np.sqrt(2.0 / width_in)
    return {
        "w": (scale * rng.standard_normal((width_in, width_out))).astype(np.float32),
        "b": np.zeros(width_out, np.float32),
    }


def apply(layer: Weights, x: jax.Array) -> jax.Array:
    """A dense layer."""
    return x @ layer["w"] + layer["b"]


def normalise(x: jax.Array) -> jax.Array:
    """Layer normalisation without weights: those of the layer after it do the same."""
    return (x - jnp.mean(x, axis=-1, keepdims=True)) / jnp.sqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)


def resnet(rng: np.random.Generator, width_in: int) -> Weights:
    """Weights of a residual network over rows (Gorishniy et al., 2021)."""
    return {
        "first": dense(rng, width_in, WIDTH),
        "blocks": [{"up": dense(rng, WIDTH, 2 * WIDTH), "down": dense(rng, 2 * WIDTH, WIDTH)} for _ in range(BLOCKS)],
        "last": dense(rng, WIDTH, 1),
    }


def apply_resnet(weights: Weights, x: jax.Array) -> jax.Array:
    """(n,) values of (n, width) rows."""
    x = apply(weights["first"], x)
    for block in weights["blocks"]:
        x = x + apply(block["down"], jax.nn.relu(apply(block["up"], normalise(x))))
    return apply(weights["last"], jax.nn.relu(normalise(x)))[:, 0]


@dataclass(frozen=True)
class Network:
    """A trained network.

    Attributes
    ----------
    compiled
        `Forward` for `BATCH` rows.
    mean, scale
        Of the target it was trained on.
    """

    compiled: Forward
    weights: Weights
    fixed: Any
    mean: float
    scale: float

    def predict(self, columns: Sequence[NDArray[Any]]) -> Floats:
        """(n,) targets, in batches of one shape."""
        return self.mean + self.scale * _predict(self.compiled, self.weights, self.fixed, columns)


def train(
    forward: Forward, weights: Weights, fixed: Any, columns: Sequence[NDArray[Any]], y: Floats, seed: int
) -> Network:
    """Minimise the Huber loss on the earlier rows; keep the weights that did best on the latest.

    Parameters
    ----------
    columns
        Arrays with one entry a row, given to `forward` last.
    y
        (n,) target of rows in time order; it is standardised here.
    """
    earlier = count_earlier(len(y), VALIDATION_FRACTION)
    mean, scale = float(y.mean()), float(y.std()) or 1.0
    y = (y - mean) / scale
    target = np.asarray(y, dtype=np.float32)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY))

    def loss(weights: Weights, fixed: Any, batch: Sequence[jax.Array], wanted: jax.Array) -> jax.Array:
        return jnp.mean(optax.huber_loss(forward(weights, fixed, *batch), wanted, delta=0.5))

    @jax.jit
    def step(weights: Weights, state: Any, fixed: Any, batch: Sequence[jax.Array], wanted: jax.Array) -> Any:
        _, gradient = jax.value_and_grad(loss)(weights, fixed, batch, wanted)
        change, state = optimizer.update(gradient, state, weights)
        return optax.apply_updates(weights, change), state

    compiled, rng = jax.jit(forward), np.random.default_rng(seed)
    state, best, best_error, waited = optimizer.init(weights), weights, np.inf, 0
    size = min(BATCH, earlier)
    for _ in range(MAX_EPOCHS):
        order = rng.permutation(earlier)
        for start in range(0, earlier - size + 1, size):  # batches of one shape: the step is compiled once
            rows = order[start : start + size]
            weights, state = step(weights, state, fixed, [column[rows] for column in columns], target[rows])
        latest = _predict(compiled, weights, fixed, [column[earlier:] for column in columns])
        error = float(np.mean(np.abs(latest - y[earlier:])))
        if error < best_error:
            best, best_error, waited = weights, error, 0
        else:
            waited += 1
            if waited >= PATIENCE:
                break
    return Network(compiled, jax.tree.map(np.asarray, best), fixed, mean, scale)


def _predict(compiled: Forward, weights: Weights, fixed: Any, columns: Sequence[NDArray[Any]]) -> Floats:
    count = len(columns[0])
    predicted = []
    for start in range(0, count, BATCH):
        rows = np.minimum(np.arange(start, start + BATCH), count - 1)
        predicted.append(np.asarray(compiled(weights, fixed, *(column[rows] for column in columns)), dtype=np.float64))
    return np.concatenate(predicted)[:count] if predicted else np.zeros(0)
