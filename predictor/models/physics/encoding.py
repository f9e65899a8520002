"""What a configuration is, whatever it runs on: its work and shape as numbers, its names as hashes."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import architecture
from leap.predictor.features.batch import NAMES, NUMBERS, Floats, Indices, Rows
from leap.predictor.history.hash_index import hashes_of, mix
from leap.predictor.history.sorted_hashes import Hashes
from leap.predictor.models.structured.inputs import compress

#: Leading parts of a model type's name that make it akin to others, and the whole name.
PARTS = 3
FLOPS, PARAMETERS = architecture.NAMES.index("flops"), architecture.NAMES.index("parameters")
#: Amounts that are counted for each FLOP, so that what is left says what kind of work it is.
PER_FLOP = [architecture.NAMES.index(name) for name in ("parameters", "bytes", "activations", "largest_activation")]
#: Columns of rows, beside accelerators and batch, that are numbers of the configuration.
NUMBER_COLUMNS = ("trainers", *(name for name in NUMBERS[3:]), "precision_bits")
_SHARES = np.array([name.endswith("_share") for name in architecture.NAMES])


@dataclass(frozen=True)
class Work:
    """(c,) configurations.

    Attributes
    ----------
    flops
        (c,) ln FLOP of a sample; where it is not known what is usual of all.
    is_stated
        (c,) whether it is known.
    x
        (c, columns) standardised numbers: of the definition, whether there is any, and of the configuration.
    model
        (c, PARTS + 1) hashes of the leading parts of the model type's name, then of all of it.
    names
        (c, names) hashes of further names.
    """

    flops: Floats
    is_stated: NDArray[np.bool_]
    x: Floats
    model: Hashes
    names: Hashes

    def __len__(self) -> int:
        return len(self.flops)

    def take(self, rows: Indices) -> "Work":
        return Work(self.flops[rows], self.is_stated[rows], self.x[rows], self.model[rows], self.names[rows])


@dataclass(frozen=True)
class WorkEncoder:
    """Rows as `Work`.

    Attributes
    ----------
    models
        (m,) model types with a definition, sorted.
    of_model
        (m + 1, values) the usual definition of each and of all, as `definition_values`; NaN where nothing is known.
    numbers
        (k,) names of numeric columns, accelerators and batch per accelerator before them.
    names
        (s,) names of columns of strings: of the configuration, or of the launcher's free values.
    centre, scale
        (columns,) of `Work.x`; a scale of 0 for a column that never differs.
    """

    models: NDArray[np.str_]
    of_model: Floats
    numbers: NDArray[np.str_]
    names: NDArray[np.str_]
    centre: Floats
    scale: Floats

    def __call__(self, rows: Rows) -> Work:
        """Encode (c,) rows: `model_type`, and of what else `leap.predictor.models.structured.model.configuration_rows`
        gives what there is.
        """
        flops, raw = self.raw(rows)
        is_stated = ~np.isnan(flops)
        x = (raw - self.centre) * self.scale
        x[~np.isfinite(x)] = 0.0
        return Work(
            np.where(is_stated, flops, self._usual_flops),
            is_stated,
            x,
            hashes_of(_parts_of(rows["model_type"])),
            self._names(rows),
        )

    def keys(self, rows: Rows) -> Hashes:
        """(c,) hashes: equal for rows that are encoded alike."""
        parts = [
            np.asarray(rows[name])
            for name in ("model_type", "accelerators", "batch_size", "architecture")
            if name in rows
        ]
        parts += [_column(rows, name, float, np.nan) for name in self.numbers.tolist()]
        key = np.zeros(len(rows["model_type"]), dtype=np.uint64)
        for hashes in (*(hashes_of(part).reshape(len(key), -1) for part in parts), self._names(rows)):
            for column in hashes.T:
                key = mix(key ^ column)
        return key

    def raw(self, rows: Rows) -> tuple[Floats, Floats]:
        """(c,) ln FLOP and (c, columns) numbers before they are standardised; NaN where not known."""
        values = definition_values(rows)
        position = [self._position.get(name, -1) for name in rows["model_type"].tolist()]
        known = self.of_model[position]
        known[np.array(position) < 0] = np.nan
        values = np.where(np.isnan(values), known, values)
        has_definition = ~np.isnan(values).all(axis=1)
        flops = values[:, FLOPS].copy()
        values[:, PER_FLOP] -= np.where(np.isnan(flops), self.of_model[-1, FLOPS], flops)[:, None]
        return flops, np.column_stack((values, has_definition, self._numbers(rows)))

    def _numbers(self, rows: Rows) -> Floats:
        accelerators, batch = (_positive(rows[name]) for name in ("accelerators", "batch_size"))
        columns = np.empty((2 + len(self.numbers), len(batch)))
        columns[:2] = np.log((accelerators, batch / accelerators))
        for place, name in enumerate(self.numbers.tolist(), start=2):
            columns[place] = _column(rows, name, float, np.nan)
        columns[2:] = compress(columns[2:], np.nan)
        return columns.T

    def _names(self, rows: Rows) -> Hashes:
        count = len(rows["model_type"])
        columns = [_column(rows, name, str, "") for name in self.names.tolist()]
        return hashes_of(np.array(columns, dtype=object).reshape(len(columns), count).T)

    @cached_property
    def _usual_flops(self) -> float:
        """ln FLOP of a sample where it is not known; 0 where no definition was stated."""
        return float(np.nan_to_num(self.of_model[-1, FLOPS]))

    @cached_property
    def flops_variance(self) -> float:
        """Variance of ln FLOP among model types; 0 where no definition was stated."""
        flops = self.of_model[:-1, FLOPS]
        return float(flops[~np.isnan(flops)].var()) if np.isfinite(flops).any() else 0.0

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.models.tolist())}


def beginnings(models: NDArray[Any]) -> Hashes:
    """(n,) hashes of the first part of names."""
    return hashes_of(_parts_of(models)[:, 0])


def definition_values(rows: Rows) -> Floats:
    """(c, values) shares as they are, logarithms of the others; NaN where not stated."""
    count = len(rows["model_type"])
    values = np.asarray(rows.get("architecture", np.full((count, len(_SHARES)), np.nan)), dtype=float)
    amounts = np.where(values > 0, values, np.where(values == 0, 0.0, np.nan))
    return np.where(_SHARES, values, np.log1p(amounts))


def _column(rows: Rows, name: str, kind: type, otherwise: Any) -> NDArray[Any]:
    """(c,) values of a column, or of one of the launcher's free values."""
    count = len(rows["model_type"])
    if name in rows:
        return rows[name]
    if name in NAMES and "names" in rows:
        return np.array([value or "" for value in rows["names"][:, NAMES.index(name)]], dtype=object)
    if "extra" not in rows:
        return np.full(count, otherwise, dtype=object if kind is str else float)
    values = [extra.get(name, otherwise) for extra in rows["extra"]]
    values = [value if isinstance(value, str) == (kind is str) else otherwise for value in values]
    return np.array(values, dtype=object if kind is str else float)


def _positive(values: NDArray[Any]) -> Floats:
    numbers = np.asarray(values, dtype=float)
    return np.where((numbers > 0) & (numbers < np.inf), numbers, np.nan)


def _parts_of(models: NDArray[Any]) -> NDArray[np.object_]:
    parts = np.empty((len(models), PARTS + 1), dtype=object)
    for row, name in enumerate(models.tolist()):
        parts[row] = parts_of(name)
    return parts


@lru_cache(maxsize=1 << 14)
def parts_of(name: str) -> tuple[str, ...]:
    """The first part of a name, its first two, and so on; then all of it.

    Examples
    --------
    >>> parts_of("llama2_70b_lora")
    ('llama', 'llama 2', 'llama 2 70', 'llama2_70b_lora')
    """
    parts = re.findall(r"[^\W\d_]+|\d+", name.lower())
    return (*(" ".join(parts[:size]) for size in range(1, PARTS + 1)), name)
