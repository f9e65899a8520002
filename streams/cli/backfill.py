"""``leap backfill``: a table of past jobs becomes events."""

import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail, writable
from leap.predictor.cli.options import Json
from leap.predictor.storage.whole_file import write_whole
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED, load_topics
from leap.streams.cli.common import read_settings
from leap.streams.cli.reading import Accept, read


def backfill(
    file: Annotated[
        Path, typer.Argument(help="Table of past jobs, or a folder: CSV, JSON, Parquet, Excel.", exists=True)
    ],
    mapping: Annotated[str, typer.Option(help="Mapping file (YAML), or one that comes with Leap, as slurm.")],
    speed: Annotated[str, typer.Option(help="max, attempts a second (500), or times real time (60x).")] = "max",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first attempts in time order.")] = None,
    skip: Annotated[int, typer.Option(min=0, help="Events already sent by an interrupted run.")] = 0,
    rejects: Annotated[
        Path | None, typer.Option(help="Write every bad row here, as JSON lines.", callback=writable)
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Send nothing and fail if a row is bad.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the workers have processed what was sent.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check only; send nothing.")] = False,
    accept: Accept = False,
    as_json: Json = False,
) -> None:
    """Turn a table of past jobs into events, in time order.

    Examples:
      leap backfill jobs.csv --mapping jobs.yaml --dry-run
      leap backfill jobs.parquet --mapping jobs.yaml --wait
    """
    from leap.streams.backfill.processed import wait_until_processed
    from leap.streams.backfill.row_events import in_time_order
    from leap.streams.backfill.sender import EVENTS_PER_ATTEMPT, pace, send
    from leap.streams.kafka.topic_admin import assert_topics

    started = time.monotonic()
    settings = read_settings()
    catalog = load_catalog(settings.catalog)
    table = read(file, mapping, catalog, accept=accept, keep=not dry_run or rejects is not None)
    refused = strict and table.tally.bad > 0
    try:
        jobs = sorted(table.jobs, key=lambda job: job[0].submitted_at)[:limit]
        events = in_time_order(jobs)
        due = pace(speed, events)
        attempts = min(table.tally.attempts, limit or table.tally.attempts)
        if skip > EVENTS_PER_ATTEMPT * attempts:
            raise ValueError(f"--skip {skip}: {file} has only {EVENTS_PER_ATTEMPT * attempts} events")
        if rejects is not None:
            write_whole(rejects, b"".join(msgspec.json.encode(bad) + b"\n" for bad in table.bad))
        if not refused and not dry_run:
            declared = load_topics()
            assert_topics(settings, [declared[name] for name in (SUBMITTED, ALLOCATED, COMPLETED)])
            with typer.progressbar(length=len(events), label="sending", file=sys.stderr) as bar:
                bar.update(min(skip, len(events)))
                ends = send(settings, events, due, skip=skip, on_sent=bar.update)
            if wait:
                print("waiting for the workers", file=sys.stderr)
                wait_until_processed(settings, ends)
    except ValueError as error:
        raise fail(str(error)) from None
    count = {
        "rows": table.tally.rows,
        "left_out": table.tally.left_out,
        "bad": table.tally.bad,
        "attempts": attempts,
        "to_learn_from": table.tally.learnable,
        "events_sent": 0 if refused or dry_run else max(0, len(events) - skip),
        "seconds": round(time.monotonic() - started, 3),
    }
    if as_json:
        print(msgspec.json.encode(count).decode())
    else:
        print(", ".join(f"{value} {name.replace('_', ' ')}" for name, value in count.items()))
    if refused:
        raise fail("nothing sent, because of --strict")
