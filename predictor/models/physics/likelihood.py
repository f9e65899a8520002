"""Lengths and variances of the process of utilisation by marginal likelihood.

Exact, over as many cells as one small matrix holds. A log-normal prior keeps what the cells say little about where it
is expected, so a column that says nothing keeps a length at which it hardly counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import OptimizeResult, minimize

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.physics.encoding import PARTS
from leap.predictor.models.structured.replicates import student_t_reweight

#: Expected variances: of the smooth kernel for all and for each leading part of a name; of slopes; of a model type, its
#: level on one hardware type, a year, and noise.
EXPECTED = (0.3, *(0.1,) * PARTS, 0.05, 0.01, 0.01, 0.01, 0.01)
SMOOTH, SLOPE, NOISE = slice(0, PARTS + 1), PARTS + 1, len(EXPECTED) - 1
LEVELS = slice(PARTS + 2, PARTS + 4)
#: Deviation of ln variances, expected length in standard deviations of a column, and deviation of its logarithm.
DEVIATION, LENGTH, LENGTH_DEVIATION = 2.0, 3.0, 1.0
BOUNDS = (-12.0, 8.0)
#: Times that noise is taken anew, and rounds of each.
REWEIGHTINGS, ROUNDS = 2, 3
#: Added to the diagonal, so that there is a root.
JITTER = 1e-8


@dataclass(frozen=True)
class Parameters:
    """Variances as in `EXPECTED`, (numbers,) inverse lengths, and (names,) squared distances of names that differ."""

    variances: Floats
    inverse: Floats
    apart: Floats

    @classmethod
    def expected(cls, numbers: int, names: int) -> "Parameters":
        """Before anything is known."""
        return cls(np.array(EXPECTED), np.full(numbers, 1 / LENGTH), np.full(names, LENGTH**-2))

    def logs(self) -> Floats:
        """One vector of ln variances and ln lengths."""
        return np.concatenate((np.log(self.variances), -np.log(self.inverse), -np.log(self.apart) / 2))

    def of_logs(self, logs: Floats) -> "Parameters":
        """What `logs` has made one vector, for as many numbers and names."""
        variances, lengths, apart = np.split(logs, np.cumsum((len(self.variances), len(self.inverse))))
        return Parameters(np.exp(variances), np.exp(-lengths), np.exp(-2 * apart))


@dataclass(frozen=True)
class _Covariance:
    """(n, n) K with noise, its smooth part's decay and variances, and (n, numbers) numbers in lengths."""

    whole: Floats
    decay: Floats
    alike: Floats
    x: Floats


@dataclass
class UtilisationLikelihood:
    """Negative logarithm of the marginal likelihood of (n,) cells, and its gradient.

    Attributes
    ----------
    x
        (n, numbers) standardised, those of the hardware type last.
    names
        (n, names) what may differ, hardware type and vendor last.
    model
        (n, PARTS + 1) hashes of the leading parts of the model type's name, then of all of it.
    years, y
        (n,) time and what was measured, both centred.
    """

    x: Floats
    names: NDArray[np.uint64]
    model: NDArray[np.uint64]
    hardware: Indices
    years: Floats
    y: Floats

    def __post_init__(self) -> None:
        self.scale = np.ones(len(self.y))

    @cached_property
    def expected(self) -> Parameters:
        """Parameters before anything is known."""
        return Parameters.expected(self.x.shape[1], self.names.shape[1])

    def starts(self) -> tuple[Parameters, Parameters]:
        """What is expected; and that it is the work which differs, not model types each by itself.

        From the first alone the optimiser often ends where every model type has a level of its own.
        """
        shared = self.expected.variances.copy()
        shared[LEVELS] *= 0.01
        return self.expected, replace(self.expected, variances=shared, inverse=2 * self.expected.inverse)

    def learn(self, starts: Sequence[Parameters], steps: int) -> Parameters:
        """Variances and lengths at the greatest posterior, by at most `steps` steps between two reweightings."""
        start = starts[0]
        expected = self.expected
        centre, deviation = expected.logs(), np.full(len(expected.logs()), LENGTH_DEVIATION)
        deviation[: len(EXPECTED)] = DEVIATION

        def objective(logs: Floats) -> tuple[float, Floats]:
            off = (logs - centre) / deviation
            try:
                loss, gradient = self._loss(start.of_logs(logs))
            except LinAlgError:
                return 1e10, np.zeros_like(logs)
            return loss + float(off @ off) / 2, gradient + off / deviation

        def best(logs: Floats, most: int) -> OptimizeResult:
            bounds = [BOUNDS] * len(logs)
            return minimize(objective, logs, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": most})

        logs = min((best(one.logs(), steps // 2) for one in starts), key=lambda found: float(found.fun)).x
        for remaining in reversed(range(REWEIGHTINGS + 1)):
            logs = best(logs, steps // 3).x
            for _ in range(ROUNDS * (remaining > 0)):
                self.reweigh(start.of_logs(logs))
        return start.of_logs(logs)

    def dual(self, parameters: Parameters) -> Floats:
        """(n,) alpha = (K + noise)^-1 y."""
        inverse = _inverse(cholesky(self._covariance(parameters).whole, lower=True))
        return np.asarray(inverse @ self.y)

    def reweigh(self, parameters: Parameters) -> None:
        """Take the noise of each cell anew from how far off it is (Student's t)."""
        inverse = _inverse(cholesky(self._covariance(parameters).whole, lower=True))
        dual = inverse @ self.y
        base = np.full(len(dual), parameters.variances[NOISE])
        noise = base * self.scale
        self.scale = student_t_reweight(base, np.square(noise * dual) + noise * (1 - noise * np.diag(inverse))) / base

    def _covariance(self, parameters: Parameters) -> _Covariance:
        variances = parameters.variances
        x = self.x * parameters.inverse
        norm = np.einsum("ij,ij->i", x, x)
        apart = np.maximum(norm[:, None] + norm - 2 * x @ x.T, 0.0)
        for distance, differ in zip(parameters.apart, self._differ, strict=True):
            apart += distance * differ
        decay = 1 / (1 + apart / 2)
        alike = np.tensordot(variances[SMOOTH], self._alike, axes=1)
        whole = decay * alike + np.tensordot(variances[SLOPE:NOISE], self._fixed, axes=1)
        whole[np.diag_indices_from(whole)] += variances[NOISE] * self.scale + JITTER
        return _Covariance(whole, decay, alike, x)

    def _loss(self, parameters: Parameters) -> tuple[float, Floats]:
        """The loss, and its gradient by ln variances and ln lengths."""
        covariance = self._covariance(parameters)
        lower = cholesky(covariance.whole, lower=True)
        inverse = _inverse(lower)
        dual = inverse @ self.y
        loss = float(self.y @ dual) / 2 + float(np.log(np.diag(lower)).sum())
        outer = inverse - np.outer(dual, dual)  # dL/dK = (K^-1 - alpha alpha^T) / 2
        decayed = outer * covariance.decay
        variances = np.concatenate(
            (
                np.tensordot(self._alike, decayed, axes=2),
                np.tensordot(self._fixed, outer, axes=2),
                [np.diag(outer) @ self.scale],
            )
        )
        # d decay / d ln length = decay^2 times the squared distance along the column
        pull = decayed * covariance.decay * covariance.alike
        x = covariance.x
        lengths = pull.sum(axis=1) @ np.square(x) - ((pull @ x) * x).sum(axis=0)
        apart = [
            (pull * differ).sum() * distance for differ, distance in zip(self._differ, parameters.apart, strict=True)
        ]
        return loss, np.concatenate((variances * parameters.variances / 2, lengths, np.array(apart) / 2))

    @cached_property
    def _alike(self) -> NDArray[np.float32]:
        """(PARTS + 1, n, n): 1, and whether each leading part is the same."""
        same = [self.model[:, None, part] == self.model[None, :, part] for part in range(PARTS)]
        return np.array([np.ones_like(same[0]), *same], dtype=np.float32)

    @cached_property
    def _differ(self) -> NDArray[np.float32]:
        """(names, n, n) whether each name differs."""
        differ = self.names.T[:, :, None] != self.names.T[:, None, :]
        return np.asarray(differ, dtype=np.float32)

    @cached_property
    def _fixed(self) -> Floats:
        """(4, n, n) kernels with a variance and nothing else: slopes, model type, its pair with hardware, years."""
        same = self.model[:, None, -1] == self.model[None, :, -1]
        pair = same & (self.hardware[:, None] == self.hardware)
        return np.array([self.x @ self.x.T, same, pair, np.outer(self.years, self.years)])


def _inverse(lower: Floats) -> Floats:
    half = np.tril(dpotri(lower, lower=1)[0])
    return np.asarray(half + np.tril(half, -1).T)
