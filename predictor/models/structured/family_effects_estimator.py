"""The process of a family in its training form: variances by marginal likelihood, one small system per family."""

from dataclasses import astuple, dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from leap.predictor.features.batch import Floats, Indices, Rows
from leap.predictor.history.hash_index import Keys
from leap.predictor.history.key_table import KeyTable
from leap.predictor.history.sorted_hashes import Hashes, locate
from leap.predictor.models.structured.family_effects import (
    FADING_DAYS,
    KEYS,
    MAX_KEYS,
    FamilyEffects,
    FamilyVarianceComponents,
)
from leap.predictor.models.structured.replicates import group_codes, grouped_median, student_t_reweight

#: Latest units of a family that are kept: a system of them takes a few milliseconds.
MOST_UNITS = 250
#: Families, and latest units of each, that variances are learned from.
LEARNED_FAMILIES, LEARNED_UNITS = 250, 100
#: Times that the noise is taken anew: a slow run must not bend what its family is thought to reach.
REWEIGHTINGS = 3
#: Beyond this a residual teaches nothing about variances, in ln throughput.
CLIP = 1.5
LEAST, MOST = 1e-5, 2.0
#: Of ln variances, for the slope of the likelihood.
STEP = 1e-6


@dataclass(frozen=True)
class _Units:
    """What a family's attempts of one day, hardware type and configuration reached; families together, days in order.

    Attributes
    ----------
    keys
        Per term of `KEYS`, (n,) hashes.
    day, y, count
        (n,) day, median of the attempts, and their number.
    """

    keys: tuple[Hashes, ...]
    day: Floats
    y: Floats
    count: Floats

    def take(self, rows: Indices | slice) -> "_Units":
        return _Units(tuple(key[rows] for key in self.keys), self.day[rows], self.y[rows], self.count[rows])

    def covariance(self, variances: FamilyVarianceComponents) -> Floats:
        """(n, n) covariance without noise, all being of one family."""
        total = variances.family + variances.fading * np.exp(-np.abs(self.day[:, None] - self.day) / FADING_DAYS)
        for key, variance in zip(self.keys[1:], variances.terms[1:], strict=True):
            total += variance * (key[:, None] == key)
        return np.asarray(total)


def fit_variance_components(
    rows: Rows, residual: Floats, variances: FamilyVarianceComponents | None = None
) -> FamilyVarianceComponents:
    """Variances by maximum likelihood over a sample of families.

    Parameters
    ----------
    residual
        (n,) ln throughput minus the prior of the rows of *other* families: a prior that has seen the family has
        already taken part of its effect.
    variances
        Where to begin.
    """
    units = _units(rows, np.clip(residual, -CLIP, CLIP))
    families = _families(units)
    drawn = np.random.default_rng(0).permutation(len(families))[:LEARNED_FAMILIES]
    sample = [
        units.take(slice(max(families[i].start, families[i].stop - LEARNED_UNITS), families[i].stop)) for i in drawn
    ]
    if sum(len(some.y) for some in sample) < 2 * LEARNED_UNITS:
        return variances or FamilyVarianceComponents()

    def loss(logs: Floats) -> float:
        tried = FamilyVarianceComponents(*np.exp(logs))
        return sum(_negative_log_likelihood(some, tried) for some in sample)

    least, most = np.log(LEAST), np.log(MOST)

    def loss_and_slope(logs: Floats) -> tuple[float, Floats]:
        # The optimiser's steps may leave the bounds by a rounding error, which its own differences refuse.
        logs = np.clip(logs, least, most)
        value, steps = loss(logs), np.where(logs + STEP > most, -STEP, STEP)
        return value, np.array([(loss(logs + step) - value) for step in np.diag(steps)]) / steps

    start = np.log(astuple(variances or FamilyVarianceComponents()))
    bounds = [(least, most)] * len(start)
    fit = minimize(loss_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 20})
    return FamilyVarianceComponents(*np.exp(np.clip(fit.x, least, most)).tolist())


def posterior(rows: Rows, residual: Floats, variances: FamilyVarianceComponents) -> FamilyEffects:
    """Posterior of every family given (n,) ln throughput minus the prior that the process is added to."""
    units = _units(rows, residual)
    dual = np.zeros(len(units.y))
    for family in _families(units):
        latest = slice(max(family.start, family.stop - MOST_UNITS), family.stop)
        dual[latest] = _dual(units.take(latest), variances)
    kinds: list[tuple[Hashes, Floats]] = []
    for key in units.keys:
        kept, position = _most_recent(key, units.day)
        sums = np.bincount(position[position >= 0], dual[position >= 0], minlength=len(kept))
        days = np.bincount(position[position >= 0], minlength=len(kept))
        kinds.append((kept, np.column_stack((sums, days))))
    names, sums_and_days = kinds[0]
    position, known = locate(names, units.keys[0])
    latest_day = np.zeros(len(names))
    np.maximum.at(latest_day, position[known], units.day[known])
    decayed = dual * np.exp(-(latest_day[position] - units.day) / FADING_DAYS)
    fading = np.bincount(position[known], decayed[known], minlength=len(names))
    kinds[0] = names, np.column_stack((sums_and_days, fading, latest_day))
    return FamilyEffects(variances, KeyTable.of(kinds))


def _units(rows: Rows, residual: Floats) -> _Units:
    of_row = Keys.from_rows(rows)
    keys = tuple(of_row.of(names) for names in KEYS)
    kept = np.flatnonzero((keys[0] != 0) & np.isfinite(residual))
    day = np.floor(np.asarray(rows["day"], dtype=float))[kept]
    unit = group_codes(keys[-1][kept], day)
    count = np.bincount(unit)
    first = np.zeros(len(count), np.intp)
    first[unit[::-1]] = kept[::-1]
    units = _Units(
        tuple(key[first] for key in keys),
        np.floor(np.asarray(rows["day"], dtype=float))[first],
        grouped_median(unit, residual[kept], len(count)),
        count.astype(float),
    )
    return units.take(np.lexsort((units.day, units.keys[0])))


def _families(units: _Units) -> list[slice]:
    key = units.keys[0]
    edges = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), len(key)]
    return [slice(start, stop) for start, stop in pairwise(edges) if start < stop]


def _negative_log_likelihood(units: _Units, variances: FamilyVarianceComponents) -> float:
    total = units.covariance(variances)
    total[np.diag_indices_from(total)] += variances.noise / units.count
    root = np.linalg.cholesky(total)
    # -ln p = |L^-1 y|^2 / 2 + sum of ln diag L, K + noise = L L^T
    white = solve_triangular(root, units.y, lower=True, check_finite=False)
    return float(0.5 * white @ white + np.log(np.diag(root)).sum())


def _dual(units: _Units, variances: FamilyVarianceComponents) -> Floats:
    """Coefficients of one family's units, under noise with heavy tails by reweighting (expectation-maximisation)."""
    covariance, base = units.covariance(variances), variances.noise / units.count
    noise = base
    for step in range(REWEIGHTINGS + 1):
        inverse = np.linalg.inv(covariance + np.diag(noise))
        dual = inverse @ units.y  # alpha = (K + noise)^-1 y
        if step < REWEIGHTINGS:
            noise = student_t_reweight(base, np.square(noise * dual) + noise * (1.0 - noise * np.diag(inverse)))
    return np.asarray(dual)


def _most_recent(keys: Hashes, day: Floats) -> tuple[Hashes, Indices]:
    """Sorted distinct keys, at most `MAX_KEYS`, and (n,) position of each among them, -1 for one that is not kept."""
    distinct, position = np.unique(keys, return_inverse=True)
    if len(distinct) <= MAX_KEYS:
        return distinct, position
    latest = np.full(len(distinct), -np.inf)
    np.maximum.at(latest, position, day)
    newest = np.sort(np.argsort(-latest, kind="stable")[:MAX_KEYS])
    renumbered = np.full(len(distinct), -1, np.intp)
    renumbered[newest] = np.arange(len(newest))
    return distinct[newest], renumbered[position]
