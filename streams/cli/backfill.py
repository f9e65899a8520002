"""``leap backfill``: a table of past jobs becomes events."""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail, writable
from leap.predictor.cli.options import Json
from leap.schemas.backfill.mapping import load_mapping
from leap.schemas.events import JobAllocated
from leap.schemas.hardware import Catalog, load_catalog
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED, load_topics
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.streams.backfill.sender import Table

SHOWN = 20


def backfill(
    file: Annotated[Path, typer.Argument(help="Table of past jobs: CSV or Parquet.")],
    mapping: Annotated[str, typer.Option(help="Mapping file (YAML), or one that comes with Leap: mlperf, sia.")],
    speed: Annotated[str, typer.Option(help="max, attempts a second (500), or times real time (60x).")] = "max",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first attempts in time order.")] = None,
    skip: Annotated[int, typer.Option(min=0, help="Events already sent by an interrupted run.")] = 0,
    rejects: Annotated[
        Path | None, typer.Option(help="Write every bad row here, as JSON lines.", callback=writable)
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Send nothing and fail if a row is bad.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check only; send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Turn a table of past jobs into events, in time order.

    Examples:
      leap backfill jobs.csv --mapping jobs.yaml --dry-run
      leap backfill jobs.parquet --mapping jobs.yaml --speed 60x
    """
    from leap.streams.backfill.row_mapper import in_time_order
    from leap.streams.backfill.sender import pace, read_table, send
    from leap.streams.backfill.table_reader import TableError
    from leap.streams.kafka.topic_admin import assert_topics

    started = time.monotonic()
    settings = read_settings()
    catalog = load_catalog(settings.catalog)
    try:
        table = read_table(file, load_mapping(mapping), catalog)
        jobs = sorted(table.jobs, key=lambda job: job[0].submitted_at)[:limit]
        events = in_time_order(jobs)
        due = pace(speed, events)
        if not table.rows:
            raise TableError(f"{file}: no rows below its names of columns")
        if skip > len(events):
            raise ValueError(f"--skip {skip}: {file} has only {len(events)} events")
        warn(table, [allocated for _, allocated, _ in jobs], catalog)
        if rejects is not None:
            rejects.write_bytes(b"".join(msgspec.json.encode(bad) + b"\n" for bad in table.bad))
        refused = strict and bool(table.bad)
        if not refused and not dry_run:
            declared = load_topics()
            assert_topics(settings, [declared[name] for name in (SUBMITTED, ALLOCATED, COMPLETED)])
            with typer.progressbar(length=len(events), label="sending", file=sys.stderr) as bar:
                bar.update(min(skip, len(events)))
                send(settings, events, due, skip=skip, on_sent=bar.update)
    except ValueError as error:
        raise fail(str(error)) from None
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
        raise fail("nothing sent, because of --strict")


def warn(table: "Table", allocated: list[JobAllocated], catalog: Catalog) -> None:
    """Tell of hardware types that will not be ranked, and of bad rows."""
    strange = Counter(event.hardware_type for event in allocated if event.hardware_type not in catalog)
    unlisted = [(name, count) for name, count in strange.most_common(SHOWN) if not catalog.specification(name)]
    if unlisted:
        names = ", ".join(f"{name} ({count:,})" for name, count in unlisted)
        typer.secho(f"not in the catalog, so never ranked: {names}; see LEAP_CATALOG", fg="yellow", err=True)
        for name, _ in unlisted:
            typer.secho(f"  {name}: {catalog.why_unlisted(name)}", fg="yellow", err=True)
    for bad in table.bad[:SHOWN]:
        typer.secho(str(bad), fg="yellow", err=True)
    if len(table.bad) > SHOWN:
        typer.secho(f"and {len(table.bad) - SHOWN} more bad rows: --rejects FILE keeps all", err=True)
