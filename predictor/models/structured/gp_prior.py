"""The structured prior in its serving form: what a configuration should reach, before its own history speaks.

ln throughput per accelerator is a Gaussian process over configurations: a part that all model types share, linear in
finite features, and one process per model type held by at most a few hundred landmarks. Given the shared weights the
model types are independent, so the posterior is one small block each. Symbols as in docs/model.md.

Conditionals of the landmarks as in Snelson and Ghahramani, "Sparse Gaussian processes using pseudo-inputs" (FITC),
2006; exact where every configuration is a landmark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices, Names, Rows, take
from leap.predictor.models.arrays import Arrays
from leap.predictor.models.physics.calibration import GROUPS, MODEL, SCALE, never_ran
from leap.predictor.models.physics.utilisation import Utilisation
from leap.predictor.models.structured.inputs import (
    BATCH,
    UNSEEN,
    InputEncoder,
    Inputs,
    Queries,
    side_by_side,
    with_batch,
)
from leap.predictor.models.structured.kernel import AT_ONCE, Kernel, SharedFeatureMap

#: Model types whose block is kept as rankings read it, up to 1 MB each.
SERVED_BLOCKS = 64


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
    """

    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class BlockPosterior:
    """Posterior of one model type over m landmarks and d shared features.

    Attributes
    ----------
    landmarks
        Their configurations.
    whiten
        (m, m) L^-T where K_mm = L L^T: K(x, landmarks) times this are independent features phi of a configuration x.
    weights
        (m,) posterior mean of their weights, the shared weights at their mean.
    root
        (m, m) R with R R^T the covariance of those weights, given the shared weights.
    coupling
        (m, d) C: their mean falls by C w as the shared weights rise by w.
    """

    landmarks: Inputs
    whiten: Floats
    weights: Floats
    root: Floats
    coupling: Floats


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
    batch_range
        (m + 1, 2) least and greatest ln batch per accelerator of each model type, then of all: `UNSEEN` is the last.
    blocks
        One per model type of the encoding.
    utilisation
        What all of them share, which is added to the mean.
    ran
        (m + 1, h + 1) whether each model type ran on each hardware type; the last are any that is not known.
    calibration
        (GROUPS,) what deviations are multiplied with, by what of an attempt never ran.
    """

    encoding: InputEncoder
    kernel: Kernel
    shared: SharedFeatureMap
    mean: float
    weights: Floats
    root: Floats
    noise: float
    batch_range: Floats
    blocks: tuple[BlockPosterior, ...]
    utilisation: Utilisation | None = None
    ran: NDArray[np.bool_] | None = None
    calibration: Floats = field(default_factory=lambda: np.ones(GROUPS))

    def predict(self, rows: Rows) -> PriorEstimate:
        """Estimates of rows: the columns that `InputEncoder.points` reads, one entry per row."""
        return self.predict_candidates(rows, np.arange(len(rows["day"])), rows["hardware_type"])

    def predict_candidates(self, configurations: Rows, configuration: Indices, hardware_type: Names) -> PriorEstimate:
        """Estimates of (n,) hardware types, each for one of (c,) configurations."""
        queries = self.encoding.queries(configurations, configuration, hardware_type)
        if self.utilisation is None or self.ran is None:
            return self.estimate(queries)
        stated = with_batch(configurations, queries.x)
        estimate = self.estimate(queries, stated)
        model, alike = queries.model[configuration], np.ones(len(queries.model), dtype=bool)
        if UNSEEN in queries.model:
            alike = self.utilisation.akin(stated)
        group = never_ran(self.ran, model, queries.hardware, alike[configuration])
        if len(queries.model) == len(queries) and (group == SCALE).all():
            shared, more = self.utilisation.log_throughput_of(stated, queries.hardware), np.zeros(len(queries))
        else:
            shared, more = self.utilisation.estimate(stated, configuration, queries.hardware, group != SCALE)
        # Of a model type that never ran nothing is known but what is shared.
        own = np.where(group >= MODEL, self.noise + self.utilisation.level.sum(), np.square(estimate.deviation))
        deviation = np.sqrt(own + more) * self.calibration[group]
        return PriorEstimate(estimate.mean + shared, deviation)

    def estimate(self, queries: Queries, configurations: Rows | None = None) -> PriorEstimate:
        """Estimates of (n,) rows but for the mean of `utilisation`.

        Of (c,) `configurations` that says only what another batch would change.
        """
        mean, variance = self.posterior(queries)
        if not queries.has_batch.all():
            low, high = self.batch_range[queries.model].T
            unstated = ~queries.has_batch & (low < high)
            rows = unstated[queries.configuration]
            asked = queries.of_configurations(unstated)
            change = self._change(
                asked, low[unstated], high[unstated], configurations and take(configurations, unstated)
            )
            variance[rows] += np.square(change) / 12  # of what may be anything between them, evenly in its logarithm
        return PriorEstimate(
            mean=mean + queries.x[queries.configuration, 0],
            deviation=np.sqrt(variance + self.noise),
        )

    def _change(self, queries: Queries, low: Floats, high: Floats, configurations: Rows | None) -> Floats:
        """(n,) change of the mean from one batch to another, (c,) each."""
        ends, none = [], np.zeros(len(queries), dtype=bool)
        for batch in (low, high):
            x = queries.x.copy()
            x[:, BATCH] = batch
            ends.append(self.posterior(replace(queries, x=x))[0])
            if configurations is not None and self.utilisation is not None:
                rows = with_batch(configurations, x)
                ends[-1] += self.utilisation.estimate(rows, queries.configuration, queries.hardware, none)[0]
        return np.asarray(ends[1] - ends[0])

    def posterior(self, queries: Queries) -> tuple[Floats, Floats]:
        """(n,) mean of ln throughput per accelerator and (n,) variance without noise.

        phi = K(x, landmarks) L^-T, s the shared features, w and S S^T mean and covariance of the shared weights:

        mean = mean of all + s w + phi weights
        variance = k(x, x) - |phi|^2 + |phi R|^2 + |s S - phi C S|^2
        """
        mean, variance = np.empty(len(queries)), self.kernel.variance(queries)
        by_hardware, by_column, constant = self._shared_columns
        of_configuration = queries.x @ by_column + constant
        for model, rows in queries.by_model(AT_ONCE):
            hardware, configuration = queries.hardware[rows], queries.configuration[rows]
            shared = by_hardware.take(hardware, axis=0)
            shared += of_configuration.take(configuration, axis=0)
            mean[rows] = shared[:, 0]
            if model != UNSEEN:
                block = self._served_block(model)
                x, position = side_by_side(queries.x, configuration)
                tables = block.tables.take(hardware, axis=0).take(block.hardware, axis=2)
                phi = self.kernel.of_configurations(x, position, tables, block.landmarks) @ block.whiten
                mean[rows] += phi @ block.weights
                spread = phi.astype(block.spread.dtype, copy=False) @ block.spread  # phi is below 1: nothing is lost
                size = len(block.weights)
                variance[rows] = np.maximum(variance[rows] - _squared_norm(phi), 0.0) + _squared_norm(spread[:, :size])
                shared[:, 1:] -= spread[:, size:]
            variance[rows] += _squared_norm(shared[:, 1:])
        return mean, variance

    def _served_block(self, model: int) -> "_ServedBlock":
        served = self._served.get(model)
        if served is None:
            if len(self._served) >= SERVED_BLOCKS:
                self._served.clear()
            served = self._served[model] = self._serve(model)
        return served

    @cached_property
    def _served(self) -> dict[int, "_ServedBlock"]:
        return {}

    def _serve(self, model: int) -> "_ServedBlock":
        block = self.blocks[model]
        tables, hardware = self.kernel.tables_of(block.landmarks.hardware)
        return _ServedBlock(
            landmarks=self.kernel.scaled(block.landmarks.x),
            tables=tables,
            hardware=hardware,
            whiten=block.whiten.astype(float),
            weights=block.weights.astype(float),
            spread=np.hstack((block.root, block.coupling @ self.root)).astype(block.root.dtype),
        )

    @cached_property
    def _shared_columns(self) -> tuple[Floats, Floats, Floats]:
        """Mean, but for what the model type adds, then s S: of each hardware type, by each column, and at its origin.

        (h + 1, 1 + d), (columns, 1 + d) and (1 + d,).
        """
        shared, types = self.shared, len(self.shared.hardware)
        columns = np.column_stack((self.weights, self.root))
        by_column = np.zeros((len(shared.centre), columns.shape[1]))
        np.add.at(by_column, shared.column, shared.weight[:, None] * columns[types:])
        constant = -shared.centre @ by_column
        constant[0] += self.mean
        return shared.hardware @ columns[:types], by_column, constant

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects; matrices of blocks end to end in float32."""
        stored: dict[str, NDArray[Any]] = {}
        for part in ("encoding", "kernel", "shared"):
            value = getattr(self, part)
            stored |= {f"{part}.{one.name}": getattr(value, one.name) for one in fields(value)}
        for name in ("mean", "weights", "root", "noise", "batch_range"):
            stored[name] = np.asarray(getattr(self, name))
        if self.utilisation is not None:
            stored |= {f"utilisation.{name}": array for name, array in self.utilisation.arrays().items()}
            stored |= {"ran": np.asarray(self.ran), "calibration": self.calibration}
        stored["block.size"] = np.array([len(block.weights) for block in self.blocks], dtype=np.int64)
        stored["block.hardware"] = np.concatenate([np.zeros(0, int), *(b.landmarks.hardware for b in self.blocks)])
        columns = np.zeros((0, len(self.kernel.centre)))
        stored["block.x"] = np.vstack([columns, *(block.landmarks.x for block in self.blocks)])
        for name in _MATRICES:
            flat = [np.zeros(0), *(getattr(block, name).ravel() for block in self.blocks)]
            stored[f"block.{name}"] = np.concatenate(flat).astype(np.float32)
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
            kernel=Kernel(**{"mixing": np.eye(len(stored["kernel.tables"])), **part("kernel")}),
            shared=SharedFeatureMap(**part("shared")),
            mean=float(stored["mean"]),
            weights=stored["weights"],
            root=stored["root"],
            noise=float(stored["noise"]),
            batch_range=stored["batch_range"] if "batch_range" in stored else _batch_range_before(stored),
            blocks=tuple(_blocks(stored)),
            utilisation=Utilisation.from_arrays(part("utilisation")) if "ran" in stored else None,
            ran=stored.get("ran"),
            calibration=stored.get("calibration", np.ones(GROUPS)),
        )


def _batch_range_before(stored: Arrays) -> Floats:
    """`Prior.batch_range` of arrays that had the range of every column."""
    low, high = (np.append(stored[f"block.{end}"][:, BATCH], stored[end][BATCH]) for end in ("low", "high"))
    return np.column_stack((low, high))


@dataclass(frozen=True)
class _ServedBlock:
    """A :class:`BlockPosterior` of m landmarks, multiplied with what does not depend on the job.

    Attributes
    ----------
    landmarks
        (factors, m) their scaled columns.
    tables, hardware
        (h + 1, r, t) hardware kernels of every type with the distinct ones of the landmarks, and (m,) each one's place.
    whiten, weights
        As there, in float64.
    spread
        (m, m + d) root, and coupling times the root of the shared covariance.
    """

    landmarks: Floats
    tables: Floats
    hardware: Indices
    whiten: Floats
    weights: Floats
    spread: NDArray[np.floating]


def _squared_norm(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


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
        blocks.append(BlockPosterior(landmarks, **parts))
    return blocks
