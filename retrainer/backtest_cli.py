"""``leap backtest``: recipes walked forward over any table of past jobs, from the history of earlier days only."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from predictor.cli import fail

if TYPE_CHECKING:
    from retrainer.backtest import Backtest


class Walked(StrEnum):
    """What can be walked forward over a table."""

    structured = "structured"
    chain = "chain"


def backtest(
    file: Annotated[Path, typer.Argument(help="Table of past jobs: CSV or Parquet.", exists=True)],
    mapping: Annotated[str, typer.Option(help="Mapping file (YAML), or one that comes with Leap: mlperf, sia.")],
    recipe: Annotated[Walked, typer.Option(help="The structured recipe, or the chain of medians.")] = Walked.structured,
    every: Annotated[int, typer.Option(min=1, help="Days that one fit serves.")] = 1,
    warm_up: Annotated[int, typer.Option(min=1, help="First days, which are not scored.")] = 45,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a recipe on every attempt of a table, each predicted from attempts of earlier days."""
    from predictor.jobs import HardwareTable
    from predictor.structured import EXTRAS
    from predictor.structured_fit import StructuredRecipe
    from retrainer.backtest import ChainOfMedians, rows_of_jobs, summary, walk
    from schemas.hardware import load_catalog
    from schemas.mapping import MappingError, load_mapping
    from streams.backfill import read_table
    from streams.tables import TableError

    try:
        jobs = read_table(file, load_mapping(mapping)).jobs
    except (MappingError, TableError) as error:
        raise fail(str(error)) from None
    rows, y = rows_of_jobs(jobs)
    if not len(y):
        raise fail(f"{file}: no row has a positive throughput under the mapping {mapping}")
    table = HardwareTable(load_catalog())
    fitted = ChainOfMedians() if recipe is Walked.chain else StructuredRecipe(table, EXTRAS, warm_start=True)
    found = summary(rows, y, walk(rows, y, fitted, every, warm_up))
    print(msgspec.json.encode(found).decode() if as_json else as_text(found))


def as_text(found: "Backtest") -> str:
    """One line for all attempts, those seen before, and the others."""
    lines = []
    for name, part in (("all", found.all), ("seen", found.seen), ("unseen", found.unseen)):
        scores = f"w20 {part.w20:5} w10 {part.w10:5} w5 {part.w5:5} MdAPE {part.mdape}" if part else "nothing to score"
        lines.append(f"{name:7} n {part.n if part else 0:6}  {scores}")
    return "\n".join(lines)
