"""``leap fleet``: describe a simulated fleet, or write its events to a file."""

import datetime as dt
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from leap.predictor.cli.errors import writable
from leap.predictor.cli.options import Json
from leap.predictor.storage.whole_file import whole_file
from leap.streams.simulator.calibration_report import as_table
from leap.streams.simulator.calibration_report import describe as describe_fleet
from leap.streams.simulator.fleet import Fleet, FleetConfig
from leap.streams.simulator.plots import write_plots

app = typer.Typer(no_args_is_help=True, help="The simulated fleet: its statistics, its events.")

Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Days = Annotated[int, typer.Option(min=1, max=400, help="Days of the fleet.")]
Attempts = Annotated[int, typer.Option("--attempts-per-day", min=10, max=1_000_000, help="Size of the fleet.")]


@app.command()
def describe(
    seed: Seed = 0,
    days: Days = 60,
    attempts_per_day: Attempts = 25_000,
    plots: Annotated[Path | None, typer.Option(help="Folder to write figures (SVG) to.")] = None,
    as_json: Json = False,
) -> None:
    """Print published statistics beside the simulated ones, and the ceilings of accuracy.

    Example:
      leap fleet describe --days 10 --attempts-per-day 1000
    """
    fleet = Fleet(FleetConfig(seed=seed, days=days, attempts_per_day=attempts_per_day))
    try:
        with typer.progressbar(range(days), label="days", file=sys.stderr) as progress:
            description = describe_fleet(fleet, progress)
    except ValueError as error:
        typer.secho(f"{error}; use more days or more attempts a day", fg="red", err=True)
        raise typer.Exit(1) from None
    if plots is not None:
        for path in write_plots(description, plots):
            typer.echo(path, err=True)
    print(msgspec.json.encode(description).decode() if as_json else as_table(description))


@app.command()
def generate(
    file: Annotated[
        Path, typer.Argument(help="JSON lines: topic, key and event, in the order of arrival.", callback=writable)
    ],
    seed: Seed = 0,
    start: Annotated[dt.datetime, typer.Option(formats=["%Y-%m-%d"], help="First day.")] = dt.datetime(2026, 1, 1),
    days: Days = 10,
    attempts_per_day: Attempts = 300,
) -> None:
    """Write the events of a fleet to a file, one a line.

    Example:
      leap fleet generate events.jsonl --days 10
    """
    fleet = Fleet(FleetConfig(seed=seed, start=start.date(), days=days, attempts_per_day=attempts_per_day))
    encoder = msgspec.json.Encoder()
    count = 0
    with (
        whole_file(file) as draft,
        draft.open("wb") as out,
        typer.progressbar(range(days), label="days", file=sys.stderr) as progress,
    ):
        for topic, key, event in fleet.events(progress):
            out.write(encoder.encode({"topic": topic, "key": key, "event": event}) + b"\n")
            count += 1
    typer.echo(f"{count} events of {days} days in {file}")
