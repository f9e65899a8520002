"""DNNPerf: attention over the operator graph, piecewise linear job features, a residual head. Group `ablation`.

After Gao et al., "Runtime performance prediction for deep learning models with graph neural network", 2023: each layer
weighs the messages of a node's neighbours by attention to both nodes and to what flows between them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leap.predictor.features.matrix import Matrix
from leap.predictor.models.serving import Prediction
from leap.retrainer.ablation.neural import training as networks
from leap.retrainer.ablation.neural.operator_graph import NODE_VALUES, Arrays, Indices, graphs
from leap.retrainer.ablation.neural.training import Piecewise, Weights, apply, dense
from leap.retrainer.dataset.training_set import TrainingSet, imputed_of, vocabulary_of
from leap.schemas.launch import ModelDefinition

WIDTH, LAYERS = 32, 3


class DNNPerf:
    """The network, with the operator graph or without.

    Parameters
    ----------
    models
        Model type to its definition; none is the network without the graph.
    """

    def __init__(self, models: Mapping[str, ModelDefinition], seed: int = 0) -> None:
        self._graphs = graphs(models) if models else None
        self._seed = seed

    def fit(self, training: TrainingSet) -> "DNNPerf":
        """See `Estimator`."""
        self._vocabulary, self._imputed = vocabulary_of(training), imputed_of(training)
        X = training.matrix(self._vocabulary, self._imputed)
        encoding = Piecewise.learn(X)
        rng, width = np.random.default_rng(self._seed), encoding.size
        weights: Weights = {}
        if self._graphs:
            weights["graph"] = graph_network(rng)
            width += 2 * WIDTH
        weights["head"] = networks.resnet(rng, width)
        fixed, columns = (encoding, self._graphs and self._graphs.arrays()), self._columns(training, X)
        self._network = networks.train(forward, weights, fixed, columns, training.y, self._seed)
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        X = attempts.matrix(self._vocabulary, self._imputed)
        return Prediction(self._network.predict(self._columns(attempts, X)))

    def save(self, folder: Path) -> None:
        """See `Estimator`."""
        np.savez(folder / "weights.npz", *jax.tree.leaves((self._network.weights, self._network.fixed[0])))

    def _columns(self, attempts: TrainingSet, X: Matrix) -> tuple[Matrix, Indices]:
        known = self._graphs.position if self._graphs else {}
        return X, np.array([known.get(name, 0) for name in attempts.pairs.jobs.model_type], dtype=np.int32)


def forward(weights: Weights, fixed: tuple[Piecewise, Arrays | None], X: Any, graph: Any) -> Any:
    """(n,) standardised targets of (n, features) rows and the graph of each."""
    encoding, of = fixed
    encoded = encoding(X)
    if of is not None:
        encoded = jnp.concatenate((encoded, embed(weights["graph"], of)[graph]), axis=1)
    return networks.apply_resnet(weights["head"], encoded)


def graph_network(rng: np.random.Generator) -> Weights:
    """Weights of the layers over a graph."""
    layers = [
        {
            "own": dense(rng, WIDTH, WIDTH),
            "message": dense(rng, WIDTH + 2, WIDTH),
            "attention": dense(rng, 2 * WIDTH + 2, WIDTH),
            "score": dense(rng, WIDTH, 1),
        }
        for _ in range(LAYERS)
    ]
    return {"first": dense(rng, NODE_VALUES, WIDTH), "layers": layers}


def embed(weights: Weights, of: Arrays) -> Any:
    """(graphs, 2 `WIDTH`): mean and greatest value over the nodes of each graph."""
    count, graphs = len(of.nodes), len(of.sizes)
    h = jax.nn.relu(apply(weights["first"], of.nodes))
    for layer in weights["layers"]:
        sent, received = h[of.source], h[of.target]
        score = jax.nn.leaky_relu(apply(layer["attention"], jnp.concatenate((sent, received, of.edges), axis=1)))
        share = attention(apply(layer["score"], score)[:, 0], of.target, count)
        message = apply(layer["message"], jnp.concatenate((sent, of.edges), axis=1))
        gathered = jax.ops.segment_sum(share[:, None] * message, of.target, count)
        h = h + jax.nn.relu(apply(layer["own"], networks.normalise(h)) + gathered)
    mean = jax.ops.segment_sum(h, of.graph, graphs) / of.sizes[:, None]
    return networks.normalise(jnp.concatenate((mean, jax.ops.segment_max(h, of.graph, graphs)), axis=1))


def attention(score: Any, target: Any, count: int) -> Any:
    """Softmax of the scores of the edges that enter each node."""
    greatest = jax.ops.segment_max(score, target, count)
    raised = jnp.exp(score - greatest[target])
    return raised / jax.ops.segment_sum(raised, target, count)[target]
