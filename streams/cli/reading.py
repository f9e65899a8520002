"""What every command that reads a table of past jobs says of it, and when it refuses to go on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leap.predictor.cli.errors import fail
from leap.schemas.backfill.mapping import load_mapping
from leap.schemas.hardware import Catalog

if TYPE_CHECKING:
    from leap.streams.backfill.sender import Table

Accept = Annotated[
    bool, typer.Option("--accept", help="Go on although most rows are bad, teach nothing or are of unlisted types.")
]


def read(file: Path, mapping: str, catalog: Catalog, *, accept: bool, keep: bool = True) -> "Table":
    """Read a table, and say on standard error what it holds.

    Parameters
    ----------
    accept
        Whether to go on where most of it is of no use; the command ends with status 1 otherwise.
    keep
        Whether its attempts and bad rows are needed, not only what is counted of them.
    """
    from leap.streams.backfill.sender import read_table

    try:
        table = read_table(file, load_mapping(mapping), catalog, keep=keep)
    except ValueError as error:
        raise fail(str(error)) from None
    for note in table.notes:
        typer.echo(f"{file}: {note}", err=True)
    first, *others = table.tally.lines(catalog)
    typer.echo(f"{file}: {first}", err=True)
    for line in others:
        typer.echo(f"  {line}", err=True)
    if not table.tally.rows:
        raise fail(f"{file}: no rows below its names of columns")
    refusals = list(table.tally.refusals(catalog))
    if refusals and not accept:
        raise fail(f"{file}: {'; '.join(refusals)}. Correct the mapping, or go on all the same with --accept")
    return table
