"""The gate: how far each expert is trusted, by its evidence.

Experts are the structured prior and those of exact history. Each has a score, linear in its evidence with slopes that
the experts of history share, and the combination is their mean under the softmax of the scores.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.models.structured.exact_history import LEVELS, HistoryEstimate
from leap.predictor.models.structured.gp_prior import PriorEstimate
from leap.predictor.models.structured.kernel import Arrays

#: Beside those of :mod:`leap.predictor.models.structured.gp_prior`.
FAMILY_HISTORY = 2
#: Spread below which repeats are as good as equal, in ln throughput.
FLOOR = 0.005
#: ln of a deviation beyond which an estimate says nothing, whatever its coefficients.
MAX_LOG_DEVIATION = 2.3


@dataclass(frozen=True)
class Combined:
    """The gated estimate of (n,) rows.

    Attributes
    ----------
    mean, deviation
        ln throughput and its standard deviation.
    basis
        `SPECIFICATION_ONLY`, `SIMILAR_JOBS` or `FAMILY_HISTORY`: what carries most weight.
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
        seen = gating_features(prior, history)
        weight = gating_weights(seen, self.intercept, self.slope)
        mean = (weight * seen.mean).sum(axis=1)
        best = weight.argmax(axis=1)
        count = history.count[np.arange(len(best)), best - 1]
        return Combined(
            mean=mean,
            deviation=np.exp(
                np.minimum(error_features(prior, history, seen, weight, mean) @ self.error, MAX_LOG_DEVIATION)
            ),
            basis=np.where(_OF_FAMILY[best], FAMILY_HISTORY, prior.basis).astype(np.uint8),
            count=np.where(best > 0, count, 0.0),
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
class GatingFeatures:
    """What the trust in the experts of (n,) rows is read from.

    Attributes
    ----------
    prior
        (n,) ln of the prior's deviation.
    history
        (n, experts of history, 6): number, spread, both, age, and distance from the prior, plain and in its deviations.
    known
        (n, experts) whether each has an estimate.
    mean
        (n, experts) that estimate; 0 where there is none.
    """

    prior: Floats
    history: Floats
    known: NDArray[np.bool_]
    mean: Floats


def gating_features(prior: PriorEstimate, history: HistoryEstimate) -> GatingFeatures:
    """Evidence for and against each expert."""
    apart = np.abs(history.mean - prior.mean[:, None])
    found = np.empty((*apart.shape, 6))
    found[..., 0] = np.log(np.maximum(history.count, 1.0))
    found[..., 1] = np.log(history.spread / 0.05 + 0.1)
    found[..., 2] = found[..., 0] * found[..., 1]
    found[..., 3] = np.log1p(history.age / 30) - 1
    found[..., 4] = np.log(apart / 0.05 + 0.2)
    found[..., 5] = np.log(apart / prior.deviation[:, None] + 0.2)
    found[~np.isfinite(found)] = 0.0
    means = np.hstack((prior.mean[:, None], history.mean))
    known = np.isfinite(means)
    return GatingFeatures(np.log(prior.deviation / 0.1), found, known, np.where(known, means, 0.0))


def gating_weights(seen: GatingFeatures, intercept: Floats, slope: Floats) -> Floats:
    """(n, experts) weights that add up to one, none for an expert that has nothing to say."""
    score = np.empty(seen.known.shape)
    score[:, 0] = seen.prior * slope[-1]
    score[:, 1:] = seen.history @ slope[:-1]
    score = np.where(seen.known, score + intercept, -np.inf)
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def error_features(
    prior: PriorEstimate, history: HistoryEstimate, seen: GatingFeatures, weight: Floats, mean: Floats
) -> Floats:
    """(n, 6) what the size of the error is read from: the prior's deviation, the experts' spread and disagreement."""
    apart = np.sqrt((weight * np.square(seen.mean - mean[:, None])).sum(axis=1))
    spread = np.where(seen.known[:, 1:], np.log(history.spread + FLOOR), 0.0)
    found = np.ones((len(mean), 6))
    found[:, 1] = weight[:, 0]
    found[:, 2] = np.log(prior.deviation)
    found[:, 3] = found[:, 1] * found[:, 2]
    found[:, 4] = (weight[:, 1:] * spread).sum(axis=1)
    found[:, 5] = np.log(apart + FLOOR)
    return found
