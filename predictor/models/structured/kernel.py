"""Covariance of ln throughput between configurations, as a sum of products that plain numpy evaluates.

Each group of terms is a table over pairs of hardware types times decays along columns of the configuration:
k(a, b) = table[hardware of a, hardware of b] x product of (1 + d) exp(-d), d = sqrt(3) |x_a - x_b| / length: Matérn's
kernel of 3/2 (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, 4.17), which goes on as it went
where an exponential one falls back at once. A length of zero stands for the linear kernel (x_a - centre)(x_b - centre).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices, Rows

Arrays = Mapping[str, NDArray[Any]]

#: Columns of a configuration that every row has; further numbers follow them.
COLUMNS: tuple[str, ...] = ("accelerators", "batch_per_accelerator", "trainers", "accelerators_per_trainer", "years")
BATCH, YEARS = COLUMNS.index("batch_per_accelerator"), COLUMNS.index("years")
DAYS_PER_YEAR = 365.25
UNSEEN = -1
#: Rows of a covariance that are worked out together, so that what they need stays in the processor's cache.
AT_ONCE = 256


@dataclass(frozen=True)
class Inputs:
    """Configurations as numbers.

    Attributes
    ----------
    model
        (n,) position of the model type; `UNSEEN` for one that was not trained on.
    hardware
        (n,) position of the hardware type; the last one stands for every type that is not known.
    x
        (n, columns): natural logarithms, the day in years, further numbers as sign(x) ln(1 + |x|).
    """

    model: Indices
    hardware: Indices
    x: Floats

    def __len__(self) -> int:
        return len(self.model)

    def take(self, rows: Indices | slice) -> "Inputs":
        return Inputs(self.model[rows], self.hardware[rows], self.x[rows])


@dataclass(frozen=True)
class InputEncoder:
    """Names and numbers of rows as `Inputs`.

    Attributes
    ----------
    models
        (m,) names, sorted.
    hardware
        (h,) names, sorted.
    extras
        (e,) names of further numeric columns.
    fill
        (e,) value that stands for a missing number.
    batch
        (m + 1,) ln batch per accelerator that stands for a missing batch, of each model type and of any other; NaN
        for a batch of 1, as artifacts without this array were trained.
    """

    models: NDArray[np.str_]
    hardware: NDArray[np.str_]
    extras: NDArray[np.str_]
    fill: Floats
    batch: Floats

    def points(self, rows: Rows) -> Inputs:
        """Encode rows; accelerators and trainers that are missing or not positive are taken as 1."""
        accelerators, trainers = (_positive(rows[name], 1.0) for name in ("accelerators", "trainers"))
        model, hardware = lookup(self.models, rows["model_type"]), lookup(self.hardware, rows["hardware_type"])
        usual = np.exp(self.batch[model]) * accelerators  # `UNSEEN` is the last of them
        batch = _positive(rows["batch_size"], np.where(np.isnan(usual), 1.0, usual))
        known = (np.log(accelerators), np.log(batch / accelerators), np.log(trainers), np.log(accelerators / trainers))
        x = np.full((len(batch), len(COLUMNS) + len(self.extras)), np.nan)
        x[:, :YEARS] = np.array(known).T
        x[:, YEARS] = np.asarray(rows["day"], dtype=float) / DAYS_PER_YEAR
        for column, name in enumerate(self.extras.tolist(), start=len(COLUMNS)):
            if name in rows:
                x[:, column] = rows[name]
        x[:, len(COLUMNS) :] = compress(x[:, len(COLUMNS) :], self.fill)
        return Inputs(model, np.where(hardware == UNSEEN, len(self.hardware), hardware), x)


def compress(values: NDArray[Any], fill: Floats | float) -> Floats:
    """sign(x) ln(1 + |x|), `fill` where x is not finite."""
    numbers = np.asarray(values, dtype=float)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(numbers), np.sign(numbers) * np.log1p(np.abs(numbers)), fill)


def lookup(names: NDArray[np.str_], wanted: NDArray[Any]) -> Indices:
    """(n,) position of each name among sorted names, `UNSEEN` where it is not one of them."""
    wanted = np.asarray(wanted, dtype=str)
    if not len(names):
        return np.full(len(wanted), UNSEEN, dtype=np.intp)
    position = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[position] == wanted, position, UNSEEN)


def stated(values: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) whether a number that must be positive is."""
    numbers = np.asarray(values, dtype=float)
    return np.asarray(np.isfinite(numbers) & (numbers > 0))


def _positive(values: NDArray[Any], otherwise: Floats | float) -> Floats:
    return np.where(stated(values), np.asarray(values, dtype=float), otherwise)


@dataclass(frozen=True)
class Kernel:
    """Covariance within one model type.

    Attributes
    ----------
    tables
        (groups, h + 1, h + 1) covariance of hardware types.
    column, length
        (factors,) column of each factor, and its length; zero is linear.
    member
        (groups, factors) bool: which factors multiply which table.
    centre
        (columns,) where linear factors are zero.
    """

    tables: Floats
    column: Indices
    length: Floats
    member: NDArray[np.bool_]
    centre: Floats

    def __call__(self, a: Inputs, b: Inputs) -> Floats:
        """(len(a), len(b)) covariance, all points being of one model type."""
        if len(a) > AT_ONCE:
            starts = range(0, len(a), AT_ONCE)
            return np.vstack([self(a.take(slice(start, start + AT_ONCE)), b) for start in starts])
        alike = len(a) > 1 and bool((a.x == a.x[0]).all())  # as one job's candidates, which differ in hardware alone
        factors = self._factors(a.x[:1] if alike else a.x, b.x)
        pair = a.hardware[:, None] * self.tables.shape[1] + b.hardware[None, :]
        total = np.zeros(pair.shape)
        for table, members in self._groups:
            product = table.take(pair)
            for factor in members:
                product *= factors[factor]
            total += product
        return total

    def diagonal(self, a: Inputs) -> Floats:
        """(len(a),) variance."""
        found = self._of_hardware[:, a.hardware]
        for group, factor in self._linear:
            column = self.column[factor]
            found[group] *= np.square(a.x[:, column] - self.centre[column])
        return np.asarray(found.sum(axis=0))

    @cached_property
    def _of_hardware(self) -> Floats:
        """(groups, h + 1) variance by hardware type alone."""
        return self.tables.diagonal(axis1=1, axis2=2).copy()

    @cached_property
    def _linear(self) -> list[tuple[int, int]]:
        """Each group and factor of it that is linear."""
        return [(group, factor) for group, factor in np.argwhere(self.member).tolist() if self.length[factor] == 0]

    @cached_property
    def _groups(self) -> list[tuple[Floats, list[int]]]:
        """Each table with the factors that multiply it."""
        members = [np.flatnonzero(row).tolist() for row in self.member]
        return list(zip(self.tables, members, strict=True))

    def _factors(self, a: Floats, b: Floats) -> Floats:
        """(factors, len(a), len(b)) decays, or products where they are linear."""
        centre = self.centre[self.column]
        a, b = (np.ascontiguousarray((x[:, self.column] - centre).T) for x in (a, b))
        linear = self.length == 0
        found = a[:, :, None] - b[:, None, :]
        np.abs(found, out=found)
        found *= (np.sqrt(3) / np.where(linear, 1.0, self.length))[:, None, None]
        decayed = np.exp(-found)
        found += 1.0
        found *= decayed
        for factor in np.flatnonzero(linear):
            np.multiply.outer(a[factor], b[factor], out=found[factor])
        return found


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
        linear = (a.x[:, self.column] - self.centre[self.column]) * self.weight
        return np.hstack((self.hardware[a.hardware], linear))
