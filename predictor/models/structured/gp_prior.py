"""The structured prior in its serving form: what a configuration should reach, before its own history speaks.

ln throughput per accelerator is a Gaussian process over configurations: a part that all model types share, linear in
finite features, and one process per model type held by at most a few hundred landmarks. Given the shared weights the
model types are independent, so the posterior is one small block each.

Conditionals of the landmarks as in Snelson and Ghahramani, "Sparse Gaussian processes using pseudo-inputs" (FITC),
2006; exact where every configuration is a landmark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Rows
from leap.predictor.models.structured.kernel import (
    BATCH,
    UNSEEN,
    YEARS,
    Arrays,
    InputEncoder,
    Inputs,
    Kernel,
    SharedFeatureMap,
    stated,
)

#: What an estimate of the prior rests on.
SPECIFICATION_ONLY, SIMILAR_JOBS = 0, 1
#: Columns of `PriorEstimate.outside`.
OUTSIDE: tuple[str, ...] = ("model type", "hardware type", "range")


@dataclass(frozen=True)
class PriorEstimate:
    """Estimates of (n,) rows.

    Attributes
    ----------
    mean
        ln throughput, samples/s.
    deviation
        Its standard deviation, noise of one configuration included. From `Structured.estimate`, where the family is
        known: that of its process and noise alone, whose variances were learned from what the prior missed; far from
        all that the family ran the prior's own may be greater.
    basis
        `SIMILAR_JOBS` where the model type was trained on, else `SPECIFICATION_ONLY`.
    outside
        (n, len(OUTSIDE)) bool: model type or hardware type never seen; a number beyond those of the model type, or no
        batch where its own differed.
    """

    mean: Floats
    deviation: Floats
    basis: NDArray[np.uint8]
    outside: NDArray[np.bool_]


@dataclass(frozen=True)
class BlockPosterior:
    """Posterior of one model type over m landmarks and d shared features.

    Attributes
    ----------
    landmarks
        Their configurations.
    whiten
        (m, m): covariance with the landmarks times this gives independent features.
    weights
        (m,) mean effect of those, the shared part taken at its mean.
    root
        (m, m): the variance that they leave is the squared norm of features times this.
    coupling
        (m, d): shared features that they explain away.
    low, high
        (columns,) range of the numbers.
    """

    landmarks: Inputs
    whiten: Floats
    weights: Floats
    root: Floats
    coupling: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Prior:
    """See the module.

    Attributes
    ----------
    mean
        Mean of ln throughput per accelerator.
    weights, root
        (d,) posterior mean of the shared weights, (d, d) root of their covariance.
    noise
        Variance of one attempt that the kernel does not explain.
    trained
        (h + 1,) bool: hardware types that ran in the window.
    low, high
        (columns,) range of the numbers over all model types.
    blocks
        One per model type of the encoding.
    """

    encoding: InputEncoder
    kernel: Kernel
    shared: SharedFeatureMap
    mean: float
    weights: Floats
    root: Floats
    noise: float
    trained: NDArray[np.bool_]
    low: Floats
    high: Floats
    blocks: tuple[BlockPosterior, ...]

    def predict(self, rows: Rows) -> PriorEstimate:
        """Estimates of rows: the columns that `InputEncoder.points` reads, one entry per row."""
        points = self.encoding.points(rows)
        mean, variance = self.at(points)
        low, high = (bounds[points.model] for bounds in self._ranges)
        beyond = (points.x < low - 1e-6) | (points.x > high + 1e-6)
        beyond[:, YEARS] = False
        missing = np.flatnonzero(~stated(rows["batch_size"]) & (low[:, BATCH] < high[:, BATCH]))
        if len(missing):
            beyond[missing, BATCH] = True
            variance[missing] += self._doubt(points.take(missing), low[missing, BATCH], high[missing, BATCH])
        unseen = points.model == UNSEEN
        return PriorEstimate(
            mean=mean + points.x[:, 0],
            deviation=np.sqrt(variance + self.noise),
            basis=np.where(unseen, SPECIFICATION_ONLY, SIMILAR_JOBS).astype(np.uint8),
            outside=np.column_stack((unseen, ~self.trained[points.hardware], beyond.any(axis=1))),
        )

    @cached_property
    def _ranges(self) -> tuple[Floats, Floats]:
        """(m + 1, columns) range of the numbers of each model type, last of all: `UNSEEN` is the last of them."""
        low = np.vstack([*(block.low for block in self.blocks), self.low])
        return low, np.vstack([*(block.high for block in self.blocks), self.high])

    def _doubt(self, points: Inputs, low: Floats, high: Floats) -> Floats:
        """(n,) variance that comes of a batch which may be anything within a range, evenly in its logarithm."""
        ends = []
        for batch in (low, high):
            x = points.x.copy()
            x[:, BATCH] = batch
            ends.append(self.at(replace(points, x=x))[0])
        return np.square(ends[1] - ends[0]) / 12

    def at(self, points: Inputs) -> tuple[Floats, Floats]:
        """(n,) mean of ln throughput per accelerator and (n,) variance without noise."""
        shared = self.shared(points)
        mean = self.mean + shared @ self.weights
        variance = self.kernel.diagonal(points)
        for model in np.unique(points.model[points.model != UNSEEN]):
            rows = np.flatnonzero(points.model == model)
            block = self.blocks[model]
            local = self.kernel(points.take(rows), block.landmarks) @ block.whiten
            shared[rows] -= local @ block.coupling
            mean[rows] += local @ block.weights
            unexplained = variance[rows] - np.square(local).sum(axis=1)
            variance[rows] = np.maximum(unexplained, 0.0) + np.square(local @ block.root).sum(axis=1)
        return mean, variance + np.square(shared @ self.root).sum(axis=1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects; matrices of blocks end to end in float32."""
        stored: dict[str, NDArray[Any]] = {}
        for part in ("encoding", "kernel", "shared"):
            value = getattr(self, part)
            stored |= {f"{part}.{field.name}": getattr(value, field.name) for field in fields(value)}
        for name in ("mean", "weights", "root", "noise", "trained", "low", "high"):
            stored[name] = np.asarray(getattr(self, name))
        stored["block.size"] = np.array([len(block.weights) for block in self.blocks], dtype=np.int64)
        stored["block.hardware"] = np.concatenate([np.zeros(0, int), *(b.landmarks.hardware for b in self.blocks)])
        stored["block.x"] = np.vstack([np.zeros((0, len(self.low))), *(block.landmarks.x for block in self.blocks)])
        for name in _MATRICES:
            flat = [np.zeros(0), *(getattr(block, name).ravel() for block in self.blocks)]
            stored[f"block.{name}"] = np.concatenate(flat).astype(np.float32)
        for name in ("low", "high"):
            stored[f"block.{name}"] = np.vstack(
                [np.zeros((0, len(self.low))), *(getattr(b, name) for b in self.blocks)]
            )
        return stored

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Prior":
        """The prior that `arrays` describes."""

        def part(name: str) -> dict[str, NDArray[Any]]:
            return {key.split(".", 1)[1]: array for key, array in stored.items() if key.startswith(f"{name}.")}

        models = len(stored["encoding.models"])
        encoding = InputEncoder(**{"batch": np.full(models + 1, np.nan), **part("encoding")})
        if encoding.batch.shape != (models + 1,):
            raise ValueError(f"{encoding.batch.shape} batches of {models} model types")
        return cls(
            encoding=encoding,
            kernel=Kernel(**part("kernel")),
            shared=SharedFeatureMap(**part("shared")),
            mean=float(stored["mean"]),
            weights=stored["weights"],
            root=stored["root"],
            noise=float(stored["noise"]),
            trained=stored["trained"],
            low=stored["low"],
            high=stored["high"],
            blocks=tuple(_blocks(stored)),
        )


_MATRICES = ("whiten", "weights", "root", "coupling")


def _blocks(stored: Mapping[str, NDArray[Any]]) -> list[BlockPosterior]:
    features = len(stored["weights"])
    start = dict.fromkeys(_MATRICES, 0)
    row, blocks = 0, []
    for model, size in enumerate(stored["block.size"].tolist()):
        parts = {}
        for name, shape in zip(_MATRICES, ((size, size), (size,), (size, size), (size, features)), strict=True):
            length = int(np.prod(shape))
            parts[name] = stored[f"block.{name}"][start[name] : start[name] + length].reshape(shape)
            start[name] += length
        landmarks = Inputs(
            np.full(size, model),
            stored["block.hardware"][row : row + size],
            stored["block.x"][row : row + size],
        )
        row += size
        blocks.append(
            BlockPosterior(landmarks, **parts, low=stored["block.low"][model], high=stored["block.high"][model])
        )
    return blocks
