"""``leap backfill``: a table of past jobs becomes events."""

import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from schemas.mapping import MappingError, load_mapping
from schemas.topics import ALLOCATED, COMPLETED, SUBMITTED, load_topics
from streams.topics_cli import read_settings

SHOWN = 20


def backfill(
    file: Annotated[Path, typer.Argument(help="Table of past jobs: CSV or Parquet.")],
    mapping: Annotated[str, typer.Option(help="Mapping file (YAML), or one that comes with Leap: mlperf, sia.")],
    speed: Annotated[str, typer.Option(help="max, attempts a second (500), or times real time (60x).")] = "max",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first attempts in time order.")] = None,
    skip: Annotated[int, typer.Option(min=0, help="Events already sent by an interrupted run.")] = 0,
    rejects: Annotated[Path | None, typer.Option(help="Write every bad row here, as JSON lines.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Send nothing and fail if a row is bad.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read and check.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the count as JSON.")] = False,
) -> None:
    """Turn a table of past jobs into events, in time order."""
    from streams.backfill import Interrupted, pace, read_table, send
    from streams.mapped import in_time_order
    from streams.tables import TableError
    from streams.topics import TopicError, assert_topics

    started = time.monotonic()
    try:
        table = read_table(file, load_mapping(mapping))
        jobs = sorted(table.jobs, key=lambda job: job[0].submitted_at)[:limit]
        events = in_time_order(jobs)
        due = pace(speed, events)
        for bad in table.bad[:SHOWN]:
            typer.secho(str(bad), fg="yellow", err=True)
        if len(table.bad) > SHOWN:
            typer.secho(f"and {len(table.bad) - SHOWN} more bad rows: --rejects FILE keeps all", err=True)
        if rejects is not None:
            rejects.write_bytes(b"".join(msgspec.json.encode(bad) + b"\n" for bad in table.bad))
        refused = strict and bool(table.bad)
        if not refused and not dry_run:
            settings = read_settings()
            declared = load_topics()
            assert_topics(settings, [declared[name] for name in (SUBMITTED, ALLOCATED, COMPLETED)])
            with typer.progressbar(length=len(events), label="sending", file=sys.stderr) as bar:
                bar.update(min(skip, len(events)))
                send(settings, events, due, skip=skip, told=bar.update)
    except (MappingError, TableError, TopicError, Interrupted, ValueError, OSError) as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
    count = {
        "rows": table.rows,
        "left_out": table.left_out,
        "bad": len(table.bad),
        "attempts": len(jobs),
        "events_sent": 0 if refused or dry_run else max(0, len(events) - skip),
        "seconds": round(time.monotonic() - started, 3),
    }
    if as_json:
        print(msgspec.json.encode(count).decode())
    else:
        print(", ".join(f"{value} {name.replace('_', ' ')}" for name, value in count.items()))
    if refused:
        typer.secho("nothing sent, because of --strict", fg="red", err=True)
        raise typer.Exit(1)
