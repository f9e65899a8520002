"""One attempt in the live monitor, merged from its events in any order."""

import math
from dataclasses import dataclass, field

from leap.schemas.events import JobAllocated, JobCompleted, PreferenceList
from leap.streams.joining.attempt import in_time
from leap.streams.monitor.skew import Served, served

Part = PreferenceList | JobAllocated | JobCompleted
Bounds = tuple[float, float, float]  # predicted samples/s and its interval; NaN if unknown


@dataclass(slots=True)
class Attempt:
    """What is known of an attempt; times are seconds since 1970, and infinite while unknown."""

    decided_at: float = math.inf
    outcome: str = ""
    model_type: str = ""
    first: str = ""
    served: Served | None = None
    predicted: dict[str, Bounds] = field(default_factory=dict)
    allocated_at: float = -math.inf
    allocated: str = ""
    asked: int | None = None  # accelerators, as are these
    granted: int | None = None
    stated: int | None = None
    started_at: float = math.inf
    finished_at: float = -math.inf
    ran_on: str = ""
    measured: float = math.nan
    hours: float = 0.0

    @property
    def finished(self) -> bool:
        """Whether its completion has arrived."""
        return self.finished_at > -math.inf

    @property
    def listed(self) -> bool:
        """Whether its preference list has arrived."""
        return self.decided_at < math.inf

    @property
    def latest(self) -> float:
        """Time of its completion or, while it is running, of its latest event."""
        return (
            self.finished_at if self.finished else max(self.allocated_at, self.decided_at if self.listed else -math.inf)
        )

    @property
    def in_time(self) -> bool:
        """Whether the list was decided before the attempt began."""
        return in_time(self.decided_at, self.allocated_at if self.allocated else None, self.started_at)

    @property
    def choice(self) -> str:
        """First choice of the list; empty if there is none, or it was late."""
        return self.first if self.in_time else ""

    @property
    def bounds(self) -> Bounds:
        """Prediction and interval for the hardware that it ran on, if the list was in time and for as many of it."""
        unknown = (math.nan, math.nan, math.nan)
        granted = self.granted if self.allocated == self.ran_on else None
        ran = self.stated or granted or self.asked
        as_asked = self.asked is None or ran == self.asked
        return self.predicted.get(self.ran_on, unknown) if self.in_time and as_asked else unknown


def time_of(event: Part) -> float:
    """Event time, seconds since 1970."""
    match event:
        case PreferenceList():
            return event.decided_at.timestamp()
        case JobAllocated():
            return event.allocated_at.timestamp()
        case JobCompleted():
            return event.finished_at.timestamp()


def merge(attempt: Attempt, event: Part, event_time: float) -> None:
    """Merge a part: the earliest list wins, because it was served; the latest allocation and completion win."""
    match event:
        case PreferenceList() if event_time < attempt.decided_at:
            attempt.decided_at = event_time
            attempt.outcome = "" if event.ranked else (event.no_opinion or "").partition(":")[0]
            attempt.model_type, attempt.asked = event.model_type, event.accelerators
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
            attempt.granted = event.accelerators
        case JobCompleted() if event_time > attempt.finished_at:
            measured = event.measured()
            attempt.started_at, attempt.finished_at = event.started_at.timestamp(), event_time
            attempt.ran_on = event.hardware_type
            attempt.stated = event.shape.accelerators if event.shape else None
            attempt.measured = math.nan if measured is None else measured
            attempt.hours = event.accelerator_hours or 0.0
