"""``leap mapping``: the mappings that come with Leap, and a first one for a table of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from leap.predictor.cli.errors import fail
from leap.schemas.backfill.mapping import FOLDER, shipped
from leap.schemas.hardware import load_catalog
from leap.streams.cli.common import read_settings

app = typer.Typer(no_args_is_help=True, help="Mappings: what the columns of a table of past jobs mean.")


@app.command("guess")
def guess_mapping(
    file: Annotated[Path, typer.Argument(help="Table of past jobs, or a folder.", exists=True)],
) -> None:
    """Write a first mapping for a table, from the names and contents of its columns.

    Example:
      leap mapping guess examples/jobs.csv
    """
    from leap.streams.backfill.guess import guess

    try:
        print(guess(file, load_catalog(read_settings().catalog)), end="")
    except ValueError as error:
        raise fail(str(error)) from None


@app.command()
def show(name: Annotated[str, typer.Argument(help="Mapping that comes with Leap.")] = "") -> None:
    """Print a mapping that comes with Leap, or the names of all.

    Example:
      leap mapping show slurm
    """
    if name and name not in shipped():
        raise fail(f"no mapping {name!r}; there are {', '.join(shipped())}")
    print(
        (FOLDER / f"{name}.yaml").read_text(encoding="utf-8") if name else "\n".join(shipped()),
        end="" if name else "\n",
    )
