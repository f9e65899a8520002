"""The serving form of a trained recipe: one ONNX graph over the feature matrix."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from predictor.features.matrix import Matrix, Pairs
from predictor.graph import Graph
from predictor.jobs import Floats

GRAPH_FILE = "model.onnx"


@dataclass(frozen=True)
class Prediction:
    """Predicted ln throughput of (rows,) pairs.

    Attributes
    ----------
    spread
        Predicted standard deviation where the recipe has one.
    """

    mean: Floats
    spread: Floats | None = None


@dataclass(frozen=True)
class Model:
    """What an artifact serves with."""

    REQUIRED: ClassVar[tuple[str, ...]] = (GRAPH_FILE,)

    graph: Graph

    @classmethod
    def load(cls, folder: Path, features: int) -> "Model":
        """Read the files of a verified artifact.

        Raises
        ------
        ValueError
            If the graph does not take `features` columns.
        """
        graph = Graph(folder / GRAPH_FILE)
        if graph.features != features:
            raise ValueError(f"{GRAPH_FILE}: takes {graph.features} features, the manifest names {features}")
        return cls(graph)

    def predict(self, pairs: Pairs, matrix: Matrix) -> Prediction:
        """ln throughput of every pair."""
        return Prediction(self.graph.predict(matrix))
