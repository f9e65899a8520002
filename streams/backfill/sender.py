"""Sends the events of past jobs, in order and at a chosen speed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from leap.schemas.backfill.mapping import Mapping
from leap.schemas.codec import encode
from leap.schemas.errors import LeapError
from leap.schemas.hardware import Catalog
from leap.schemas.resolution import resolved
from leap.streams.backfill.row_events import Job
from leap.streams.backfill.row_mapper import BadRow, RowMapper
from leap.streams.backfill.tally import Tally
from leap.streams.joining.attempt import event_time
from leap.streams.kafka.partition_key import JobEvent, address
from leap.streams.runtime.liveness import Partition
from leap.streams.runtime.settings import Settings
from leap.streams.tables.table_reader import open_table

if TYPE_CHECKING:  # a table is also read where there is no client of Kafka
    from leap.streams.kafka.clients import CheckedProducer

# Events between two flushes: the maximum number sent without an acknowledgement.
CHUNK = 10_000
SLEEP_S = 0.5
EVENTS_PER_ATTEMPT = 3

#: Maps an event and its index to the seconds after the first event at which it is due.
Pace = Callable[[int, JobEvent], float]


class Interrupted(LeapError, RuntimeError):
    """Not all events were sent and acknowledged; the message says how to resume."""


@dataclass
class Table:
    """Content of a table.

    Attributes
    ----------
    tally
        What is counted of its rows.
    jobs
        Attempts as events, one each: the last row where several have its id.
    bad
        Invalid rows.
    notes
        What was assumed of the file that it does not say itself.
    """

    tally: Tally = field(compare=False)
    jobs: list[Job] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def read_table(path: Path, mapping: Mapping, catalog: Catalog, *, keep: bool = True) -> Table:
    """Map a table, hardware types by their names in the catalog.

    Takes about 2 kB of memory per job, or 40 bytes where rows are not kept but only counted.

    Raises
    ------
    leap.schemas.backfill.mapping_files.MappingError
        If the mapping uses a column that the table does not have.
    leap.streams.tables.table.TableError
        If the file is not a table.
    """
    opened = open_table(path, mapping.table, mapping.columns)
    mapper = RowMapper(mapping, opened.columns, path.parent)
    tally = Tally(mapper.statuses)
    table = Table(tally, notes=opened.notes)
    jobs: dict[str, Job] = {}
    for tally.rows, row in enumerate(opened.rows(), 1):
        mapped = mapper.job(tally.rows, row)
        if mapped is None:
            tally.left_out += 1
        elif isinstance(mapped, BadRow):
            tally.add_bad(mapped)
            if keep:
                table.bad.append(mapped)
        else:
            submitted, allocated, completed = mapped
            job = resolved(submitted, catalog), resolved(allocated, catalog), resolved(completed, catalog)
            tally.add(job)
            if keep:
                jobs[submitted.attempt_id] = job
    table.jobs = list(jobs.values())
    return table


def pace(speed: str, events: Sequence[JobEvent]) -> Pace:
    """Due time of each event at a speed.

    Parameters
    ----------
    speed
        ``max``; attempts per second, as in ``500``; or a multiple of real time, as in ``60x``.
    events
        In time order.

    Raises
    ------
    ValueError
        If `speed` is not valid.
    """
    if speed == "max":
        return lambda position, event: 0.0
    try:
        rate = float(speed.removesuffix("x"))
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError(
            f"speed {speed!r}: expected max, attempts per second as in 500, or a multiple of real time as in 60x"
        )
    if not events or not speed.endswith("x"):
        return lambda position, event: position / (EVENTS_PER_ATTEMPT * rate)
    first = event_time(events[0])
    return lambda position, event: (event_time(event) - first).total_seconds() / rate


def send(
    settings: Settings,
    events: Sequence[JobEvent],
    due: Pace,
    *,
    skip: int = 0,
    on_sent: Callable[[int], None] = lambda count: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[Partition, int]:
    """Send events and wait for their acknowledgement.

    Message timestamps are the time of sending, not of the event, because retention is based on them and would delete
    old events immediately.

    Parameters
    ----------
    settings
        Where the broker is.
    events
        In time order.
    due
        Due time of each event.
    skip
        Number of events at the beginning to skip.
    told
        Called with the number of newly acknowledged events.
    clock, sleep
        Seconds on a monotonic clock, and sleep.

    Returns
    -------
    dict
        (topic on the broker, partition) to the offset after the last event that was sent to it.

    Raises
    ------
    Interrupted
        If the broker did not acknowledge all events, or the user interrupts.
    """
    from leap.streams.kafka.clients import CheckedProducer

    producer = CheckedProducer(settings)
    begun = clock()
    done = skip
    sent = skip
    try:
        for position in range(skip, len(events)):
            event = events[position]
            while (wait := begun + due(position, event) - due(skip, events[skip]) - clock()) > 0:
                done = _flush(producer, done, position, on_sent)
                sleep(min(wait, SLEEP_S))
            topic, key = address(event)
            producer.produce(settings.topic(topic), encode(event), key)
            sent = position + 1
            if sent - done == CHUNK:
                done = _flush(producer, done, sent, on_sent)
        _flush(producer, done, len(events), on_sent)
    except KeyboardInterrupt:
        done = _flush(producer, done, sent, on_sent)
        raise Interrupted(
            f"interrupted: {done} of {len(events)} events are delivered; run it again with --skip {done} to go on"
        ) from None
    return producer.ends


def _flush(producer: "CheckedProducer", done: int, sent: int, on_sent: Callable[[int], None]) -> int:
    from leap.streams.kafka.clients import DeliveryError

    if sent == done:
        return done
    try:
        producer.flush()
    except DeliveryError as error:
        raise Interrupted(
            f"{error}; the first {done} events are delivered: resume with --skip {done} once the broker is back"
        ) from error
    on_sent(sent - done)
    return sent
