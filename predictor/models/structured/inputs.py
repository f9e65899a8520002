"""Rows of attempts as the numbers that the structured prior's kernel reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Indices, Names, Rows

#: Columns of a configuration that every row has; further numbers follow them.
COLUMNS: tuple[str, ...] = ("accelerators", "batch_per_accelerator", "trainers", "accelerators_per_trainer", "years")
BATCH, YEARS = COLUMNS.index("batch_per_accelerator"), COLUMNS.index("years")
DAYS_PER_YEAR = 365.25
UNSEEN = -1


@dataclass(frozen=True)
class Inputs:
    """Configurations as numbers, each on one hardware type.

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
class Queries:
    """(n,) rows to estimate, of (c,) configurations that several of them share, as the candidates of one job do.

    Attributes
    ----------
    model, x
        (c,) and (c, columns), as in `Inputs`.
    has_batch
        (c,) whether the batch was stated; where it was not, `x` has the usual one.
    configuration, hardware
        (n,) position of each row's configuration, the same ones side by side, and of its hardware type.
    """

    model: Indices
    x: Floats
    has_batch: NDArray[np.bool_]
    configuration: Indices
    hardware: Indices

    def __len__(self) -> int:
        return len(self.configuration)

    def of_configurations(self, mask: NDArray[np.bool_]) -> "Queries":
        """The rows of the configurations of a mask."""
        rows, position = mask[self.configuration], np.cumsum(mask) - 1
        return Queries(
            self.model[mask],
            self.x[mask],
            self.has_batch[mask],
            position[self.configuration[rows]],
            self.hardware[rows],
        )

    def by_model(self, most: int) -> Iterator[tuple[int, Indices | slice]]:
        """Rows of each model type, up to `most` at a time."""
        if len(self.model) == 1:
            models, starts, order = self.model, [0], None
        else:
            model = self.model[self.configuration]
            order = np.argsort(model, kind="stable")
            models, first = np.unique(model[order], return_index=True)
            starts = first.tolist()
        ends = [*starts, len(self)][1:]
        for one, start, end in zip(models.tolist(), starts, ends, strict=True):
            for at in range(start, end, most):
                part = slice(at, min(at + most, end))
                yield one, part if order is None else order[part]

    @classmethod
    def of(cls, inputs: Inputs) -> "Queries":
        """Every row with a configuration of its own, batches stated."""
        count = len(inputs)
        return cls(inputs.model, inputs.x, np.ones(count, dtype=bool), np.arange(count), inputs.hardware)


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
        model, x, _ = self._configurations(rows)
        return Inputs(model, self._hardware(rows["hardware_type"]), x)

    def queries(self, configurations: Rows, configuration: Indices, hardware_type: Names) -> Queries:
        """As `points`, of (c,) configurations and (n,) rows with one of them each."""
        model, x, has_batch = self._configurations(configurations)
        return Queries(model, x, has_batch, configuration, self._hardware(hardware_type))

    def _configurations(self, rows: Rows) -> tuple[Indices, Floats, NDArray[np.bool_]]:
        names = rows["model_type"].tolist()
        model = np.array([self._model_position.get(name, UNSEEN) for name in names], dtype=np.intp)
        totals = np.array([rows[name] for name in ("accelerators", "batch_size", "trainers")], dtype=float)
        given = stated(totals)
        has_batch = given[1]
        totals[::2] = np.where(given[::2], totals[::2], 1.0)
        accelerators, batch, trainers = totals
        if not has_batch.all():
            usual = np.exp(self.batch[model]) * accelerators  # `UNSEEN` is the last of them
            batch = np.where(has_batch, batch, np.where(np.isnan(usual), 1.0, usual))
        x = np.full((len(COLUMNS) + len(self.extras), len(names)), np.nan)
        np.log((accelerators, batch / accelerators, trainers, accelerators / trainers), out=x[:YEARS])
        np.divide(rows["day"], DAYS_PER_YEAR, out=x[YEARS])
        for column, name in enumerate(self._extra_names, start=len(COLUMNS)):
            if name in rows:
                x[column] = rows[name]
        x[len(COLUMNS) :] = compress(x[len(COLUMNS) :], self.fill[:, None])
        return model, x.T, has_batch

    def _hardware(self, names: Names) -> Indices:
        unknown = len(self.hardware)
        return np.array([self._hardware_position.get(name, unknown) for name in names.tolist()], dtype=np.intp)

    @cached_property
    def _model_position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.models.tolist())}

    @cached_property
    def _hardware_position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.hardware.tolist())}

    @cached_property
    def _extra_names(self) -> list[str]:
        names: list[str] = self.extras.tolist()
        return names


def side_by_side(x: Floats, configuration: Indices) -> tuple[Floats, Indices]:
    """Configurations of rows, each once where they are side by side, and the (n,) place of each row's among them."""
    if len(x) == 1:
        return x, configuration
    moved = configuration[1:] != configuration[:-1]
    position = np.zeros(len(configuration), dtype=np.intp)
    np.cumsum(moved, out=position[1:])
    return x[configuration[np.append(True, moved)]], position


def with_batch(rows: Rows, x: Floats) -> Rows:
    """Rows with the batch that their (n, columns) numbers have: where it was not stated the usual one."""
    return {**rows, "batch_size": np.exp(x[:, 0] + x[:, BATCH])}


def compress(values: NDArray[Any], fill: Floats | float) -> Floats:
    """sign(x) ln(1 + |x|), `fill` where x is not finite."""
    numbers = np.asarray(values, dtype=float)
    return np.where(np.isfinite(numbers), np.copysign(np.log1p(np.abs(numbers)), numbers), fill)


def stated(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether numbers that must be positive are."""
    numbers = np.asarray(values, dtype=float)
    return np.asarray((numbers > 0) & (numbers < np.inf))
