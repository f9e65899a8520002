"""The serving forms of trained recipes: trees over the feature matrix, or the structured recipe. Both are arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.models.arrays import Arrays, ArraySpec, load_arrays, save_arrays
from leap.predictor.models.structured.model import Structured, configuration_rows
from leap.predictor.models.structured_arrays import SPECS as STRUCTURED_SPECS
from leap.predictor.models.structured_arrays import check as check_structured
from leap.predictor.models.trees.model import SPECS as TREES_SPECS
from leap.predictor.models.trees.model import Trees
from leap.predictor.storage.bounded import bounded_read
from leap.schemas.distribution import install_command

#: Kinds of arrays, which their files are named by.
STRUCTURED, TREES = "structured", "trees"
#: What trees were before they were arrays.
GRAPH_FILE = "model.onnx"
MAX_GRAPH_BYTES = 256 * 2**20
#: ln throughput beyond which nothing runs. So far its exponential and what is worked out of it stay finite.
MAX_LOG_THROUGHPUT = 100.0

Built = TypeVar("Built", Structured, Trees)


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
    trees: Trees

    def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
        """See :class:`Model`."""
        return Prediction(_bounded(self.trees.predict(matrix)))

    def save(self, folder: Path) -> None:
        """Write its files."""
        save_arrays(folder, TREES, self.trees.arrays())


@dataclass(frozen=True)
class StructuredModel:
    """Structured prior, the family's process and exact history."""

    reads_matrix: ClassVar[bool] = False
    structured: Structured

    def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
        """See :class:`Model`."""
        configurations = configuration_rows(pairs.jobs)
        estimate = self.structured.estimate_candidates(configurations, pairs.job, pairs.hardware_type).combined
        return Prediction(_bounded(estimate.mean), estimate.deviation)

    def save(self, folder: Path) -> None:
        """Write its files."""
        save_arrays(folder, STRUCTURED, self.structured.arrays())


def load(folder: Path, features: int) -> StructuredModel | TreesModel:
    """Read the model among the files of a verified artifact.

    Raises
    ------
    ValueError
        If there is none, it is damaged, or trees do not take `features` columns.
    """
    if (folder / f"{STRUCTURED}.json").exists():
        return StructuredModel(_built(folder, STRUCTURED, STRUCTURED_SPECS, _structured))
    name = f"{TREES}.json"
    if (folder / name).exists():
        trees = _built(folder, TREES, TREES_SPECS, Trees.from_arrays)
    else:
        name = GRAPH_FILE
        trees = _of_graph(folder / name)
    if trees.forest.features != features:
        raise ValueError(f"{name}: trees take {trees.forest.features} features, the manifest names {features}")
    return TreesModel(trees)


def _built(folder: Path, kind: str, specs: Mapping[str, ArraySpec], build: Callable[[Arrays], Built]) -> Built:
    """What arrays describe, once each is as it must be."""
    arrays = load_arrays(folder, kind, specs)
    try:
        return build(arrays)
    except ValueError as error:  # they do not fit one another
        raise ValueError(f"{kind}.json: {error}") from error


def _structured(arrays: Arrays) -> Structured:
    check_structured(arrays)
    return Structured.from_arrays(arrays)


def _of_graph(path: Path) -> Trees:
    """Trees of an artifact that was published before they were arrays."""
    data = bounded_read(path, MAX_GRAPH_BYTES)
    try:
        from leap.predictor.models.trees.onnx_import import read_graph
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{GRAPH_FILE}: trees as an ONNX graph, which take the package {error.name} to read: "
            f"retrain, or {install_command('onnx')}"
        ) from None
    return read_graph(data)


def _bounded(log_throughput: Floats) -> Floats:
    return np.clip(log_throughput, -MAX_LOG_THROUGHPUT, MAX_LOG_THROUGHPUT)
