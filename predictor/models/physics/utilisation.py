"""What a configuration reaches of its hardware, as learned from what is like it: the shared part of the prior's mean.

ln(FLOP/s per accelerator) is a Gaussian process over what the work is (the values of the model's definition, leading
parts of its name), how it is run (numbers and names of the configuration) and what it runs on. With the squared
distance d(a, b), a sum over numbers, names and hardware types in lengths of their own,

    k(a, b) = (v_0 + sum over p of v_p [leading p parts of the names are equal]) / (1 + d(a, b) / 2) + v_linear x_a x_b,

the rational quadratic kernel (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, 4.19), which
mixes lengths, and a trend. What is a model type's alone is not in it: that is left to the process of the model type.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices, Rows, take
from leap.predictor.history.hash_index import hashes_of, mix
from leap.predictor.history.sorted_hashes import Hashes
from leap.predictor.models.arrays import Arrays
from leap.predictor.models.physics.encoding import Work, WorkEncoder, beginnings

#: Cells that the deviation of a row is worked out from: those that say most of it.
NEAREST = 48
#: Added to the noise of each, so that what is alike does not leave a covariance without an inverse.
LEAST_NOISE = 1e-6
#: Elements of a covariance that are computed together, so that they stay in the processor's cache.
AT_ONCE = 1 << 16


_Shared = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class Cells:
    """(n,) configurations that were measured, each on one hardware type.

    Attributes
    ----------
    x
        (n, columns) numbers in units of their lengths.
    model, names
        As in `Work`.
    hardware
        (n,) position of the hardware type.
    dual
        (n,) alpha = (K + noise)^-1 y.
    noise
        (n,) variance of what was measured, given the process of all.
    """

    x: NDArray[np.float32]
    model: NDArray[np.uint64]
    names: NDArray[np.uint64]
    hardware: Indices
    dual: Floats
    noise: Floats

    def take(self, rows: Indices | slice) -> "Cells":
        return Cells(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Utilisation:
    """See the module.

    Attributes
    ----------
    encoding
        Of rows.
    inverse
        (columns,) inverse lengths of the numbers.
    apart
        (names,) squared distance of two names that differ.
    hardware
        (h + 1, h + 1) squared distances of hardware types, the last one being any that is not known.
    variances
        (PARTS + 1,) of the smooth kernel: for all, and more for each leading part that is the same.
    slope
        (columns,) of the trend.
    mean
        (h + 1,) ln FLOP/s of each hardware type where all numbers are at their centre.
    level
        Variances of a model type's own level, and of its level on one hardware type.
    cells
        What was measured.
    """

    encoding: WorkEncoder
    inverse: Floats
    apart: Floats
    hardware: Floats
    variances: Floats
    slope: Floats
    mean: Floats
    level: Floats
    cells: Cells

    def estimate(
        self, rows: Rows, configuration: Indices, hardware: Indices, new: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """(n,) mean and variance of ln throughput per accelerator, of (c,) configurations on hardware types.

        The variance is that of the smooth part, given the cells that say most of it, and of what the work of a sample
        may be where nothing states it; 0 for rows that are not of the (n,) `new`.
        """
        work = self.encoding(rows)
        mean = self.mean[hardware] + (work.x @ self.slope - work.flops)[configuration]
        variance = np.where(work.is_stated, 0.0, self.encoding.flops_variance)[configuration] * new
        for part, place, (own, alike) in self._parts(work, configuration):
            weight = alike * self._dual
            mean[part] += self._smooth(own[place], hardware[part], weight[place]).sum(axis=1)
            for one in np.unique(place[new[part]]):
                of_one = part[(place == one) & new[part]]
                variance[of_one] += self._variance(own[one], alike[one], hardware[of_one])
        return mean, variance

    def _variance(self, own: NDArray[np.float32], alike: NDArray[np.float32], hardware: Indices) -> Floats:
        """(n,) variance of the smooth part on hardware types, of a configuration that is so far from each cell."""
        near = np.argsort(-alike / (2 + own), kind="stable")[:NEAREST]
        covariance = self._smooth(own, hardware, alike)[:, near].astype(float)
        explained = np.linalg.solve(self._between(self._cells.take(near)), covariance.T)
        return np.asarray(np.maximum(self.variances.sum() - np.einsum("nc,cn->n", covariance, explained), 0.0))

    def log_throughput_of(self, rows: Rows, hardware: Indices) -> Floats:
        """(n,) mean of rows, many of which differ in nothing but time."""
        key = mix(self.encoding.keys(rows) ^ hashes_of(hardware.astype(float)))
        _, first, of_row = np.unique(key, return_index=True, return_inverse=True)
        none = np.zeros(len(first), dtype=bool)
        return self.estimate(take(rows, first), np.arange(len(first)), hardware[first], none)[0][of_row]

    def akin(self, rows: Rows) -> NDArray[np.bool_]:
        """(c,) whether a model type was measured whose name begins alike."""
        return np.isin(beginnings(rows["model_type"]), self.cells.model[:, 0])

    def _between(self, cells: Cells) -> Floats:
        """(n, n) covariance of cells, noise included."""
        own, alike = self._distances(cells.x, cells.model, cells.names, cells)
        own += self.hardware[cells.hardware][:, cells.hardware]
        same = cells.model[:, None, -1] == cells.model[None, :, -1]
        pair = same & (cells.hardware[:, None] == cells.hardware)
        levels = self.level[0] * same + self.level[1] * pair
        return np.asarray(alike / (1 + own / 2) + levels + np.diag(cells.noise + LEAST_NOISE))

    def _parts(self, work: Work, configuration: Indices) -> Iterator[tuple[Indices, Indices, _Shared]]:
        """Rows, which configuration of the part each has, and what the part shares with the cells: (c, n) squared
        distances but for the hardware type, and variances of the smooth kernel.
        """
        step = max(1, AT_ONCE // max(1, len(self.cells.dual)))
        x = (work.x[:, self._counting] * self.inverse[self._counting]).astype(np.float32)
        for start in range(0, len(work), step):
            part = slice(start, start + step)
            rows = np.flatnonzero((configuration >= start) & (configuration < start + step))
            shared = self._distances(x[part], work.model[part], work.names[part], self._cells)
            yield rows, configuration[rows] - start, shared

    def _distances(self, x: NDArray[np.float32], model: Hashes, names: Hashes, cells: Cells) -> _Shared:
        own = np.einsum("ij,ij->i", cells.x, cells.x) - 2 * (x @ cells.x.T)
        own += np.einsum("ij,ij->i", x, x)[:, None]
        np.maximum(own, 0.0, out=own)
        for column, apart in enumerate(self.apart.astype(np.float32)):
            own += apart * (names[:, column, None] != cells.names[:, column])
        variances = self.variances.astype(np.float32)
        alike = np.full(own.shape, variances[0])
        for column, variance in enumerate(variances[1:]):
            alike += variance * (model[:, column, None] == cells.model[:, column])
        return own, alike

    def _smooth(self, own: NDArray[np.float32], hardware: Indices, weight: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, cells) weights over 1 + half the squared distance."""
        decay = self._hardware_apart[hardware] + own
        decay *= np.float32(0.5)
        decay += np.float32(1.0)
        np.divide(weight, decay, out=decay)
        return decay

    @cached_property
    def _counting(self) -> Indices:
        """Columns that differ among the cells; the others are as far from each."""
        return np.flatnonzero(self.encoding.scale * self.inverse)

    @cached_property
    def _cells(self) -> Cells:
        return replace(self.cells, x=np.ascontiguousarray(self.cells.x[:, self._counting]))

    @cached_property
    def _dual(self) -> NDArray[np.float32]:
        return self.cells.dual.astype(np.float32)

    @cached_property
    def _hardware_apart(self) -> NDArray[np.float32]:
        """(h + 1, n) squared distance of each hardware type from that of each cell."""
        return np.ascontiguousarray(self.hardware[:, self.cells.hardware], dtype=np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects."""
        own = ("inverse", "apart", "hardware", "variances", "slope", "mean", "level")
        stored = {f"encoding.{one.name}": getattr(self.encoding, one.name) for one in fields(self.encoding)}
        stored |= {f"cells.{one.name}": getattr(self.cells, one.name) for one in fields(self.cells)}
        return stored | {name: getattr(self, name) for name in own}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Utilisation":
        """The process that `arrays` describes."""

        def part(name: str) -> dict[str, NDArray[Any]]:
            return {key.split(".", 1)[1]: array for key, array in stored.items() if key.startswith(f"{name}.")}

        own = {name: array for name, array in stored.items() if "." not in name}
        return cls(encoding=WorkEncoder(**part("encoding")), cells=Cells(**part("cells")), **own)
