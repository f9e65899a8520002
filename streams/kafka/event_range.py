"""Submissions of a time range as they stand in the topic, and how their attempts ended: what a replay reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from leap.schemas.codec import Rejected, decode
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted, JobSubmitted
from leap.schemas.topics import COMPLETED, SUBMITTED
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings

#: A message carries the time at which it was sent, which is after what it tells of but for clocks that differ.
CLOCKS_DIFFER = timedelta(hours=1)

#: Source (topic id/partition) to the offset of the last message that was taken from it.
Positions = Mapping[str, int]
NOWHERE: Positions = {}


@dataclass(frozen=True)
class Batch:
    """Submissions, and where the topic has been read to with them.

    Attributes
    ----------
    rejected
        Messages among those read that are no submission.
    positions
        Of all batches up to this one.
    """

    submissions: list[JobSubmitted]
    rejected: int
    positions: Positions


def submitted(
    settings: Settings, start: datetime, end: datetime, size: int, after: Positions = NOWHERE
) -> Iterator[Batch]:
    """Submissions made in [start, end), whenever they were sent, each partition in order.

    Their own time decides; that of their messages only says where to begin to read. So late ones are in, and
    those of a backfill, which are sent long after.

    Parameters
    ----------
    size
        Largest number of submissions in a batch; only the last is smaller.
    after
        Positions of an earlier call that was interrupted, to go on from there.

    Raises
    ------
    TopicError
        If the topic does not exist.
    TimeoutError
        If nothing comes for 30 s before the end.
    """
    positions = dict(after)
    submissions: list[JobSubmitted] = []
    rejected = 0
    for message in read_range(settings, settings.topic(SUBMITTED), start - CLOCKS_DIFFER):
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
    """How an attempt ended: `measured` is samples/s, NaN where it failed or has none."""

    hardware_type: str
    finished_at: datetime
    measured: float
    accelerator_hours: float


def ended(settings: Settings, start: datetime) -> dict[str, Ended]:
    """Attempt id to how it ended, of attempts that finished since `start`; of two completions the later counts.

    Takes 300 bytes an attempt (measured).
    """
    outcomes: dict[str, Ended] = {}
    for message in read_range(settings, settings.topic(COMPLETED), start - CLOCKS_DIFFER):
        try:
            event = decode(message.value, JobCompleted)
        except Rejected:
            continue
        known = outcomes.get(event.attempt_id)
        if event.finished_at >= start and (known is None or known.finished_at <= event.finished_at):
            outcomes[event.attempt_id] = _ended(event)
    return outcomes


def _ended(event: JobCompleted) -> Ended:
    measured = event.measurements.get(THROUGHPUT, 0.0) if event.status == SUCCEEDED else 0.0
    hours = event.accelerator_hours
    return Ended(
        hardware_type=event.hardware_type,
        finished_at=event.finished_at,
        measured=measured if measured > 0 else float("nan"),
        accelerator_hours=float("nan") if hours is None else hours,
    )
