"""The process of a family: what its own attempts add to the structured prior, in its serving form.

What a family's attempts reached beyond the prior is a Gaussian process whose covariance is a sum of terms: constant,
per hardware type, per configuration, per both, and one that fades with the days between. Every term is constant on a
key or decays from the latest day, so the posterior mean at a new attempt is a sum of one number per key: exact,
without the attempts themselves.
"""

from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.history.hash_index import Keys
from leap.predictor.history.key_table import KeyTable
from leap.predictor.models.arrays import Arrays

#: Keys of the terms that do not fade; the fading one has the key of the first.
KEYS: tuple[tuple[str, ...], ...] = (
    ("family",),
    ("family", "hardware_type"),
    ("family", "configuration"),
    ("family", "hardware_type", "configuration"),
)
#: Days after which the fading term has lost 63% of its covariance.
FADING_DAYS = 2.0
#: Most keys of a term; the most recent stay.
MAX_KEYS = 250_000


@dataclass(frozen=True)
class FamilyVarianceComponents:
    """Variances of ln throughput: of the terms of `KEYS`, of the fading one, and of the noise of one attempt."""

    family: float = 0.16
    hardware: float = 0.045
    configuration: float = 0.065
    both: float = 0.015
    fading: float = 0.012
    noise: float = 0.032

    @property
    def terms(self) -> tuple[float, ...]:
        """Those of `KEYS`, in their order."""
        return (self.family, self.hardware, self.configuration, self.both)

    @property
    def total(self) -> float:
        """Variance of a family about which nothing is known."""
        return sum(self.terms) + self.fading


#: Values of a key: sum of the dual coefficients of its attempts, and how many days they span; of a family also the
#: decayed sum of the coefficients at its latest day, and that day since the epoch.
VALUES: tuple[str, ...] = ("weight", "days", "decayed", "latest")


@dataclass(frozen=True)
class FamilyEffects:
    """Posterior of all families.

    Attributes
    ----------
    table
        `VALUES` by the keys of `KEYS`.
    """

    variances: FamilyVarianceComponents
    table: KeyTable

    def at(self, day: Floats, keys: Keys) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """(n,) mean and variance of what the family adds to the prior, and whether the family has any attempt.

        Without one the mean is 0. `day` and `keys` are those of the rows.

        The variance is an upper bound: terms are treated one by one, each by its own number of days, and the remaining
        ones as noise. The exact value needs the full covariance, which no sum of one number a key can give.
        """
        values = self.table.find([keys.of(columns) for columns in KEYS], missing=0.0)
        weight, days, decayed, latest = values.transpose(2, 0, 1)
        prior, ratio, fading = self._terms
        kept = np.exp(np.maximum(day - latest[0], 0.0) / -FADING_DAYS)
        # mean = sum over terms of variance x sum of alpha over the key's attempts
        mean = prior @ weight + self.variances.fading * kept * decayed[0]
        known = days[0] > 0
        # variance = sum over terms of v (1 - days v / (rest + days v))
        variance = prior @ (1.0 / (1.0 + days * ratio)) + self.variances.fading
        variance -= known * fading * kept**2
        return mean, variance, known

    @cached_property
    def _terms(self) -> tuple[Floats, Floats, float]:
        """(terms,) variance of each term of `KEYS`, and (terms, 1) as a share of the terms after it, noise included.

        The last is what an attempt of today takes from the variance of the fading term.
        """
        prior, noise = np.array(self.variances.terms), self.variances.noise
        rest = self.variances.total + noise - np.cumsum(prior)
        fading = self.variances.fading**2 / (self.variances.fading + noise)
        return prior, (prior / rest)[:, None], fading

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects."""
        return {
            "hashes": self.table.hashes,
            "values": self.table.values,
            "variances": np.array(astuple(self.variances)),
        }

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "FamilyEffects":
        """The process that `arrays` describes."""
        variances = FamilyVarianceComponents(*(float(value) for value in stored["variances"]))
        if "hashes.0" in stored:  # as artifacts had them before
            weights = [stored[f"weights.{term}"] for term in range(len(KEYS))]
            weights[0] = np.hstack((weights[0], stored["fading"]))
            return cls(variances, KeyTable.of([(stored[f"hashes.{term}"], w) for term, w in enumerate(weights)]))
        return cls(variances, KeyTable.from_arrays(stored["hashes"], stored["values"], len(VALUES)))
