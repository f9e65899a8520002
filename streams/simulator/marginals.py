"""The published statistics of a fleet, computed from attempts."""

from dataclasses import dataclass

import msgspec
import numpy as np

from leap.predictor.models.accuracy import Accuracy, accuracy, within
from leap.streams.simulator import constants as c
from leap.streams.simulator.job_families import Bools
from leap.streams.simulator.model_types import Floats, Ints

WINDOW_DAYS = 30
SEEN_OFTEN = 10  # attempts per key needed for 10th and 90th percentiles


@dataclass(frozen=True)
class Attempts:
    """Finished attempts as columns, sorted by day. `hardware` and `model_type` are indices."""

    day: Ints
    model_type: Ints
    hardware: Ints
    trainers: Ints
    batch: Ints
    measured: Floats

    def take(self, rows: Bools) -> "Attempts":
        """Select attempts."""
        return Attempts(**{name: column[rows] for name, column in vars(self).items()})

    @property
    def key(self) -> Ints:
        """The lookup key (model type, trainers, batch size, hardware type) as one number."""
        return ((self.model_type * 4096 + self.trainers) * (1 << 20) + self.batch) * 512 + self.hardware


def tail_share(model_type: Ints, types: int) -> float:
    """Percent of attempts from the rarest 560 of 660 model types (scaled to `types`)."""
    count = np.sort(np.bincount(model_type, minlength=types))
    return float(100 * count[: round(types * 560 / 660)].sum() / count.sum())


def two_decades(measured: Floats) -> float:
    """Largest percentage of attempts within two decades of throughput."""
    logs = np.sort(np.log10(measured))
    inside = np.searchsorted(logs, logs + 2.0, side="right") - np.arange(len(logs))
    return float(100 * inside.max() / len(logs))


def percentile_ratio(measured: Floats) -> float:
    """95th to 5th percentile."""
    low, high = np.quantile(measured, (0.05, 0.95))
    return float(high / low)


def by_hardware(attempts: Attempts) -> dict[int, tuple[float, float]]:
    """Median and 95/5 ratio of each hardware type with at least 0.4% of the attempts."""
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


class FleetAccuracy(Accuracy, frozen=True, kw_only=True):
    """Accuracy with the share within 15%, which the published statistics name too."""

    w15: float


def fleet_accuracy(predicted: Floats, measured: Floats) -> FleetAccuracy:
    """Accuracy of (n,) predictions in samples/s, at least one."""
    scores = accuracy(predicted, measured)
    assert scores is not None
    w15 = round(100.0 * float(within(predicted, measured, 15).mean()), 1)
    return FleetAccuracy(**msgspec.structs.asdict(scores), w15=w15)


@dataclass(frozen=True)
class Table:
    """Evaluation of the lookup table on a window: coverage (percent), model types covered, accuracy."""

    coverage: float
    model_types: int
    accuracy: FleetAccuracy


def lookup_table(attempts: Attempts) -> Table:
    """Build the table of key means from one window, and evaluate it on the next.

    Keys with at least `TABLE_SHARE` of the window's attempts are included. People keep such tables for configurations
    that they see every hour, hence the low coverage; and many families with different code share a busy key, hence the
    low accuracy.
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
        raise ValueError(
            f"no lookup key makes {c.TABLE_SHARE:.2%} of {len(before.key)} attempts: the fleet is too small"
        )
    return Table(
        coverage=float(100 * covered.mean()),
        model_types=len(np.unique(now.model_type[covered])),
        accuracy=fleet_accuracy(mean[lookup[covered]], now.measured[covered]),
    )
