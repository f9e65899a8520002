"""The gate in its training form: learned from what the experts said of attempts before they had run."""

from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
from scipy.optimize import lsq_linear, minimize

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.structured.exact_history import HistoryEstimate
from leap.predictor.models.structured.gating import (
    EXPERTS,
    FLOOR,
    Gate,
    error_features,
    gating_features,
    gating_weights,
)
from leap.predictor.models.structured.gp_prior import PriorEstimate

Estimates = TypeVar("Estimates", PriorEstimate, HistoryEstimate)

#: Errors that count as small and as tolerable, in ln throughput: the loss is flat far beyond them, so that an attempt
#: that nothing could have foreseen does not sway the gate.
SCALES = (0.07, 0.21)
#: Weight of the squared distance from `PRIOR_GATE`: few rows teach little.
PENALTY = 10.0
#: Half of the interval that holds 80% of a normal distribution.
NORMAL_80 = 1.2816
#: The gate before it has learned: history over the prior, the specific over the general, less where it is old, far
#: from the prior or far apart. As learned from the public MLPerf runs of the rounds up to v3.0.
PRIOR_GATE = Gate(
    intercept=np.array([0.6, 1.6, 0.8, 0.5, 0.3, -0.75, 0.0, -0.85, -0.3]),
    slope=np.array([0.15, -0.75, 0.05, -0.65, -0.55, -0.2, -0.2]),
    error=np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
)
LEAST = 100
#: Least and greatest coefficient of each of `error_features`: with a greater deviation, spread or disagreement the
#: error is never smaller, nor greater by more than in proportion.
SLOPES = ((-10.0, 10.0), (-10.0, 10.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0))


@dataclass(frozen=True)
class OutOfSamplePredictions:
    """What the experts said of (n,) attempts that they had not seen, and what those reached."""

    prior: PriorEstimate
    history: HistoryEstimate
    y: Floats

    @classmethod
    def empty(cls) -> "OutOfSamplePredictions":
        """Nothing was rehearsed."""
        none, experts = np.zeros(0), np.zeros((0, EXPERTS - 1))
        return cls(PriorEstimate(none, none), HistoryEstimate(experts, experts, experts, experts), none)

    def plus(self, other: "OutOfSamplePredictions") -> "OutOfSamplePredictions":
        """Both, one after the other."""
        return OutOfSamplePredictions(
            _joined(self.prior, other.prior), _joined(self.history, other.history), np.concatenate((self.y, other.y))
        )

    def take(self, rows: Indices) -> "OutOfSamplePredictions":
        return OutOfSamplePredictions(_rows(self.prior, rows), _rows(self.history, rows), self.y[rows])


def fit_gate(rehearsal: OutOfSamplePredictions, start: Gate = PRIOR_GATE) -> Gate:
    """Learn from a rehearsal; `start` is returned as it is when fewer than `LEAST` attempts had a choice of experts."""
    choice = np.flatnonzero(np.isfinite(rehearsal.history.mean).any(axis=1))
    if len(choice) < LEAST:
        return start
    gate = _trust(rehearsal.take(choice), start)
    return replace(gate, error=_error(rehearsal.take(choice), gate))


def _error(rehearsal: OutOfSamplePredictions, gate: Gate) -> Floats:
    """Coefficients of ln deviation: slopes within `SLOPES`, for no evidence makes an attempt surer than it is worth."""
    prior, history, y = rehearsal.prior, rehearsal.history, rehearsal.y
    seen = gating_features(prior, history)
    weight = gating_weights(seen, gate.intercept, gate.slope)
    mean = (weight * seen.mean).sum(axis=1)
    doubts = error_features(prior, history, seen, weight, mean)
    off = np.abs(y - mean)
    penalty = np.sqrt(1e-3 * len(y)) * np.eye(doubts.shape[1])
    system, wanted = np.vstack((doubts, penalty)), np.append(np.log(off + FLOOR), np.zeros(len(penalty)))
    error = np.asarray(lsq_linear(system, wanted, bounds=tuple(np.array(SLOPES).T)).x)
    error[0] += np.log(np.quantile(off / np.exp(doubts @ error), 0.8) / NORMAL_80)
    return error


def _trust(rehearsal: OutOfSamplePredictions, start: Gate) -> Gate:
    prior, history, y = rehearsal.prior, rehearsal.history, rehearsal.y
    seen = gating_features(prior, history)
    means = seen.mean

    untaught = np.concatenate((PRIOR_GATE.intercept, PRIOR_GATE.slope))

    def objective(parameters: Floats) -> tuple[float, Floats]:
        away = parameters - untaught
        intercept, slope = parameters[:EXPERTS], parameters[EXPERTS:]
        weight = gating_weights(seen, intercept, slope)
        mean = (weight * means).sum(axis=1)
        off = mean - y
        near = [np.exp(-np.square(off / scale)) for scale in SCALES]
        loss = sum((1 - kept).sum() for kept in near) + PENALTY * (away @ away)
        steep = sum(2 * off / scale**2 * kept for scale, kept in zip(SCALES, near, strict=True))
        pull = steep[:, None] * weight * (means - mean[:, None])
        gradient = np.concatenate(
            (
                pull.sum(axis=0),
                np.tensordot(seen.history, pull[:, 1:], axes=2),
                [pull[:, 0] @ seen.prior],
            )
        )
        return float(loss), gradient + 2 * PENALTY * away

    first = np.concatenate((start.intercept, start.slope))
    parameters = minimize(objective, first, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    return replace(start, intercept=parameters[:EXPERTS], slope=parameters[EXPERTS:])


def _joined(a: Estimates, b: Estimates) -> Estimates:
    return replace(a, **{f.name: np.concatenate((getattr(a, f.name), getattr(b, f.name))) for f in fields(a)})


def _rows(estimates: Estimates, rows: Indices) -> Estimates:
    return replace(estimates, **{field.name: getattr(estimates, field.name)[rows] for field in fields(estimates)})
