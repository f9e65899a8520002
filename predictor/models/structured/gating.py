"""The gate: how far each expert is trusted, by its evidence.

Experts are the structured prior and those of exact history. Each has a score, linear in its evidence with slopes that
the experts of history share, and the combination is their mean under the softmax of the scores.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.models.arrays import Arrays
from leap.predictor.models.structured.exact_history import LEVELS, HistoryEstimate
from leap.predictor.models.structured.gp_prior import PriorEstimate

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
    """

    mean: Floats
    deviation: Floats


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
        Coefficients of ln deviation over `error_features`.
    """

    intercept: Floats
    slope: Floats
    error: Floats

    def combine(self, prior: PriorEstimate, history: HistoryEstimate) -> Combined:
        """Weigh the experts of each row."""
        seen = gating_features(prior, history)
        weight = gating_weights(seen, self.intercept, self.slope)
        mean = row_dot(weight, seen.mean)
        error = error_features(prior, history, seen, weight, mean)
        return Combined(mean, np.exp(np.minimum(error @ self.error, MAX_LOG_DEVIATION)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Gate":
        """The gate that `arrays` describes."""
        return cls(**{field.name: stored[field.name] for field in fields(cls)})


#: The prior, then the latest day and all days of each level of history.
EXPERTS = 1 + 2 * len(LEVELS)


@dataclass(frozen=True)
class GatingFeatures:
    """What the trust in the experts of (n,) rows is read from.

    Attributes
    ----------
    prior
        (n,) ln of the prior's deviation.
    history
        (6, n, experts of history): number, spread, both, age, and distance from the prior, plain and in its deviations.
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
    distance = np.abs(history.mean - prior.mean[:, None])
    features = np.empty((6, *distance.shape))
    np.maximum(history.count, 1.0, out=features[0])
    features[1], features[2], features[3] = history.spread, 0.0, history.age
    features[4] = distance
    np.divide(distance, prior.deviation[:, None], out=features[5])
    features *= _SCALE
    features += _SHIFT
    np.log(features, out=features)
    np.multiply(features[0], features[1], out=features[2])
    features[3] -= 1
    means = np.empty((len(distance), EXPERTS))
    means[:, 0], means[:, 1:] = prior.mean, history.mean
    known = np.isfinite(means)
    unknown = ~known
    np.copyto(features, 0.0, where=unknown[:, 1:])
    np.copyto(means, 0.0, where=unknown)
    return GatingFeatures(np.log(prior.deviation / 0.1), features, known, means)


# What each is multiplied with, and what is added, before its logarithm is taken.
_SCALE = np.array([1, 1 / 0.05, 1, 1 / 30, 1 / 0.05, 1])[:, None, None]
_SHIFT = np.array([0, 0.1, 1, 1, 0.2, 0.2])[:, None, None]


def gating_weights(seen: GatingFeatures, intercept: Floats, slope: Floats) -> Floats:
    """(n, experts) weights that add up to one, none for an expert that has nothing to say."""
    score = np.empty(seen.known.shape)
    score[:, 0] = seen.prior * slope[-1]
    score[:, 1:] = (slope[:-1] @ seen.history.reshape(len(seen.history), -1)).reshape(seen.history.shape[1:])
    score += intercept
    np.copyto(score, -np.inf, where=~seen.known)
    score -= np.maximum.reduce(score, axis=1, keepdims=True)
    weight = np.exp(score, out=score)
    weight /= np.add.reduce(weight, axis=1, keepdims=True)
    return weight


def error_features(
    prior: PriorEstimate, history: HistoryEstimate, seen: GatingFeatures, weight: Floats, mean: Floats
) -> Floats:
    """(n, 6) what the size of the error is read from: the prior's deviation, the experts' spread and disagreement."""
    disagreement = np.sqrt(row_dot(weight, np.square(seen.mean - mean[:, None])))
    spread = np.log(np.where(seen.known[:, 1:], history.spread + FLOOR, 1.0))
    features = np.ones((len(mean), 6))
    features[:, 1] = weight[:, 0]
    features[:, 2] = np.log(prior.deviation)
    features[:, 3] = features[:, 1] * features[:, 2]
    features[:, 4] = row_dot(weight[:, 1:], spread)
    features[:, 5] = np.log(disagreement + FLOOR)
    return features


def row_dot(a: Floats, b: Floats) -> Floats:
    """(n,) inner products of the rows of two (n, d) arrays."""
    return np.asarray(np.einsum("ij,ij->i", a, b))
