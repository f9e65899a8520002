"""The serving forms of trained recipes: one ONNX graph over the feature matrix, or the structured recipe's arrays."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.models.onnx_model import Graph
from leap.predictor.models.structured.model import Structured, configuration_rows
from leap.predictor.storage.memmap import mapped

GRAPH_FILE = "model.onnx"
#: Names of the structured recipe's arrays; array n is in ``structured_n.npy``, to be memory-mapped.
ARRAYS_FILE = "structured.json"
MAX_ARRAYS = 96

Arrays = Mapping[str, NDArray[Any]]


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


class Model(Protocol):
    """What an artifact serves with.

    Attributes
    ----------
    reads_matrix
        Whether `predict` reads the feature matrix; if not, one without columns will do.
    """

    reads_matrix: ClassVar[bool]

    def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
        """ln throughput of every pair, given their feature matrix."""


@dataclass(frozen=True)
class TreesModel:
    """Trees over the feature matrix."""

    reads_matrix: ClassVar[bool] = True
    graph: Graph

    def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
        """See :class:`Model`."""
        return Prediction(self.graph.predict(matrix))


@dataclass(frozen=True)
class StructuredModel:
    """Structured prior, the family's process and exact history."""

    reads_matrix: ClassVar[bool] = False
    structured: Structured

    def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
        """See :class:`Model`."""
        configurations = configuration_rows(pairs.jobs)
        estimate = self.structured.estimate_candidates(configurations, pairs.job, pairs.hardware_type).combined
        return Prediction(estimate.mean, estimate.deviation)


def load(folder: Path, features: int) -> Model:
    """Read the model among the files of a verified artifact.

    Raises
    ------
    ValueError
        If there is none, or the graph does not take `features` columns.
    """
    if (folder / ARRAYS_FILE).exists():
        return StructuredModel(Structured.from_arrays(load_arrays(folder)))
    graph = Graph(folder / GRAPH_FILE)
    if graph.features != features:
        raise ValueError(f"{GRAPH_FILE}: takes {graph.features} features, the manifest names {features}")
    return TreesModel(graph)


def save_arrays(folder: Path, arrays: Arrays) -> None:
    """Write named arrays without pickle."""
    (folder / ARRAYS_FILE).write_bytes(msgspec.json.encode(list(arrays)))
    for number, array in enumerate(arrays.values()):
        np.save(folder / f"structured_{number}.npy", array, allow_pickle=False)


def load_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Memory-map what `save_arrays` wrote.

    Raises
    ------
    ValueError
        If the list of names is not one.
    """
    try:
        names = msgspec.json.decode((folder / ARRAYS_FILE).read_bytes(), type=list[str])
    except msgspec.MsgspecError as error:
        raise ValueError(f"{ARRAYS_FILE}: {error}") from error
    if len(names) > MAX_ARRAYS or not all(re.fullmatch(r"[a-z_]+/[a-z_.0-9]+", name) for name in names):
        raise ValueError(f"{ARRAYS_FILE}: up to {MAX_ARRAYS} names of arrays are expected")
    return {name: mapped(folder / f"structured_{number}.npy") for number, name in enumerate(names)}
