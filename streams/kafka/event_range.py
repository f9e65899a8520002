"""Input of a replay: the submissions of a time range, and the outcomes of their attempts."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from leap.predictor.history.ran_shape import allocated_late, shape_of
from leap.schemas.codec import Rejected, decode
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted, Shape
from leap.schemas.hardware import Catalog
from leap.schemas.resolution import resolved
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings

#: A message is sent after the event it reports, except for clock skew.
CLOCK_SKEW = timedelta(hours=1)

#: Source (topic id/partition) to the offset of the last message read from it.
Positions = Mapping[str, int]
FROM_START: Positions = {}


@dataclass(frozen=True)
class Batch:
    """Submissions, and the positions up to which the topic has been read.

    Attributes
    ----------
    rejected
        Number of messages read that are not valid submissions.
    positions
        Positions after this batch.
    """

    submissions: list[JobSubmitted]
    rejected: int
    positions: Positions


def submitted(
    settings: Settings, start: datetime, end: datetime, size: int, after: Positions = FROM_START
) -> Iterator[Batch]:
    """Submissions with `submitted_at` in [start, end), in order within each partition.

    Message timestamps only determine where reading starts, so late submissions and those of a backfill are included.

    Parameters
    ----------
    size
        Submissions per batch; only the last batch may be smaller.
    after
        Positions to resume from, of an interrupted call.

    Raises
    ------
    TopicError
        If the topic does not exist.
    BrokerError
        If none answers, or no message arrives for 30 s before the end.
    """
    positions = dict(after)
    submissions: list[JobSubmitted] = []
    rejected = 0
    for message in read_range(settings, settings.topic(SUBMITTED), start - CLOCK_SKEW):
        source = f"{message.topic_id}/{message.partition}"
        if message.offset <= after.get(source, -1):
            continue
        positions[source] = message.offset
        try:
            event = decode(message.value, JobSubmitted)
        except Rejected:
            rejected += 1
            continue
        if start <= event.submitted_at < end:
            submissions.append(event)
        if len(submissions) == size:
            yield Batch(submissions, rejected, dict(positions))
            submissions, rejected = [], 0
    yield Batch(submissions, rejected, positions)


@dataclass(frozen=True, slots=True)
class Ended:
    """Outcome of an attempt: `measured` is samples/s, NaN if it failed or has no measurement.

    `shape` and `allocated_late` are those of :mod:`leap.predictor.history.ran_shape`.
    """

    hardware_type: str
    finished_at: datetime
    measured: float
    accelerator_hours: float
    shape: Shape | None
    allocated_late: bool


def ended(settings: Settings, start: datetime, catalog: Catalog) -> dict[str, Ended]:
    """Attempt id to its outcome, for attempts finished since `start`; the later of two completions wins.

    Hardware types are named as in the catalog. Takes 500 bytes per attempt, and as much for its allocation while it
    reads (measured).
    """
    allocations: dict[str, JobAllocated] = {}
    for message in read_range(settings, settings.topic(ALLOCATED), start - CLOCK_SKEW):
        with suppress(Rejected):
            allocation = resolved(decode(message.value, JobAllocated), catalog)
            before = allocations.get(allocation.attempt_id, allocation)
            allocations[allocation.attempt_id] = max(before, allocation, key=lambda event: event.allocated_at)
    outcomes: dict[str, Ended] = {}
    for message in read_range(settings, settings.topic(COMPLETED), start - CLOCK_SKEW):
        try:
            event = resolved(decode(message.value, JobCompleted), catalog)
        except Rejected:
            continue
        known = outcomes.get(event.attempt_id)
        if event.finished_at >= start and (known is None or known.finished_at <= event.finished_at):
            outcomes[event.attempt_id] = _ended(event, allocations.get(event.attempt_id))
    return outcomes


def _ended(event: JobCompleted, allocated: JobAllocated | None) -> Ended:
    measured, hours = event.measured(), event.accelerator_hours
    return Ended(
        hardware_type=event.hardware_type,
        finished_at=event.finished_at,
        measured=float("nan") if measured is None else measured,
        accelerator_hours=float("nan") if hours is None else hours,
        shape=shape_of(allocated, event),
        allocated_late=allocated_late(allocated, event),
    )
