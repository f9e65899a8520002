"""The lookup table that every report is held to."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats

#: Key of the lookup table: the median of what was measured under it answers.
LOOKUP_KEY: tuple[str, ...] = ("model_type", "num_trainers", "batch_size", "hardware_type")


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
