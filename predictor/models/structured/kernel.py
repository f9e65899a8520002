"""Covariance of ln throughput between configurations, as a sum of products that plain numpy evaluates.

With the hardware kernels T_r, each group of terms g is a mixture of them times decays along columns of the
configuration: k(a, b) = sum over g, r of mixing[g, r] T_r[hardware of a, hardware of b] p_g(a, b), where p_g is the
product of (1 + d) exp(-d), d = sqrt(3) |x_a - x_b| / length: Matérn's kernel of 3/2 (Rasmussen and Williams, "Gaussian
Processes for Machine Learning", 2006, 4.17), which continues the trend where an exponential one falls back at once. A
length of zero stands for the linear kernel (x_a - centre)(x_b - centre).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.structured.inputs import Inputs, Queries

#: Rows of a covariance that are computed together, so that what they need stays in the processor's cache.
AT_ONCE = 256


@dataclass(frozen=True)
class Kernel:
    """Covariance within one model type; see the module.

    Attributes
    ----------
    tables
        (r, h + 1, h + 1) hardware kernels.
    mixing
        (groups, r) variance of each hardware kernel in each group.
    column, length
        (factors,) column of each factor, and its length; zero is linear.
    member
        (groups, factors) bool: which factors multiply which group.
    centre
        (columns,) where linear factors are zero.
    """

    tables: Floats
    mixing: Floats
    column: Indices
    length: Floats
    member: NDArray[np.bool_]
    centre: Floats

    def __call__(self, a: Inputs, b: Inputs) -> Floats:
        """(len(a), len(b)) covariance, all points being of one model type."""
        covariance, b_scaled = np.empty((len(a), len(b))), self.scaled(b.x)
        for start in range(0, len(a), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            decays = self._mixed_decays(self.scaled(a.x[part]), b_scaled)
            pair = a.hardware[part, None] * self.tables.shape[1] + b.hardware[None, :]
            covariance[part] = sum(table.take(pair) * decay for table, decay in zip(self.tables, decays, strict=True))
        return covariance

    def of_configurations(self, x: Floats, configuration: Indices, tables: Floats, scaled: Floats) -> Floats:
        """(n, m) covariance of rows with one of (c,) configurations each; decays are computed once a configuration.

        Parameters
        ----------
        x
            (c, columns), of which each row has the one at its (n,) `configuration`.
        tables
            (n, r, m) hardware kernels of each row's type with those of the others.
        scaled
            (factors, m) what `scaled` gives of the others.
        """
        decays = self._mixed_decays(self.scaled(x), scaled)
        if len(x) > 1:
            decays = decays.take(configuration, axis=1)
        return np.asarray(np.einsum("nrm,rnm->nm", tables, decays))

    def tables_of(self, hardware: Indices) -> tuple[Floats, Indices]:
        """(h + 1, r, t) kernels of every hardware type with the distinct ones of (m,), and each one's place there."""
        distinct, place = np.unique(hardware, return_inverse=True)
        return np.ascontiguousarray(self.tables[:, :, distinct].transpose(1, 0, 2)), place

    def diagonal(self, a: Inputs) -> Floats:
        """(len(a),) variance."""
        return self.variance(Queries.of(a))

    def variance(self, queries: Queries) -> Floats:
        """(n,) variance."""
        by_hardware, columns = self._variance_by_hardware
        offsets = np.square(queries.x - self.centre)
        square = np.ones((len(offsets), len(columns) + 1))
        for group, linear in enumerate(columns):
            for column in linear:
                square[:, group] *= offsets[:, column]
        rows = square.take(queries.configuration, axis=0)
        return np.asarray(np.einsum("ng,ng->n", by_hardware.take(queries.hardware, axis=0), rows))

    @cached_property
    def _variance_by_hardware(self) -> tuple[Floats, list[list[int]]]:
        """(h + 1, groups + 1) variance of each group that grows with x, then of the others; with which columns."""
        by_group = self.mixing @ self.tables.diagonal(axis1=1, axis2=2)
        linear = self.member & (self.length == 0)
        grows = linear.any(axis=1)
        by_hardware = np.vstack((by_group[grows], by_group[~grows].sum(axis=0))).T.copy()
        return by_hardware, [self.column[factors].tolist() for factors in linear[grows]]

    def scaled(self, x: Floats) -> Floats:
        """(factors, n) the column of each factor in its lengths, from the centre."""
        return np.asarray((x - self.centre).T.take(self.column, axis=0) * self._scale)

    @cached_property
    def _scale(self) -> Floats:
        scale: Floats = np.sqrt(3) / np.where(self.length == 0, np.sqrt(3), self.length)
        return scale[:, None]

    def _mixed_decays(self, a: Floats, b: Floats) -> Floats:
        """(r, n, m): what each hardware kernel is multiplied with, of (factors, n) and (factors, m) scaled columns."""
        a, b = a[:, :, None], b[:, None, :]
        mixing, products, linear = self._plan
        factors = np.empty((len(mixing), a.shape[1], b.shape[2]))
        decays = np.subtract(a, b, out=factors[: len(a)])
        np.abs(decays, out=decays)
        falling = np.exp(-decays)
        decays += 1.0
        decays *= falling
        for factor in linear:
            np.multiply(a[factor], b[factor], out=factors[factor])
        factors[len(a)] = 1.0
        for place, members in enumerate(products, start=len(a) + 1):
            np.multiply.reduce([factors[member] for member in members], out=factors[place])
        mixed: Floats = mixing.T @ factors.reshape(len(factors), -1)
        return mixed.reshape(len(self.tables), a.shape[1], b.shape[2])

    @cached_property
    def _plan(self) -> tuple[Floats, list[list[int]], list[int]]:
        """Mixing of each factor, of one, and of each product of several factors; those products; the linear factors."""
        members = [np.flatnonzero(row).tolist() for row in self.member]
        products = [factors for factors in members if len(factors) > 1]
        count = len(self.length)
        mixing = np.zeros((count + 1 + len(products), len(self.tables)))
        for row, factors in zip(self.mixing, members, strict=True):
            place = count + 1 + products.index(factors) if len(factors) > 1 else (*factors, count)[0]
            mixing[place] += row
        return mixing, products, np.flatnonzero(self.length == 0).tolist()


@dataclass(frozen=True)
class SharedFeatureMap:
    """Finite features of the part that all model types share.

    Attributes
    ----------
    hardware
        (h + 1, h + 1) root of the shared covariance of hardware types.
    column, weight
        (linear,) columns that count linearly, and the prior deviation of their slopes.
    centre
        (columns,) where linear features are zero.
    """

    hardware: Floats
    column: Indices
    weight: Floats
    centre: Floats

    def __call__(self, a: Inputs) -> Floats:
        """(len(a), features) values whose inner products are the shared covariance."""
        return np.hstack((self.hardware[a.hardware], self.linear(a.x)))

    def linear(self, x: Floats) -> Floats:
        """(n, linear) values of the columns that count linearly, after those of the hardware type."""
        return (x[:, self.column] - self.centre[self.column]) * self.weight
