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
        covariance = np.empty((len(a), len(b)))
        for start in range(0, len(a), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            decays = self._mixed_decays(a.x[part], b.x)
            pair = a.hardware[part, None] * self.tables.shape[1] + b.hardware[None, :]
            covariance[part] = sum(table.take(pair) * decays[:, :, kernel] for kernel, table in enumerate(self.tables))
        return covariance

    def of_configuration(self, x: Floats, hardware: Indices, b: Inputs) -> Floats:
        """(n, len(b)) covariance of one configuration (columns,) on (n,) hardware types: decays are computed once.

        A product with one small matrix, which has rows for every pair of a hardware type of `b` and a kernel.
        """
        decays = self._mixed_decays(x[None], b.x)[0]
        distinct, code = b.hardware_codes
        rows = len(distinct) * len(self.tables)
        # k(n, b) = sum over types t and kernels r of T_r[hardware n, t] spread[(t, r), b]: zero where b is not of t
        spread = np.zeros((len(distinct), len(self.tables), len(b)))
        spread[code, :, np.arange(len(b))] = decays
        tables = self._by_pair[hardware[:, None], distinct]
        covariance: Floats = tables.reshape(len(hardware), rows) @ spread.reshape(rows, len(b))
        return covariance

    def diagonal(self, a: Inputs) -> Floats:
        """(len(a),) variance."""
        return self.variance(Queries.of(a))

    def variance(self, queries: Queries) -> Floats:
        """(n,) variance."""
        constant, linear, groups = self._variance_by_hardware
        variance = constant[queries.hardware]
        offsets = queries.x - self.centre
        square = np.array([np.square(offsets[:, columns]).prod(axis=1) for columns in groups])
        if len(groups):
            variance += np.einsum("ng,gn->n", linear[queries.hardware], square[:, queries.configuration])
        return variance

    @cached_property
    def _variance_by_hardware(self) -> tuple[Floats, Floats, list[Indices]]:
        """(h + 1,) variance of the groups that only decay, (h + 1, l) of each other group, and its linear columns."""
        by_group = self.mixing @ self.tables.diagonal(axis1=1, axis2=2)
        linear = self.member & (self.length == 0)
        grows = linear.any(axis=1)
        constant = by_group[~grows].sum(axis=0)
        return constant, by_group[grows].T.copy(), [self.column[factors] for factors in linear[grows]]

    @cached_property
    def _by_pair(self) -> Floats:
        """(h + 1, h + 1, r) the hardware kernels of each pair side by side."""
        return np.ascontiguousarray(self.tables.transpose(1, 2, 0))

    @cached_property
    def _chains(self) -> list[Indices]:
        """(groups,) each group's first factor, its second, and so on; one past the last factor stands for none."""
        members = [np.flatnonzero(row) for row in self.member]
        longest = max(map(len, members), default=1) or 1
        padded = [np.append(row, np.full(longest - len(row), len(self.length))) for row in members]
        return list(np.array(padded, dtype=np.intp).reshape(len(members), longest).T)

    def _mixed_decays(self, a: Floats, b: Floats) -> Floats:
        """(len(a), len(b), r): what each hardware kernel is multiplied with between configurations."""
        factors = self._factors(a, b)
        first, *others = self._chains
        product = factors[first]
        for factor in others:
            product *= factors[factor]
        mixed: Floats = product.reshape(len(product), len(a) * len(b)).T @ self.mixing
        return mixed.reshape(len(a), len(b), len(self.tables))

    def _factors(self, a: Floats, b: Floats) -> Floats:
        """(factors + 1, len(a), len(b)) decays, or products where they are linear; the last is one."""
        a, b = (a - self.centre).T[:, :, None], (b - self.centre).T[:, None, :]
        factors = np.empty((len(self.column) + 1, a.shape[1], b.shape[2]))
        factors[-1] = 1.0
        scaled = np.multiply(np.abs(a - b)[self.column], self._scale, out=factors[:-1])
        decayed = np.exp(-scaled)
        scaled += 1.0
        scaled *= decayed
        linear, columns = self._linear_factors
        factors[linear] = a[columns] * b[columns]
        return factors

    @cached_property
    def _scale(self) -> Floats:
        scale: Floats = np.sqrt(3) / np.where(self.length == 0, 1.0, self.length)
        return scale[:, None, None]

    @cached_property
    def _linear_factors(self) -> tuple[Indices, Indices]:
        """Positions and columns of the linear factors."""
        linear = np.flatnonzero(self.length == 0)
        columns: Indices = self.column[linear]
        return linear, columns


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
