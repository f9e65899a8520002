"""Compare the statistics in the store with what the feature table says they should be."""

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from predictor.statistics import Statistics, of
from schemas.codec import MAX_DECODED_BYTES, Rejected, decode
from schemas.events import SUCCEEDED, JobAttempt
from schemas.topics import ATTEMPTS
from streams.history import keys
from streams.history_store import HistoryStore
from streams.observations import Key
from streams.ranges import read_range
from streams.settings import Settings

#: Relative; of means and deviations that were summed in another order.
TOLERANCE = 1e-9

Row = tuple[Key, float, float]


@dataclass(frozen=True)
class Difference:
    """A statistic that is not what it should be; None where there is none at all."""

    key: Key
    stored: Statistics | None
    expected: Statistics | None


@dataclass
class Audit:
    """What was compared, and what differs."""

    compared: int = 0
    differences: list[Difference] = field(default_factory=list)


def audit(store: HistoryStore, target: str, rows: Iterable[Row]) -> Audit:
    """Recompute every statistic and compare.

    Parameters
    ----------
    rows
        Key, value (natural logarithm of the measurement) and event time of every attempt, each attempt once.
    """
    values: dict[Key, tuple[array[float], array[float]]] = {}
    for key, value, at in rows:
        if key not in values:
            values[key] = array("d"), array("d")
        values[key][0].append(value)
        values[key][1].append(at)
    done = Audit()
    for bucket in store.buckets(target):
        for key, stored in bucket.statistics.items():
            expected = of(*values.pop(key)) if key in values else None
            done.compared += 1
            if expected is None or not _same(stored, expected):
                done.differences.append(Difference(key, stored, expected))
    done.compared += len(values)
    done.differences += [Difference(key, None, of(*pair)) for key, pair in values.items()]
    return done


def attempts(settings: Settings, target: str) -> Iterator[Row]:
    """Rows of the feature table's log, the topic of joined attempts; of an attempt that came twice, the first."""
    seen: set[str] = set()
    for message in read_range(settings, settings.topic(ATTEMPTS)):
        try:
            completed = decode(message.value, JobAttempt, MAX_DECODED_BYTES).completed
        except Rejected:
            continue
        measured = completed.measurements.get(target, 0.0)
        if completed.status != SUCCEEDED or measured <= 0.0 or completed.attempt_id in seen:
            continue
        seen.add(completed.attempt_id)
        for key in keys(completed):
            yield key, math.log(measured), completed.finished_at.timestamp()


def _same(stored: Statistics, expected: Statistics) -> bool:
    def close(a: float, b: float) -> bool:
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)

    return (
        (stored.n, stored.last, stored.last_at) == (expected.n, expected.last, expected.last_at)
        and close(stored.mean, expected.mean)
        and (stored.n < 2 or close(stored.deviation, expected.deviation))
    )
