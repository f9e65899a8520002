"""Features of what has been measured before, as known at launch.

Three keys are looked up: the job's family (the paper's five features), the family on that hardware type,
and the model type. What is not in the snapshot gets an explicit imputed value and a flag, never zero.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.features.spec import Described

#: What a snapshot keeps of a key, in the order of its columns. `last_day` is in days since the epoch.
STATISTICS: tuple[str, ...] = ("count", "mean", "deviation", "last", "last_day")
#: The three keys, in the order in which they are looked up.
KINDS: tuple[str, ...] = ("family", "family_hardware", "model_type")
_LOG = "ln samples/s"
#: What is told of each key. The running statistics are those of ln throughput over the attempts that had finished at
#: the end of the day before; of a key that was never seen there is no NaN but what `broader` or a constant says.
PER_KIND: dict[str, Described] = {
    "last": Described("ln throughput of the attempt that finished last; of a cold key the mean of the broader", _LOG),
    "mean": Described("running mean of ln throughput; of a cold key that of the broader", _LOG),
    "deviation": Described(
        "its running standard deviation; of a cold key, or of one attempt, that of the window", _LOG
    ),
    "count": Described("finished attempts; 0 of a cold key"),
    "age_days": Described("days from the last of them to the submission; 365 of a cold key", "days"),
    "cold": Described("1 if the key was never seen, else 0"),
}
TABLE: dict[str, Described] = {f"{kind}_{name}": told for kind in KINDS for name, told in PER_KIND.items()}
FEATURES: tuple[str, ...] = tuple(TABLE)

#: Age given to a key that was never seen: older than any retention keeps.
IMPUTED_AGE_DAYS = 365.0
SECONDS_PER_DAY = 86_400.0

Statistics = NDArray[np.float32]


@dataclass(frozen=True)
class Imputation:
    """What stands for a key that is not in the snapshot: mean and deviation of ln throughput over all."""

    mean: float = 0.0
    deviation: float = 1.0


def features(history: dict[str, Statistics], submitted_at: Floats, imputed: Imputation) -> Floats:
    """(rows, len(FEATURES)) values.

    Parameters
    ----------
    history
        Kind to (rows, 5) statistics in the order of `STATISTICS`; a row of NaN is a key without history.
    submitted_at
        (rows,) seconds since the epoch: recency is the only value that is computed at launch.
    """
    values = np.empty((len(KINDS), len(PER_KIND), len(submitted_at)))
    values[:, _OF_STATISTICS] = np.array([history[kind] for kind in KINDS]).transpose(0, 2, 1)
    cold = np.isnan(values[:, 3])
    values[:, 4] = np.maximum(submitted_at / SECONDS_PER_DAY - values[:, 4], 0.0)
    values[:, 5] = cold
    expected: Floats | float = imputed.mean
    for kind in _BROADEST_FIRST:  # the broader key's mean stands for a cold one
        np.copyto(values[kind, :2], expected, where=cold[kind])
        expected = values[kind, 1]
    np.copyto(values[:, 2], imputed.deviation, where=np.isnan(values[:, 2]))
    np.copyto(values[:, 3], 0.0, where=cold)
    np.copyto(values[:, 4], IMPUTED_AGE_DAYS, where=cold)
    return values.reshape(len(FEATURES), -1).T


def pooled(plain: Statistics, per_accelerator: Statistics, accelerators: Floats) -> Statistics:
    """(n, 5) statistics of the attempts of both, merged as :func:`leap.predictor.history.welford.merge` does.

    Parameters
    ----------
    plain, per_accelerator
        (n, 5) of ln throughput, and of ln throughput per accelerator; a row of NaN is no history.
    accelerators
        (n,) with which the latter are those of a whole attempt: throughput is taken as proportional to them.
    """
    rows = np.flatnonzero(~np.isnan(per_accelerator[:, 0]))
    if not len(rows):
        return plain
    shift = np.log(accelerators[rows])
    n_a, mean_a, deviation_a, last_a, day_a = plain[rows].astype(np.float64).T
    n_b, mean_b, deviation_b, last_b, day_b = per_accelerator[rows].astype(np.float64).T
    mean_b, last_b = mean_b + shift, last_b + shift
    alone, n = np.isnan(n_a), n_a + n_b
    difference = mean_b - mean_a
    m2 = np.nan_to_num(deviation_a) ** 2 * (n_a - 1) + np.nan_to_num(deviation_b) ** 2 * (n_b - 1)
    m2 += difference**2 * n_a * n_b / n
    later = (day_a > day_b) | ((day_a == day_b) & (last_a > last_b))
    both = (
        n,
        mean_a + difference * n_b / n,
        np.sqrt(m2 / (n - 1)),
        np.where(later, last_a, last_b),
        np.fmax(day_a, day_b),
    )
    merged = plain.copy()
    merged[rows] = np.where(alone, (n_b, mean_b, deviation_b, last_b, day_b), both).T
    return merged


#: Place of each of `STATISTICS` in `PER_KIND`; the day of the last has that of its age.
_OF_STATISTICS = np.array([list(PER_KIND).index(name) for name in ("count", "mean", "deviation", "last", "age_days")])
_BROADEST_FIRST = tuple(KINDS.index(kind) for kind in ("model_type", "family", "family_hardware"))
