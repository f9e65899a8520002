"""The process of a family: what its own attempts add to the structured prior, in its serving form.

What a family's attempts reached beyond the prior is a Gaussian process whose covariance is a sum of terms: constant,
per hardware type, per configuration, per both, and one that fades with the days between. Every term is constant on a
key or decays from the latest day, so the posterior mean at a new attempt is a sum of one number per key: exact,
without the attempts themselves.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Rows
from leap.predictor.history.hash_index import Keys, gather
from leap.predictor.history.snapshot import Hashes
from leap.predictor.models.structured.kernel import Arrays

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


@dataclass(frozen=True)
class FamilyEffects:
    """Posterior of all families.

    Attributes
    ----------
    hashes
        Per term, (keys,) sorted hashes.
    weights
        Per term, (keys, 2) float32: sum of the dual coefficients of the key's attempts, and how many days they span.
    fading
        (families, 2) float32 aligned with ``hashes[0]``: decayed sum of the coefficients at the family's latest day,
        and that day since the epoch.
    """

    variances: FamilyVarianceComponents
    hashes: tuple[Hashes, ...]
    weights: tuple[NDArray[np.float32], ...]
    fading: NDArray[np.float32]

    def at(self, rows: Rows, keys: Keys) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """(n,) mean and variance of what the family adds to the prior, and whether the family has any attempt.

        Without one the mean is 0. `keys` are those of the rows.

        The variance is that of one term after another, each told apart by its own number of days and the others
        taken for noise: above that of the whole process, which no sum of one number a key can give.
        """
        count = len(rows["day"])
        mean, variance, known = np.zeros(count), np.zeros(count), np.zeros(count, dtype=bool)
        rest = self.variances.total + self.variances.noise
        for term, (names, prior) in enumerate(zip(KEYS, self.variances.terms, strict=True)):
            weight, days = gather(self.hashes[term], self.weights[term], keys.of(names), 0.0).T
            mean += prior * weight
            rest -= prior
            variance += prior / (1.0 + days * prior / rest)
            if term == 0:
                known = days > 0
                decayed, latest = gather(self.hashes[term], self.fading, keys.of(names), 0.0).T
                kept = np.exp(-np.maximum(np.asarray(rows["day"], dtype=float) - latest, 0.0) / FADING_DAYS)
                mean += self.variances.fading * kept * decayed
                share = np.where(known, np.square(kept), 0.0) / (1.0 + self.variances.noise / self.variances.fading)
                variance += self.variances.fading * (1.0 - share)
        return mean, variance, known

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects."""
        stored: dict[str, NDArray[Any]] = {"fading": self.fading}
        stored["variances"] = np.array(
            [getattr(self.variances, field.name) for field in fields(FamilyVarianceComponents)]
        )
        for term in range(len(KEYS)):
            stored |= {f"hashes.{term}": self.hashes[term], f"weights.{term}": self.weights[term]}
        return stored

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "FamilyEffects":
        """The process that `arrays` describes."""
        terms = range(len(KEYS))
        return cls(
            FamilyVarianceComponents(*(float(value) for value in stored["variances"])),
            tuple(stored[f"hashes.{term}"] for term in terms),
            tuple(stored[f"weights.{term}"] for term in terms),
            stored["fading"],
        )
