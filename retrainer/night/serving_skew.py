"""Served against recomputed: the history features that a launch saw, and those that the nightly run recomputes."""

import msgspec
import numpy as np

from leap.predictor.features import history
from leap.predictor.features.batch import Floats
from leap.predictor.features.history import FEATURES, KINDS, PER_KIND
from leap.retrainer.dataset.feature_table import ASKED, SERVED
from leap.retrainer.dataset.training_set import TrainingSet

#: Relative difference that is a skew; served values are float32.
TOLERANCE = 1e-4
#: Observations without which a value is imputed.
LEAST_OBSERVATIONS = {"count": 0, "cold": 0, "deviation": 2}


class Skew(msgspec.Struct, frozen=True):
    """One feature.

    Attributes
    ----------
    n
        Attempts with a served value.
    differing
        Share of them, in percent, whose recomputed value is another.
    mean, recomputed
        Mean of the served and of the recomputed values.
    """

    n: int
    differing: float
    mean: float
    recomputed: float


def skew(attempts: TrainingSet) -> dict[str, Skew]:
    """Skew of each history feature over attempts; of a feature that was never served there is none.

    What stands for a missing mean or deviation is the artifact's affair: there only counts and flags are compared.
    An attempt that ran in another shape than it asked for was served the history for that one, and is left out.
    """
    again = history.features(attempts.pairs.history, attempts.pairs.jobs.submitted_at, history.Imputation())
    served = attempts.table[list(SERVED)].to_numpy(dtype=np.float64)
    as_asked = attempts.table[ASKED[0]].isna().to_numpy()
    skews = {}
    for kind in KINDS:
        count = FEATURES.index(f"{kind}_count")
        observations = np.minimum(served[:, count], again[:, count])
        for part in PER_KIND:
            name = f"{kind}_{part}"
            column = FEATURES.index(name)
            compared = as_asked & ~np.isnan(served[:, column]) & (observations >= LEAST_OBSERVATIONS.get(part, 1))
            if compared.any():
                skews[name] = _compared(served[compared, column], again[compared, column])
    return skews


def _compared(served: Floats, again: Floats) -> Skew:
    apart = np.abs(served - again) > TOLERANCE * np.maximum(1.0, np.abs(again))
    return Skew(
        n=len(served),
        differing=round(100.0 * float(apart.mean()), 2),
        mean=round(float(served.mean()), 4),
        recomputed=round(float(again.mean()), 4),
    )
