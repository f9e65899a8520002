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

    x: NDArray[Any]
    model: NDArray[np.uint64]
    names: NDArray[np.uint64]
    hardware: Indices
    dual: Floats
    noise: Floats


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
        mean = self._trend(work)[configuration] + self.mean[hardware]
        variance = np.where(work.is_stated, 0.0, self.encoding.flops_variance)[configuration] * new
        order = np.argsort(configuration, kind="stable")
        ends = np.searchsorted(configuration, np.arange(len(work) + 1), sorter=order).tolist()
        for part, halves, alikes in self._parts(work):
            for number, half, alike in zip(range(part.start, part.stop), halves, alikes, strict=True):
                of = order[ends[number] : ends[number + 1]]
                decay = self._decay(hardware[of], half)
                mean[of] += decay @ (alike * self.cells.dual)
                if (asked := new[of]).any():
                    variance[of[asked]] += self._variance(half, alike, decay[asked])
        return mean, variance

    def log_throughput_of(self, rows: Rows, hardware: Indices) -> Floats:
        """(n,) mean of rows, many of which differ in nothing but time."""
        key = mix(self.encoding.keys(rows) ^ hashes_of(hardware.astype(float)))
        _, first, of_row = np.unique(key, return_index=True, return_inverse=True)
        work, hardware = self.encoding(take(rows, first)), hardware[first]
        mean = self._trend(work) + self.mean[hardware]
        for part, half, alike in self._parts(work):
            mean[part] += np.einsum("rn,rn->r", self._decay(hardware[part], half), alike * self.cells.dual)
        return np.asarray(mean[of_row])

    def _variance(self, half: Floats, alike: Floats, decay: Floats) -> Floats:
        """(n,) variance of the smooth part on hardware types, of a configuration that is so far from each cell."""
        near = _greatest(alike / half, NEAREST)
        covariance = decay[:, near] * alike[near]
        explained = np.linalg.solve(self._between_cells[np.ix_(near, near)].astype(float), covariance.T)
        return np.asarray(np.maximum(self.variances.sum() - np.einsum("nc,cn->n", covariance, explained), 0.0))

    def akin(self, rows: Rows) -> NDArray[np.bool_]:
        """(c,) whether a model type was measured whose name begins alike."""
        return np.isin(beginnings(rows["model_type"]), self.cells.model[:, 0])

    @cached_property
    def _between_cells(self) -> NDArray[np.float32]:
        """(n, n) covariance of what was measured at the cells, noise included; 6 MB of 1,200."""
        cells, covariance = self._cells, np.empty((len(self.cells.dual),) * 2, dtype=np.float32)
        for part, half, alike in self._parts(cells):
            half += self.hardware[cells.hardware[part]][:, cells.hardware] / 2
            same = cells.model[part, None, -1] == cells.model[:, -1]
            pair = same & (cells.hardware[part, None] == cells.hardware)
            covariance[part] = alike / half + self.level[0] * same + self.level[1] * pair
        covariance.flat[:: len(covariance) + 1] += (cells.noise + LEAST_NOISE).astype(np.float32)
        return covariance

    def _trend(self, work: Work) -> Floats:
        """(c,) part of the mean that has no end, less the work of a sample."""
        return np.asarray(work.x @ self.slope - work.flops)

    def _decay(self, hardware: Indices, half: Floats) -> Floats:
        """(n, cells) the smooth kernel but for its variances."""
        decay = self._hardware_half[hardware]
        decay += half
        return np.reciprocal(decay, out=decay)

    def _parts(self, work: Work | Cells) -> Iterator[tuple[slice, Floats, Floats]]:
        """Some configurations at a time, and what they share with the cells (`_shared`)."""
        count = len(work.model)
        step = max(1, AT_ONCE // max(1, len(self.cells.dual)))
        x = work.x if isinstance(work, Cells) else work.x.take(self._counting, axis=1) * self._inverse
        for start in range(0, count, step):
            part = slice(start, min(count, start + step))
            yield part, *self._shared(x[part], work.model[part], work.names[part])

    def _shared(self, x: Floats, model: Hashes, names: Hashes) -> tuple[Floats, Floats]:
        """(c, n) 1 + half the squared distances but for the hardware, and variances of the smooth kernel."""
        cells = self._cells
        half = self._squares - 2 * (x @ cells.x.T)
        half += np.einsum("ij,ij->i", x, x)[:, None]
        np.maximum(half, 0.0, out=half)
        for column, apart in enumerate(self.apart.tolist()):
            half += apart * (names[:, column, None] != cells.names[:, column])
        half /= 2
        half += 1
        first, *more = self.variances.tolist()
        alike = np.full(half.shape, first)
        for column, variance in enumerate(more):
            alike += variance * (model[:, column, None] == cells.model[:, column])
        return half, alike

    @cached_property
    def _counting(self) -> Indices:
        """Columns that differ among the cells; the others are as far from each."""
        return np.flatnonzero(self.encoding.scale * self.inverse)

    @cached_property
    def _inverse(self) -> Floats:
        return self.inverse[self._counting]

    @cached_property
    def _cells(self) -> Cells:
        """The cells with the columns that count, names by column."""
        return replace(
            self.cells,
            x=np.ascontiguousarray(self.cells.x[:, self._counting], dtype=float),
            model=np.asfortranarray(self.cells.model),
            names=np.asfortranarray(self.cells.names),
        )

    @cached_property
    def _squares(self) -> Floats:
        return np.asarray(np.einsum("ij,ij->i", self._cells.x, self._cells.x))

    @cached_property
    def _hardware_half(self) -> Floats:
        """(h + 1, n) half the squared distance of each hardware type from that of each cell."""
        return np.ascontiguousarray(self.hardware[:, self.cells.hardware] / 2)

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


def _greatest(values: Floats, count: int) -> Indices:
    """Positions of the `count` greatest, the first ones of equals."""
    if len(values) <= count:
        return np.arange(len(values))
    least = np.partition(values, -count)[-count]
    above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
    return np.concatenate((above, equal[: count - len(above)]))
