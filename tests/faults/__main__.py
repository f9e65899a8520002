"""Break everything, and count what is lost.

.venv/bin/python -m tests.faults --events 1000000 --faults all
"""

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tests.faults.kinds import brokers, clock, disk, network, stores, storm, workers
from tests.faults.run import run, services
from tests.faults.table import table

FAULTS = [*workers.FAULTS, *brokers.FAULTS, *stores.FAULTS, *network.FAULTS, *disk.FAULTS, *clock.FAULTS, *storm.FAULTS]


def main(
    events: Annotated[int, typer.Option(help="Completions and submissions, over all faults.")] = 1_000_000,
    faults: Annotated[str, typer.Option(help="Parts of names, by commas; all is every one.")] = "all",
    rate: Annotated[float, typer.Option(help="Events a second that are sent.")] = 2_000.0,
    seed: Annotated[int, typer.Option(help="Of what each fault chooses.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Where logs and data go; by default they are removed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Send a known stream through real brokers, stores and workers while something breaks; print what came of it."""
    wanted = faults.split(",")
    chosen = [fault for fault in FAULTS if faults == "all" or any(part in fault.name for part in wanted)]
    if not chosen:
        raise typer.BadParameter(f"{faults}: no such fault; there are {', '.join(fault.name for fault in FAULTS)}")
    share = -(-events // len(chosen))
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        rows = []
        with services(place) as running:
            for number, fault in enumerate(chosen):
                typer.echo(f"{number + 1}/{len(chosen)} {fault.name}", err=True)
                try:
                    rows.append(run(fault, running, place / f"{number}", share, rate, seed))
                except Exception as error:  # the others are worth knowing all the same
                    typer.echo(f"{fault.name}: {error!r}", err=True)
                    continue
                typer.echo(table(rows[-1:]).splitlines()[-1], err=True)
    print(json.dumps([row.to_json() for row in rows]) if as_json else table(rows))
    if len(rows) < len(chosen) or not all(row.verdict.good for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
