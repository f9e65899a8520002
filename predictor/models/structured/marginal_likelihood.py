"""Variances of the structured prior's terms by marginal likelihood.

Model types depend on one another through the finite features of the shared part alone, so the likelihood is one small
block per model type and a matrix of the size of those features: cost grows with the squares of the configurations of
each model type, not of all. Every term is a fixed kernel with one unknown variance, so the gradient is one product
with a stack of matrices. A log-normal prior keeps variances that the rows say little about where they are expected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from leap.predictor.features.batch import Floats
from leap.predictor.models.structured.inputs import Inputs
from leap.predictor.models.structured.kernel import Kernel
from leap.predictor.models.structured.kernel_terms import Term
from leap.predictor.models.structured.replicates import Replicates, student_t_reweight

#: Deviation of the ln variances of terms from what is expected.
DEVIATION = 0.6
#: Expected variance of the two noises (common, and falling with repeats), and deviation of its logarithm: rows tell.
EXPECTED_NOISE, NOISE_DEVIATION = 1e-3, 2.5
BOUNDS = (-14.0, 4.0)
#: Times that the noise of each configuration is taken anew, and steps to that.
REWEIGHTINGS, STEPS = 2, 3
#: Shares of the trace that are added one after another to a covariance that has no root.
JITTER = (0.0, 1e-8, 1e-6, 1e-4)


def learn(
    chosen: Sequence[Term],
    tables: dict[str, Floats],
    columns: Sequence[str],
    centre: Floats,
    units: Replicates,
    start: Floats | None,
    steps: int,
) -> Floats:
    """(terms + 2,) variances: of each term, of the common noise, and of the noise that falls with repeats.

    Parameters
    ----------
    units
        Configurations to learn from.
    start
        Variances of an earlier fit of the same terms; those expected where None.
    steps
        Most steps of the optimiser between two reweightings of the noise.
    """
    likelihood = _Likelihood(chosen, tables, columns, centre, units)
    expected = np.log([*(term.prior_variance for term in chosen), EXPECTED_NOISE, EXPECTED_NOISE])
    deviation = np.array([*(DEVIATION for _ in chosen), NOISE_DEVIATION, NOISE_DEVIATION])

    def objective(logs: Floats) -> tuple[float, Floats]:
        off = (logs - expected) / deviation
        try:
            loss, gradient = likelihood(np.exp(logs))
        except LinAlgError:  # too little noise for sums in float32: not there, and the optimiser steps back
            return 1e10, np.zeros_like(logs)
        return loss + float(off @ off) / 2, gradient * np.exp(logs) + off / deviation

    logs = expected if start is None else np.log(start)
    for remaining in reversed(range(REWEIGHTINGS + 1)):
        logs = minimize(
            objective, logs, jac=True, method="L-BFGS-B", bounds=[BOUNDS] * len(logs), options={"maxiter": steps}
        ).x
        for _ in range(STEPS * (remaining > 0)):
            likelihood.reweigh(np.exp(logs))
    return np.exp(logs)


@dataclass
class _Group:
    """(n,) configurations of one model type.

    Attributes
    ----------
    stack
        (terms, n * n) float32, one matrix per term of the model type's own process.
    shared
        (n, d) hardware type as zeros and a one, then the linear columns of the shared part.
    y
        (n,) centred targets.
    noises
        (n, 2) share of the two noises.
    scale
        (n,) what the noise of each is multiplied with.
    """

    stack: NDArray[np.float32]
    shared: Floats
    y: Floats
    noises: Floats
    scale: Floats


@dataclass(frozen=True)
class _Solved:
    """Inverse of the covariance of a group's own process and noise, and its products with shared features and y."""

    inverse: Floats
    shared: Floats
    y: Floats


@dataclass(frozen=True)
class _Whole:
    """All groups solved: what they say of the shared weights (`precision`, `moment`), and what these then are."""

    loss: float
    groups: list[_Solved]
    precision: Floats
    moment: Floats
    weights: Floats
    covariance: Floats


class _Likelihood:
    """Negative logarithm of the marginal likelihood of centred targets, and its gradient, at given variances."""

    def __init__(
        self,
        chosen: Sequence[Term],
        tables: dict[str, Floats],
        columns: Sequence[str],
        centre: Floats,
        units: Replicates,
    ) -> None:
        self._own = [n for n, term in enumerate(chosen) if not term.shared]
        self._over = [n for n, term in enumerate(chosen) if term.shared and not term.decays]
        self._linear = [n for n, term in enumerate(chosen) if term.shared and term.decays]
        types, hardware = np.unique(units.points.hardware, return_inverse=True)
        self._types = len(types)
        self._tables = np.stack([tables[chosen[n].hardware][np.ix_(types, types)] for n in self._over])
        linear = [columns.index(chosen[n].decays[0][0]) for n in self._linear]
        shared = np.hstack((np.eye(len(types))[hardware], units.points.x[:, linear] - centre[linear]))
        noises, y = np.column_stack((np.ones(len(units.y)), 1 / units.count)), units.y - units.y.mean()
        self._groups = []
        for model in np.unique(units.points.model):
            rows = np.flatnonzero(units.points.model == model)
            points = units.points.take(rows)
            stack = np.stack([_matrix(chosen[n], tables, columns, centre, points) for n in self._own])
            stack = stack.reshape(len(stack), -1)
            self._groups.append(_Group(stack, shared[rows], y[rows], noises[rows], np.ones(len(rows))))

    def __call__(self, variances: Floats) -> tuple[float, Floats]:
        whole = self._solve(variances, JITTER[:1])
        gradient = np.zeros_like(variances)
        for group, block in zip(self._groups, whole.groups, strict=True):
            dual = block.y - block.shared @ whole.weights  # alpha = V^-1 (y - S w), V = K + noise
            # dL/dK = (V^-1 - V^-1 S Sigma S^T V^-1 - alpha alpha^T) / 2
            outer = block.inverse - block.shared @ whole.covariance @ block.shared.T - np.outer(dual, dual)
            gradient[self._own] += group.stack @ outer.ravel().astype(np.float32)
            gradient[-2:] += (np.diag(outer) * group.scale) @ group.noises
        dual = whole.moment - whole.precision @ whole.weights
        outer = whole.precision - whole.precision @ whole.covariance @ whole.precision - np.outer(dual, dual)
        gradient[self._over] = np.tensordot(self._tables, outer[: self._types, : self._types], axes=2)
        gradient[self._linear] = np.diag(outer)[self._types :]
        return whole.loss, gradient / 2

    def reweigh(self, variances: Floats) -> None:
        """Take the noise of each configuration anew from how far off it is."""
        whole = self._solve(variances)
        for group, block in zip(self._groups, whole.groups, strict=True):
            base = group.noises @ variances[-2:]
            noise = base * group.scale
            dual = block.y - block.shared @ whole.weights
            inverse = np.diag(block.inverse) - ((block.shared @ whole.covariance) * block.shared).sum(axis=1)
            group.scale = student_t_reweight(base, np.square(noise * dual) + noise * (1 - noise * inverse)) / base

    def _solve(self, variances: Floats, jitter: Sequence[float] = JITTER) -> _Whole:
        common = np.tensordot(variances[self._over], self._tables, axes=1)
        common[np.diag_indices_from(common)] += 1e-9 * np.trace(common)
        root = np.diag(np.sqrt(np.concatenate((np.zeros(self._types), variances[self._linear]))))
        root[: self._types, : self._types] = np.linalg.cholesky(common)
        own = variances[self._own].astype(np.float32)
        loss, solved = 0.0, []
        precision, moment = np.zeros_like(root), np.zeros(len(root))
        for group in self._groups:
            covariance = (own @ group.stack).reshape(len(group.y), -1).astype(float)
            covariance[np.diag_indices_from(covariance)] += group.noises @ variances[-2:] * group.scale
            lower = _root(covariance, jitter)
            inverse = dpotri(lower, lower=1)[0]
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            block = _Solved(inverse, inverse @ group.shared, inverse @ group.y)
            solved.append(block)
            loss += float(group.y @ block.y) / 2 + float(np.log(np.diag(lower)).sum())
            precision += group.shared.T @ block.shared
            moment += group.shared.T @ block.y
        inner = np.eye(len(root)) + root.T @ precision @ root
        # Sigma = (prior^-1 + S^T V^-1 S)^-1 with prior = root root^T
        posterior = root @ np.linalg.inv(inner) @ root.T
        weights = posterior @ moment
        loss += float(np.linalg.slogdet(inner)[1] - moment @ weights) / 2
        return _Whole(loss, solved, precision, moment, weights, posterior)


def _root(covariance: Floats, jitter: Sequence[float]) -> Floats:
    """Lower triangular root; a sum in float32 that has none, the noise being all but gone, is given more of it."""
    trace = np.trace(covariance)
    for share in jitter:
        covariance[np.diag_indices_from(covariance)] += share * trace
        try:
            return np.asarray(cholesky(covariance, lower=True))
        except LinAlgError:
            continue
    raise LinAlgError("covariance without a root")


def _matrix(
    term: Term, tables: dict[str, Floats], columns: Sequence[str], centre: Floats, points: Inputs
) -> NDArray[np.float32]:
    kernel = Kernel(
        tables=tables[term.hardware][None],
        mixing=np.ones((1, 1)),
        column=np.array([columns.index(name) for name, _ in term.decays], dtype=np.intp),
        length=np.array([length for _, length in term.decays], dtype=float),
        member=np.ones((1, len(term.decays)), dtype=bool),
        centre=centre,
    )
    return kernel(points, points).astype(np.float32)
