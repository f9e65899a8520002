"""Scores of predictions against measured throughput, and the lookup table that every report is held to."""

from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats

#: Key of the lookup table: the median of what was measured under it answers.
LOOKUP_KEY: tuple[str, ...] = ("model_type", "num_trainers", "batch_size", "hardware_type")


class Scores(msgspec.Struct, frozen=True):
    """Scores pooled over attempts, in percent but for `n` and `ratio`.

    Attributes
    ----------
    n
        Attempts scored.
    w20, w10, w5
        Share of attempts with |predicted / measured - 1| within 20, 10, 5%.
    mdape
        Median of |predicted / measured - 1|.
    ratio
        Median of predicted / measured.
    coverage
        Share of all attempts that got a prediction.
    """

    n: int
    w20: float
    w10: float
    w5: float
    mdape: float
    ratio: float
    coverage: float = 100.0


def scores(predicted: Floats, measured: Floats) -> Scores | None:
    """Score (n,) predictions in samples/s; one that is NaN is not covered and not scored. None if none is left.

    >>> scores(np.array([100.0, 118.0, np.nan, 150.0]), np.array([100.0, 100.0, 100.0, 100.0]))
    Scores(n=3, w20=66.7, w10=33.3, w5=33.3, mdape=18.0, ratio=1.18, coverage=75.0)
    """
    covered = ~np.isnan(predicted)
    if not covered.any():
        return None
    ratio = predicted[covered] / measured[covered]
    error = np.abs(ratio - 1.0)
    w20, w10, w5 = (round(100.0 * float(np.mean(error <= limit)), 1) for limit in (0.20, 0.10, 0.05))
    return Scores(
        n=int(covered.sum()),
        w20=w20,
        w10=w10,
        w5=w5,
        mdape=round(100.0 * float(np.median(error)), 1),
        ratio=round(float(np.median(ratio)), 3),
        coverage=round(100.0 * float(np.mean(covered)), 1),
    )


@dataclass(frozen=True)
class LookupTable:
    """The baseline: median measured throughput per `LOOKUP_KEY` in a training window."""

    medians: pd.Series

    @classmethod
    def learn(cls, rows: pd.DataFrame, measured: NDArray[np.float64]) -> "LookupTable":
        """Medians of a window, one row an attempt."""
        keyed = rows[list(LOOKUP_KEY)].assign(measured=measured)
        return cls(keyed.groupby(list(LOOKUP_KEY), dropna=False)["measured"].median())

    def predict(self, rows: pd.DataFrame) -> Floats:
        """(n,) samples/s; NaN where the table has no such key."""
        keys = pd.MultiIndex.from_frame(rows[list(LOOKUP_KEY)])
        return self.medians.reindex(keys).to_numpy(dtype=np.float64)
