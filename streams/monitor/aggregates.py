"""What the live monitor knows: the attempts of the last day, joined by attempt id, and their figures.

Pure and in memory. A message that comes again changes nothing, in whatever order lists, allocations and
completions come: of two versions of one part the time in it decides, as in the attempt joiner.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobAllocated, JobCompleted, PreferenceList
from leap.streams.joining.attempt import in_time
from leap.streams.monitor.skew import Finished, Served, served

DAY_S = 86_400.0
HOUR_S = 3600.0
#: How long a list waits for its completion; an attempt that runs longer counts as one without a list.
WAIT_S = 7 * DAY_S
#: Attempts kept, beyond which the oldest tenth goes: those that the published fleet submits in four days, most of
#: which are forgotten a day after they end. 2.2 kB each with 8 candidates (measured).
MOST = 100_000
#: A time so far in the future is a clock that is wrong, and must not end the window of all the others.
FUTURE_S = HOUR_S
ROWS = 15

Part = PreferenceList | JobAllocated | JobCompleted
Bounds = tuple[float, float, float]  # predicted samples/s and its interval; NaN where there is none


@dataclass(slots=True)
class _Attempt:
    decided_at: float = math.inf
    outcome: str = ""
    model_type: str = ""
    first: str = ""
    served: Served | None = None
    predicted: dict[str, Bounds] = field(default_factory=dict)
    allocated_at: float = -math.inf
    allocated: str = ""
    started_at: float = math.inf
    finished_at: float = -math.inf
    ran_on: str = ""
    measured: float = math.nan
    hours: float = 0.0

    @property
    def finished(self) -> bool:
        return self.finished_at > -math.inf

    @property
    def listed(self) -> bool:
        return self.decided_at < math.inf

    @property
    def latest(self) -> float:
        return self.finished_at if self.finished else max(self.allocated_at, _at(self.decided_at))

    @property
    def in_time(self) -> bool:
        return in_time(self.decided_at, self.allocated_at if self.allocated else None, self.started_at)

    @property
    def choice(self) -> str:
        return self.first if self.in_time else ""

    @property
    def bounds(self) -> Bounds:
        unknown = (math.nan, math.nan, math.nan)
        return self.predicted.get(self.ran_on, unknown) if self.in_time else unknown


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The last day in figures; shares are in percent, None where there is nothing to take them of.

    Attributes
    ----------
    until
        Time of the newest event, seconds since 1970; the day ends here.
    lists, no_opinion
        Preference lists decided, and of the empty ones how many by reason.
    ranked
        Share of those lists that rank something.
    finished
        Attempts that ended, whatever their status.
    attempts_ranked, hours_ranked
        Share of the finished attempts, and of their accelerator-hours, whose list ranked something before they began.
    first_choice
        Share of the attempts with a ranked list and a place that got the hardware type ranked first.
    accuracy
        Predicted against measured, of the finished attempts that have both.
    scored, coverage, interval
        How many those are, their share of the attempts with a measurement, and the share within the interval.
    compared, skew
        Lists whose family is known to have finished an attempt long enough before, and the share of them that were
        served another history.
    hourly
        Hours before `until`, oldest first, and w20 of what finished in each.
    model_types, hardware_types
        Most frequent first: name, scored attempts, w20.
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
    """Takes parts of attempts, gives the figures of the last day.

    Parameters
    ----------
    clock
        Seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._attempts: dict[str, _Attempt] = {}
        self._finished = Finished()
        self._newest = -math.inf

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, event: Part) -> None:
        """Take one part; one that is older than the window, or lies in the future, is passed over."""
        event_time = _time(event)
        if event_time > self._clock() + FUTURE_S or event_time < self._newest - WAIT_S:
            return
        if isinstance(event, JobCompleted):
            self._finished.add(event, event_time)
            if event_time < self._newest - DAY_S:
                return
        self._newest = max(self._newest, event_time)
        attempt = self._attempts.setdefault(event.attempt_id, _Attempt())
        _merge(attempt, event, event_time)
        if len(self._attempts) > MOST:
            # The oldest by their own time: a week read topic by topic would else push out the lists of today.
            for name in sorted(self._attempts, key=lambda name: self._attempts[name].latest)[: MOST // 10 or 1]:
                del self._attempts[name]

    def figures(self) -> Figures:
        """The figures of the day that ends with the newest event; what is older is forgotten."""
        self._forget()
        since = self._newest - DAY_S
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
        day, wait = self._newest - DAY_S, self._newest - WAIT_S
        self._finished.forget(wait)
        self._attempts = {
            name: attempt
            for name, attempt in self._attempts.items()
            if attempt.latest >= (day if attempt.finished else wait)
        }


def _time(event: Part) -> float:
    match event:
        case PreferenceList():
            return event.decided_at.timestamp()
        case JobAllocated():
            return event.allocated_at.timestamp()
        case JobCompleted():
            return event.finished_at.timestamp()


def _merge(attempt: _Attempt, event: Part, event_time: float) -> None:
    """The earliest list, which is what was served; the latest allocation and completion, which correct others."""
    match event:
        case PreferenceList() if event_time < attempt.decided_at:
            attempt.decided_at = event_time
            attempt.outcome = "" if event.ranked else (event.no_opinion or "").partition(":")[0]
            attempt.model_type = event.model_type
            attempt.first = event.ranked[0].hardware_type if event.ranked else ""
            attempt.served = served(event, event_time)
            attempt.predicted = {
                candidate.hardware_type: (
                    candidate.throughput,
                    candidate.lower or math.nan,
                    candidate.upper or math.nan,
                )
                for candidate in event.ranked
            } | {
                candidate.hardware_type: (candidate.throughput, math.nan, math.nan)
                for candidate in event.excluded
                if candidate.throughput is not None
            }
        case JobAllocated() if event_time > attempt.allocated_at:
            attempt.allocated_at, attempt.allocated = event_time, event.hardware_type
        case JobCompleted() if event_time > attempt.finished_at:
            good = event.status == SUCCEEDED
            attempt.started_at, attempt.finished_at = event.started_at.timestamp(), event_time
            attempt.ran_on = event.hardware_type
            attempt.measured = event.measurements.get(THROUGHPUT, math.nan) if good else math.nan
            attempt.hours = event.accelerator_hours or 0.0


def _at(time: float) -> float:
    return time if time < math.inf else -math.inf


def _share(flags: Iterable[bool]) -> float | None:
    return _weighed((flag, 1.0) for flag in flags)


def _weighed(flags: Iterable[tuple[bool, float]]) -> float | None:
    weights = np.array([(flag * weight, weight) for flag, weight in flags]).reshape(-1, 2).sum(axis=0)
    return round(100.0 * float(weights[0] / weights[1]), 2) if weights[1] > 0 else None


def _accuracy(scored: list[_Attempt]) -> Accuracy | None:
    if not scored:
        return None
    predicted, measured = np.array([(attempt.bounds[0], attempt.measured) for attempt in scored]).T
    return accuracy(predicted, measured)


def _w20(scored: list[_Attempt]) -> float:
    scores = _accuracy(scored)
    return round(scores.w20, 1) if scores else math.nan


def _by(scored: list[_Attempt], names: list[str]) -> tuple[tuple[str, int, float], ...]:
    groups: dict[str, list[_Attempt]] = {}
    for name, attempt in zip(names, scored, strict=True):
        groups.setdefault(name, []).append(attempt)
    most = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:ROWS]
    return tuple((name, len(group), _w20(group)) for name, group in most)


def _hourly(scored: list[_Attempt], newest: float) -> tuple[tuple[int, float], ...]:
    groups: dict[int, list[_Attempt]] = {}
    for attempt in scored:
        groups.setdefault(int((newest - attempt.finished_at) // HOUR_S), []).append(attempt)
    return tuple((hour, _w20(groups[hour])) for hour in sorted(groups, reverse=True))
