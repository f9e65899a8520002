"""The published statistics of a fleet's attempts, as functions of their columns."""

from dataclasses import dataclass

import numpy as np

from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.streams.simulator import constants as c
from leap.streams.simulator.job_families import Bools
from leap.streams.simulator.model_types import Floats, Ints

WINDOW_DAYS = 30
SEEN_OFTEN = 10  # a 10th and a 90th percentile need as many attempts under a key


@dataclass(frozen=True)
class Attempts:
    """Finished attempts, one row each, days ascending. `hardware` and `model_type` are numbers from 0."""

    day: Ints
    model_type: Ints
    hardware: Ints
    trainers: Ints
    batch: Ints
    measured: Floats

    def take(self, rows: Bools) -> "Attempts":
        """The attempts at `rows`."""
        return Attempts(**{name: column[rows] for name, column in vars(self).items()})

    @property
    def key(self) -> Ints:
        """The lookup key (model type, trainers, batch size, hardware type) as one number."""
        return ((self.model_type * 4096 + self.trainers) * (1 << 20) + self.batch) * 512 + self.hardware


def tail_share(model_type: Ints, types: int) -> float:
    """Percent of the attempts that the rarest 560 of 660 model types make (as many of any other number)."""
    count = np.sort(np.bincount(model_type, minlength=types))
    return float(100 * count[: round(types * 560 / 660)].sum() / count.sum())


def two_decades(measured: Floats) -> float:
    """Percent of the attempts within the best-placed two decades of throughput."""
    logs = np.sort(np.log10(measured))
    inside = np.searchsorted(logs, logs + 2.0, side="right") - np.arange(len(logs))
    return float(100 * inside.max() / len(logs))


def percentile_ratio(measured: Floats) -> float:
    """95th to 5th percentile."""
    low, high = np.quantile(measured, (0.05, 0.95))
    return float(high / low)


def by_hardware(attempts: Attempts) -> dict[int, tuple[float, float]]:
    """Median and 95/5 ratio of each hardware type that makes at least 0.4% of the attempts."""
    statistics = {}
    for hardware in np.unique(attempts.hardware).tolist():
        measured = attempts.measured[attempts.hardware == hardware]
        if len(measured) >= 0.004 * len(attempts.measured):
            statistics[hardware] = (float(np.median(measured)), percentile_ratio(measured))
    return statistics


def wide_keys(attempts: Attempts) -> float:
    """Percent of the attempts of the last window under a lookup key whose 90th percentile is more than 1.5
    times its 10th, among those whose key has at least `SEEN_OFTEN` attempts."""
    last = attempts.take(attempts.day > attempts.day[-1] - WINDOW_DAYS)
    order = np.lexsort((last.measured, last.key))
    measured = last.measured[order]
    _, start, count = np.unique(last.key[order], return_index=True, return_counts=True)
    often = count >= SEEN_OFTEN
    start, count = start[often], count[often]

    def quantile(share: float) -> Floats:
        rank = start + share * (count - 1)
        below = rank.astype(np.int64)
        above = np.minimum(below + 1, start + count - 1)
        return np.asarray(measured[below] + (rank - below) * (measured[above] - measured[below]))

    return float(100 * count[quantile(0.9) > 1.5 * quantile(0.1)].sum() / count.sum())


@dataclass(frozen=True)
class Table:
    """The lookup table on the attempts of one window: how many it covers (percent), of how many types, how well."""

    coverage: float
    model_types: int
    accuracy: Accuracy


def lookup_table(attempts: Attempts) -> Table:
    """Write the table from one window, the mean of each busy key, and score it on the next.

    A key enters when it makes at least `TABLE_SHARE` of the window's attempts: people keep such a table for the
    configurations that they see every hour, which is why it covers so little; and under a busy key many families
    run, each with its own code, which is why it is wrong so often there.
    """
    last = int(attempts.day[-1])
    length = min(WINDOW_DAYS, (last - int(attempts.day[0]) + 1) // 2)
    now = attempts.take(attempts.day > last - length)
    before = attempts.take((attempts.day > last - 2 * length) & (attempts.day <= last - length))
    keys, key_index, count = np.unique(before.key, return_inverse=True, return_counts=True)
    mean = np.bincount(key_index, before.measured) / count
    entered = count >= c.TABLE_SHARE * len(before.key)
    lookup = np.minimum(np.searchsorted(keys, now.key), len(keys) - 1)
    covered = (keys[lookup] == now.key) & entered[lookup]
    if not covered.any():
        raise ValueError(f"no lookup key makes {c.TABLE_SHARE:.2%} of {len(before.key)} attempts: too small a fleet")
    return Table(
        coverage=float(100 * covered.mean()),
        model_types=len(np.unique(now.model_type[covered])),
        accuracy=accuracy(mean[lookup[covered]], now.measured[covered]),
    )
