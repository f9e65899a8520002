"""``leap explain``: why an attempt got its preference list, from the events of the topics."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json
from leap.predictor.cli.terminal import printable
from leap.schemas.codec import Rejected, decode
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted, PreferenceList
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.streams.runtime.settings import Settings

E = TypeVar("E", JobSubmitted, JobAllocated, JobCompleted, PreferenceList)
LATE = "Too late: decided when the attempt had its hardware, perhaps by an artifact that has learned from it."


def explain(
    attempt: Annotated[str, typer.Argument(help="Its id.")],
    days: Annotated[float, typer.Option(min=0.01, help="How far back to look.")] = 7.0,
    as_json: Json = False,
) -> None:
    """Say why an attempt got its preference list, and what became of it.

    Example:
      leap explain attempt-17 --days 2
    """
    from leap.predictor.routing.explain import explain as in_words
    from leap.schemas.hardware import load_catalog
    from leap.streams.joining.attempt import event_time, in_time

    settings = read_settings()
    since = datetime.now(UTC) - timedelta(days=days)
    submission = next(_events(settings, SUBMITTED, JobSubmitted, attempt, since), None)
    answers = list(_events(settings, PREFERENCES, PreferenceList, attempt, since))
    allocated = max(_events(settings, ALLOCATED, JobAllocated, attempt, since), key=event_time, default=None)
    completed = max(_events(settings, COMPLETED, JobCompleted, attempt, since), key=event_time, default=None)
    if submission is None or not answers:
        missing = "submission" if submission is None else "preference list"
        raise fail(f"no {missing} of {attempt} in the last {days:g} days; look further back with --days")
    if as_json:
        told = {"submitted": submission, "lists": answers, "allocated": allocated, "completed": completed}
        print(msgspec.json.encode(told).decode())
        return
    catalog = load_catalog(settings.catalog)
    allocated_at = allocated.allocated_at.timestamp() if allocated else None
    started_at = completed.started_at.timestamp() if completed else None
    for answer in answers:  # more than one where a worker died between answering and committing
        if not in_time(answer.decided_at.timestamp(), allocated_at, started_at):
            print(LATE)
        print(printable(in_words(answer, submission, catalog, completed, settings.premium_efficiency)))


def _events(settings: "Settings", topic: str, kind: type[E], attempt: str, since: datetime) -> Iterator[E]:
    """Events of one attempt; of all others only the bytes are looked at."""
    from leap.streams.kafka.range_reader import read_range

    for message in read_range(settings, settings.topic(topic), since):
        if attempt.encode() in (message.value or b""):
            try:
                event = decode(message.value, kind)
            except Rejected:
                continue
            if event.attempt_id == attempt:
                yield event
