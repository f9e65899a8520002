"""The process of utilisation in its training form."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import NAMES, Floats, Indices, Rows, take
from leap.predictor.history.hash_index import hashes_of, mix
from leap.predictor.models.physics.encoding import NUMBER_COLUMNS, Work, WorkEncoder, definition_values
from leap.predictor.models.physics.likelihood import LEVELS, NOISE, SLOPE, SMOOTH, Parameters, UtilisationLikelihood
from leap.predictor.models.physics.utilisation import Cells, Utilisation
from leap.predictor.models.structured.replicates import group_codes, grouped_median

#: Most cells that are kept, and that lengths and variances are learned from.
MOST, LEARNED_FROM = 1200, 700
#: Most free values of the launcher of either kind; those that fewer than this share of rows state are left out, and of
#: strings those that are different in most rows, as run ids are.
MOST_FREE, LEAST_SHARE = 8, 0.05
#: Rows that columns are standardised by, and the least spread of one that counts.
STANDARDISED_BY, LEAST_SPREAD = 20_000, 1e-6
#: Rounds in which the noise of the cells is taken anew.
ROUNDS = 2


@dataclass(frozen=True)
class HardwareNumbers:
    """(h + 1,) hardware types, the last one being any that is not known.

    Attributes
    ----------
    x
        (h + 1, d) standardised specifications; 0 where not known.
    rate
        (h + 1,) ln FLOP/s to expect: half way between one that goes by peak and one by memory bandwidth.
    vendor
        (h + 1,) names.
    """

    x: Floats
    rate: Floats
    vendor: NDArray[np.object_]


@dataclass(frozen=True)
class UtilisationForm:
    """What stays from fit to fit: which columns there are, and their lengths and variances."""

    encoding: WorkEncoder
    parameters: Parameters


def learn_utilisation(
    rows: Rows, y: Floats, hardware: Indices, types: HardwareNumbers, steps: int, start: UtilisationForm | None = None
) -> UtilisationForm:
    """Lengths and variances from (n,) ln throughput per accelerator on (n,) hardware types."""
    encoding = _encoder(rows) if start is None else _refreshed(start.encoding, rows)
    cells = _Measured.of(encoding, rows, y, hardware)
    chosen = cells.take(np.sort(np.random.default_rng(0).permutation(len(cells.y))[:LEARNED_FROM]))
    problem = chosen.likelihood(types)
    starts = problem.starts() if start is None else (start.parameters,)
    return UtilisationForm(encoding, problem.learn(starts, steps) if steps else starts[0])


def condition_utilisation(
    form: UtilisationForm, rows: Rows, y: Floats, hardware: Indices, types: HardwareNumbers
) -> Utilisation:
    """The serving form over (n,) rows, lengths and variances as they were learned."""
    encoding, parameters = _refreshed(form.encoding, rows), form.parameters
    measured = _Measured.of(encoding, rows, y, hardware)
    measured = measured.take(measured.spread_out(MOST))
    problem = measured.likelihood(types)
    for _ in range(ROUNDS):
        problem.reweigh(parameters)
    dual = problem.dual(parameters)
    columns = measured.work.x.shape[1]
    inverse, own = parameters.inverse[:columns], parameters.inverse[columns:]
    x = types.x * own
    apart = np.square(x[:, None] - x[None]).sum(axis=2)
    apart += parameters.apart[-2] * (1 - np.eye(len(x)))
    apart += parameters.apart[-1] * (types.vendor[:, None] != types.vendor[None])
    slope = parameters.variances[SLOPE] * (problem.x.T @ dual)
    return Utilisation(
        encoding=encoding,
        inverse=inverse,
        apart=parameters.apart[:-2],
        hardware=apart,
        variances=parameters.variances[SMOOTH],
        slope=slope[:columns],
        mean=measured.centre(types) + types.rate + types.x @ slope[columns:],
        level=parameters.variances[LEVELS],
        cells=Cells(
            x=(measured.work.x * inverse).astype(np.float32),
            model=measured.work.model,
            names=measured.work.names,
            hardware=measured.hardware,
            dual=dual,
            noise=problem.scale * parameters.variances[NOISE],
        ),
    )


@dataclass(frozen=True)
class _Measured:
    """(n,) cells: what attempts of one kind of work on one hardware type reached, as their median."""

    work: Work
    hardware: Indices
    years: Floats
    y: Floats

    @classmethod
    def of(cls, encoding: WorkEncoder, rows: Rows, y: Floats, hardware: Indices) -> "_Measured":
        key = mix(encoding.keys(rows) ^ hashes_of(hardware.astype(float)))
        _, first, of_row = np.unique(key, return_index=True, return_inverse=True)
        work = encoding(take(rows, first))
        y = grouped_median(of_row, y, len(first)) + work.flops
        return cls(work, hardware[first], np.asarray(rows["day"], dtype=float)[first] / 365.25, y)

    def take(self, rows: Indices) -> "_Measured":
        return _Measured(self.work.take(rows), self.hardware[rows], self.years[rows], self.y[rows])

    def centre(self, types: HardwareNumbers) -> float:
        return float(np.median(self.y - types.rate[self.hardware]))

    def likelihood(self, types: HardwareNumbers) -> UtilisationLikelihood:
        of_hardware = np.column_stack((self.hardware, group_codes(types.vendor.astype(str))[self.hardware]))
        return UtilisationLikelihood(
            x=np.hstack((self.work.x, types.x[self.hardware])),
            names=np.hstack((self.work.names, of_hardware.astype(np.uint64))),
            model=self.work.model,
            hardware=self.hardware,
            years=self.years - np.median(self.years),
            y=self.y - types.rate[self.hardware] - self.centre(types),
        )

    def spread_out(self, most: int) -> Indices:
        """At most so many cells, those of each model type on each hardware type in turn."""
        shuffled = np.random.default_rng(0).permutation(len(self.y))
        pair = group_codes(self.work.model[shuffled, -1], self.hardware[shuffled])
        order = np.argsort(pair, kind="stable")
        nth = np.empty_like(order)
        nth[order] = np.arange(len(order)) - np.searchsorted(pair[order], pair[order])
        return np.sort(shuffled[np.argsort(nth, kind="stable")[:most]])


def _encoder(rows: Rows) -> WorkEncoder:
    """The columns of rows, standardised; one that never differs counts nothing."""
    free_numbers, free_names = _free(rows)
    numbers = [*(name for name in NUMBER_COLUMNS if name in rows), *free_numbers]
    names = [*(NAMES if "names" in rows else ()), *free_names]
    nothing = np.zeros(0)
    encoding = WorkEncoder(
        np.array([], dtype=str), nothing, np.array(numbers, dtype=str), np.array(names, dtype=str), nothing, nothing
    )
    encoding = _refreshed(encoding, rows)
    some = np.random.default_rng(0).permutation(len(rows["day"]))[:STANDARDISED_BY]
    raw = encoding.raw(take(rows, some))[1]
    known = ~np.isnan(raw).all(axis=0)
    centre, scale = np.zeros(raw.shape[1]), np.zeros(raw.shape[1])
    centre[known] = np.nanmedian(raw[:, known], axis=0)
    spread = np.nanstd(raw[:, known], axis=0)
    scale[known] = np.divide(1, spread, where=spread > LEAST_SPREAD, out=np.zeros_like(spread))
    return replace(encoding, centre=centre, scale=scale)


def _refreshed(encoding: WorkEncoder, rows: Rows) -> WorkEncoder:
    """With the definitions of the model types of these rows."""
    defined: Rows = {name: rows[name] for name in ("model_type", "architecture") if name in rows}
    key = np.zeros(len(rows["day"]), dtype=np.uint64)
    for column in np.column_stack(
        [hashes_of(np.asarray(values)).reshape(len(key), -1) for values in defined.values()]
    ).T:
        key = mix(key ^ column)
    defined = take(defined, np.unique(key, return_index=True)[1])
    values = definition_values(defined)
    stated = np.flatnonzero(~np.isnan(values).all(axis=1))
    models, code = np.unique(np.asarray(defined["model_type"], dtype=str)[stated], return_inverse=True)
    of_model = np.column_stack([_known_median(code, column, len(models)) for column in values[stated].T])
    usual = [_known_median(np.zeros(len(column), dtype=np.intp), column, 1) for column in of_model.T]
    return replace(encoding, models=models, of_model=np.vstack((of_model, np.hstack(usual))))


def _known_median(group: Indices, values: Floats, groups: int) -> Floats:
    known = ~np.isnan(values)
    if not known.any():
        return np.full(groups, np.nan)
    return grouped_median(group[known], values[known], groups)


def _free(rows: Rows) -> tuple[list[str], list[str]]:
    """Names of the launcher's free numbers, and of its strings, that say something of many rows."""
    if "extra" not in rows:
        return [], []
    counts = Counter((name, isinstance(value, str)) for extra in rows["extra"] for name, value in extra.items())
    frequent = [key for key, count in counts.most_common() if count >= LEAST_SHARE * len(rows["extra"])]
    free: dict[bool, list[str]] = {True: [], False: []}
    for name, is_text in frequent:
        values = Counter(extra.get(name) for extra in rows["extra"])
        if (
            len(free[is_text]) < MOST_FREE
            and len(values) > 1
            and (not is_text or len(values) < counts[name, is_text] / 4)
        ):
            free[is_text].append(name)
    return free[False], free[True]
