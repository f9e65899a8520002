"""The live monitor's state: the attempts of the last day, joined by attempt id, and their figures.

In memory, without I/O. Merging is idempotent and independent of the order of lists, allocations and completions: of
two versions of a part the event time decides, as in the attempt joiner.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.schemas.events import JobCompleted
from leap.streams.monitor.attempt import Attempt, Part, merge, time_of
from leap.streams.monitor.skew import Finished

DAY_S = 86_400.0
HOUR_S = 3600.0
#: How long a list is kept for its completion; an attempt that runs longer counts as one without a list.
WAIT_S = 7 * DAY_S
#: Maximum number of attempts, beyond which the oldest tenth is dropped: four days of the published fleet, although most
#: are dropped a day after they end. 2.2 kB each with 8 candidates (measured).
MAX_ATTEMPTS = 100_000
#: Events further in the future come from a wrong clock, and must not move the window.
FUTURE_S = HOUR_S
ROWS = 15


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the last day; shares in percent, None without data.

    Attributes
    ----------
    until
        Time of the newest event, seconds since 1970: the end of the day.
    lists, no_opinion
        Number of preference lists, and number of empty ones by reason.
    ranked
        Share of lists that rank at least one hardware type.
    finished
        Number of finished attempts, whatever their status.
    attempts_ranked, hours_ranked
        Share of finished attempts, and of their accelerator-hours, with a non-empty list decided in time.
    first_choice
        Share of placed attempts with a non-empty list that got the hardware type ranked first.
    accuracy
        Accuracy of finished attempts with a prediction and a measurement.
    scored, coverage, interval
        Number of those, their share of the attempts with a measurement, and the share within the interval.
    compared, skew
        Lists whose family had finished an attempt long enough before, and the share of them with a stale history.
    hourly
        Hours before `until`, oldest first, and w20 of the attempts that finished in each.
    model_types, hardware_types
        Name, scored attempts, w20; most frequent first.
    """

    until: float
    lists: int
    no_opinion: dict[str, int]
    ranked: float | None
    finished: int
    attempts_ranked: float | None
    hours_ranked: float | None
    first_choice: float | None
    accuracy: Accuracy | None
    scored: int
    coverage: float | None
    interval: float | None
    compared: int
    skew: float | None
    hourly: tuple[tuple[int, float], ...]
    model_types: tuple[tuple[str, int, float], ...]
    hardware_types: tuple[tuple[str, int, float], ...]


class Monitor:
    """Collects parts of attempts, and computes the figures of the last day.

    Parameters
    ----------
    clock
        Seconds since 1970.
    window_s
        Length of what is the day here.
    """

    def __init__(self, clock: Callable[[], float] = time.time, window_s: float = DAY_S) -> None:
        self._clock = clock
        self._window_s = window_s
        self._attempts: dict[str, Attempt] = {}
        self._finished = Finished()
        self._newest = -math.inf

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, event: Part) -> None:
        """Add a part; one older than the window, or in the future, is ignored."""
        event_time = time_of(event)
        if event_time > self._clock() + FUTURE_S or event_time < self._newest - WAIT_S:
            return
        if isinstance(event, JobCompleted):
            self._finished.add(event, event_time)
            if event_time < self._newest - self._window_s:
                return
        self._newest = max(self._newest, event_time)
        attempt = self._attempts.setdefault(event.attempt_id, Attempt())
        merge(attempt, event, event_time)
        if len(self._attempts) > MAX_ATTEMPTS:
            # Oldest by event time: a week read topic by topic would otherwise evict the lists of today.
            for name in sorted(self._attempts, key=lambda name: self._attempts[name].latest)[: MAX_ATTEMPTS // 10 or 1]:
                del self._attempts[name]

    def figures(self) -> Figures:
        """Figures of the day that ends with the newest event; older attempts are dropped."""
        self._forget()
        since = self._newest - self._window_s
        attempts = list(self._attempts.values())
        listed = [attempt for attempt in attempts if attempt.listed and attempt.decided_at > since]
        finished = [attempt for attempt in attempts if attempt.finished]
        placed = [attempt for attempt in attempts if attempt.choice and (attempt.allocated or attempt.ran_on)]
        measured = [attempt for attempt in finished if attempt.measured > 0]
        scored = [attempt for attempt in measured if attempt.bounds[0] > 0]
        bounded = [attempt for attempt in scored if attempt.bounds[1] > 0]
        compared, wrong = self._finished.skew(
            attempt.served for attempt in listed if attempt.served and attempt.in_time
        )
        return Figures(
            until=self._newest if attempts else 0.0,
            lists=len(listed),
            no_opinion=dict(Counter(attempt.outcome for attempt in listed if attempt.outcome)),
            ranked=_share(not attempt.outcome for attempt in listed),
            finished=len(finished),
            attempts_ranked=_share(bool(attempt.choice) for attempt in finished),
            hours_ranked=_weighed((bool(attempt.choice), attempt.hours) for attempt in finished),
            first_choice=_share((attempt.allocated or attempt.ran_on) == attempt.first for attempt in placed),
            accuracy=_accuracy(scored),
            scored=len(scored),
            coverage=_share(attempt.bounds[0] > 0 for attempt in measured),
            interval=_share(attempt.bounds[1] <= attempt.measured <= attempt.bounds[2] for attempt in bounded),
            compared=compared,
            skew=round(100.0 * wrong / compared, 2) if compared else None,
            hourly=_hourly(scored, self._newest),
            model_types=_by(scored, [attempt.model_type for attempt in scored]),
            hardware_types=_by(scored, [attempt.ran_on for attempt in scored]),
        )

    def _forget(self) -> None:
        day, wait = self._newest - self._window_s, self._newest - WAIT_S
        self._finished.forget(wait)
        self._attempts = {
            name: attempt
            for name, attempt in self._attempts.items()
            if attempt.latest >= (day if attempt.finished else wait)
        }


def _share(flags: Iterable[bool]) -> float | None:
    return _weighed((flag, 1.0) for flag in flags)


def _weighed(flags: Iterable[tuple[bool, float]]) -> float | None:
    weights = np.array([(flag * weight, weight) for flag, weight in flags]).reshape(-1, 2).sum(axis=0)
    return round(100.0 * float(weights[0] / weights[1]), 2) if weights[1] > 0 else None


def _accuracy(scored: list[Attempt]) -> Accuracy | None:
    pairs = [(attempt.bounds[0], attempt.measured) for attempt in scored]
    predicted, measured = np.array(pairs).reshape(-1, 2).T
    return accuracy(predicted, measured)


def _w20(scored: list[Attempt]) -> float:
    scores = _accuracy(scored)
    return scores.w20 if scores else math.nan


def _by(scored: list[Attempt], names: list[str]) -> tuple[tuple[str, int, float], ...]:
    groups: dict[str, list[Attempt]] = {}
    for name, attempt in zip(names, scored, strict=True):
        groups.setdefault(name, []).append(attempt)
    most = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:ROWS]
    return tuple((name, len(group), _w20(group)) for name, group in most)


def _hourly(scored: list[Attempt], newest: float) -> tuple[tuple[int, float], ...]:
    groups: dict[int, list[Attempt]] = {}
    for attempt in scored:
        groups.setdefault(int((newest - attempt.finished_at) // HOUR_S), []).append(attempt)
    return tuple((hour, _w20(groups[hour])) for hour in sorted(groups, reverse=True))
