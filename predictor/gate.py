"""The gate: how far each expert is trusted, by its evidence.

Experts are the structured prior and those of exact history. Each has a score, linear in its evidence with slopes that
the experts of history share, and the combination is their mean under the softmax of the scores.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.experts import LEVELS, HistoryEstimate
from predictor.jobs import Floats
from predictor.kernel import Arrays
from predictor.prior import PriorEstimate

SPECIFICATION_ONLY, SIMILAR_JOBS, FAMILY_HISTORY = 0, 1, 2
BASIS: tuple[str, ...] = ("specification only", "similar jobs", "family history")
#: Spread below which repeats are as good as equal, in ln throughput.
FLOOR = 0.005


@dataclass(frozen=True)
class Combined:
    """The gated estimate of (n,) rows.

    Attributes
    ----------
    mean, deviation
        ln throughput and its standard deviation.
    basis
        Position in `BASIS` of what carries most weight.
    count
        Attempts behind the history that carries most weight; 0 where that is the prior.
    weight
        (n, experts) trust in the prior and in each expert of history.
    """

    mean: Floats
    deviation: Floats
    basis: NDArray[np.uint8]
    count: Floats
    weight: Floats


@dataclass(frozen=True)
class Gate:
    """See the module.

    Attributes
    ----------
    intercept
        (experts,) trust without evidence.
    slope
        (evidence,) of the experts of history, and of the prior's own deviation at the end.
    error
        Coefficients of ln deviation over what `_doubt` returns.
    """

    intercept: Floats
    slope: Floats
    error: Floats

    def combine(self, prior: PriorEstimate, history: HistoryEstimate) -> Combined:
        """Weigh the experts of each row."""
        means = np.column_stack((prior.mean, history.mean))
        weight = trust(evidence(prior, history), self.intercept, self.slope)
        mean = (weight * np.nan_to_num(means)).sum(axis=1)
        best = weight.argmax(axis=1)
        return Combined(
            mean=mean,
            deviation=np.exp(doubt(prior, history, weight, mean) @ self.error),
            basis=np.where(_OF_FAMILY[best], FAMILY_HISTORY, prior.basis).astype(np.uint8),
            count=np.take_along_axis(np.column_stack((np.zeros(len(best)), history.count)), best[:, None], axis=1)[
                :, 0
            ],
            weight=weight,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Gate":
        """The gate that `arrays` describes."""
        return cls(**{field.name: stored[field.name] for field in fields(cls)})


_OF_FAMILY = np.array([False, *(columns[0] == "family" for columns in LEVELS for _ in range(2))])
EXPERTS = len(_OF_FAMILY)


@dataclass(frozen=True)
class Evidence:
    """What the trust in the experts of (n,) rows is read from.

    Attributes
    ----------
    prior
        (n,) ln of the prior's deviation.
    history
        (n, experts of history, `EVIDENCE`).
    known
        (n, experts) whether each has an estimate.
    """

    prior: Floats
    history: Floats
    known: NDArray[np.bool_]


#: Number, spread, both, age, and distance from the prior: plain and in its deviations.
EVIDENCE = 6


def evidence(prior: PriorEstimate, history: HistoryEstimate) -> Evidence:
    """Evidence for and against each expert."""
    apart = np.abs(history.mean - prior.mean[:, None])
    count, spread = np.log(np.maximum(history.count, 1.0)), np.log(history.spread / 0.05 + 0.1)
    found = (
        count,
        spread,
        count * spread,
        np.log1p(history.age / 30) - 1,
        np.log(apart / 0.05 + 0.2),
        np.log(apart / prior.deviation[:, None] + 0.2),
    )
    known = np.isfinite(np.column_stack((prior.mean, history.mean)))
    return Evidence(np.log(prior.deviation / 0.1), np.nan_to_num(np.stack(found, axis=2)), known)


def trust(seen: Evidence, intercept: Floats, slope: Floats) -> Floats:
    """(n, experts) weights that add up to one, none for an expert that has nothing to say."""
    score = np.column_stack((seen.prior * slope[-1], seen.history @ slope[:-1])) + intercept
    score = np.where(seen.known, score, -np.inf)
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def doubt(prior: PriorEstimate, history: HistoryEstimate, weight: Floats, mean: Floats) -> Floats:
    """(n, 5) what the size of the error is read from: the prior's deviation, the experts' spread and disagreement."""
    trust = weight[:, 1:]
    apart = np.sqrt(
        (weight * np.nan_to_num(np.square(np.column_stack((prior.mean, history.mean)) - mean[:, None]))).sum(1)
    )
    spread = (trust * np.nan_to_num(np.log(history.spread + FLOOR))).sum(axis=1)
    return np.column_stack(
        (
            np.ones(len(mean)),
            weight[:, 0],
            np.log(prior.deviation),
            weight[:, 0] * np.log(prior.deviation),
            spread,
            np.log(apart + FLOOR),
        )
    )
