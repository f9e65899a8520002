"""The recipes of trees in their serving form: boosted trees, or a cascade of experts that a classifier weighs."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.features.matrix import Matrix
from leap.predictor.models.arrays import Arrays, ArraySpec
from leap.predictor.models.trees.combination import softmax, weighted_mean, weighted_median
from leap.predictor.models.trees.forest import SPECS as FOREST
from leap.predictor.models.trees.forest import Forest


class Combination(StrEnum):
    """How targets make a prediction: there is one, or the first half are experts that the others weigh."""

    single = "single"
    mean = "mean"
    median = "median"


COMBINE: dict[Combination, Callable[[Floats, Floats], Floats]] = {
    Combination.mean: weighted_mean,
    Combination.median: weighted_median,
}

SPECS: dict[str, ArraySpec] = {"trees/combination": ArraySpec("U", ())}
SPECS |= {f"trees/{name}": spec for name, spec in FOREST.items()}


@dataclass(frozen=True)
class Trees:
    """A forest over the feature matrix, and how its targets are combined.

    Raises
    ------
    ValueError
        If the number of targets is none that the combination takes.
    """

    forest: Forest
    combination: Combination

    def __post_init__(self) -> None:
        targets = len(self.forest.trees)
        if targets != 1 if self.combination is Combination.single else not targets or targets % 2:
            raise ValueError(f"{targets} targets, which are none for the combination {self.combination}")

    def predict(self, rows: Matrix) -> Floats:
        """(rows,) ln throughput of float32 rows; missing values are NaN."""
        sums = self.forest.predict(rows)
        if self.combination is Combination.single:
            return sums[:, 0]
        experts, logits = np.hsplit(sums, 2)
        return COMBINE[self.combination](experts, softmax(logits))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, as `SPECS` says."""
        stored = {"combination": np.array(str(self.combination)), **self.forest.arrays()}
        return {f"trees/{name}": array for name, array in stored.items()}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Trees":
        """The trees that `arrays` describes."""
        arrays = {name.removeprefix("trees/"): array for name, array in stored.items()}
        return cls(Forest.from_arrays(arrays), Combination(str(arrays["combination"])))
