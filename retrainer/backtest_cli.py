"""``leap backtest``: recipes walked forward over any table of past jobs, from the history of earlier days only."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from predictor.cli import fail

if TYPE_CHECKING:
    from predictor.jobs import Floats
    from predictor.kernel import Rows
    from retrainer.backtest import Backtest


class Walked(StrEnum):
    """What can be walked forward over a table."""

    structured = "structured"
    chain = "chain"


def backtest(
    file: Annotated[
        Path | None, typer.Argument(help="Table of past jobs: CSV or Parquet; the partitions without one.", exists=True)
    ] = None,
    mapping: Annotated[
        str | None, typer.Option(help="Mapping file (YAML) of the table, or one that comes with Leap: mlperf, sia.")
    ] = None,
    recipe: Annotated[Walked, typer.Option(help="The structured recipe, or the chain of medians.")] = Walked.structured,
    every: Annotated[int, typer.Option(min=1, help="Days that one fit serves.")] = 1,
    warm_up: Annotated[int, typer.Option(min=1, help="First days, which are not scored.")] = 45,
    jobs: Annotated[int, typer.Option(min=1, help="Runs of nights side by side, each with all rows in memory.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a recipe on every attempt of a table or of the partitions, each predicted from earlier days."""
    from predictor.jobs import HardwareTable
    from predictor.structured import EXTRAS
    from predictor.structured_fit import StructuredRecipe
    from retrainer.backtest import summary, walk
    from retrainer.chain import ChainOfMedians
    from schemas.hardware import load_catalog

    rows, y = _of_partitions() if file is None else _of_file(file, mapping)
    table = HardwareTable(load_catalog())
    fitted = ChainOfMedians() if recipe is Walked.chain else StructuredRecipe(table, EXTRAS, warm_start=True)
    found = summary(rows, y, walk(rows, y, fitted, every, warm_up, jobs))
    print(msgspec.json.encode(found).decode() if as_json else as_text(found))


def _of_file(file: Path, mapping: str | None) -> "tuple[Rows, Floats]":
    from retrainer.backtest import rows_of_jobs
    from schemas.mapping import MappingError, load_mapping
    from streams.backfill import read_table
    from streams.tables import TableError

    if mapping is None:
        raise fail(f"{file}: --mapping says what its columns are; see docs/backfill.md")
    try:
        rows, y = rows_of_jobs(read_table(file, load_mapping(mapping)).jobs)
    except (MappingError, TableError) as error:
        raise fail(str(error)) from None
    if not len(y):
        raise fail(f"{file}: no row has a positive throughput under the mapping {mapping}")
    return rows, y


def _of_partitions() -> "tuple[Rows, Floats]":
    from retrainer.backtest import rows_of_table
    from retrainer.partitions import Partitions
    from streams.topics_cli import read_settings

    partitions = Partitions(read_settings().partitions)
    rows, y = rows_of_table(partitions.read(partitions.days()))
    if not len(y):
        raise fail(f"{partitions.root} has no attempts with a throughput; name a table, or run `leap retrain` first")
    return rows, y


def as_text(found: "Backtest") -> str:
    """One line for all attempts, those seen before, and the others."""
    lines = []
    for name, part in (("all", found.all), ("seen", found.seen), ("unseen", found.unseen)):
        scores = f"w20 {part.w20:5} w10 {part.w10:5} w5 {part.w5:5} MdAPE {part.mdape}" if part else "nothing to score"
        lines.append(f"{name:7} n {part.n if part else 0:6}  {scores}")
    return "\n".join(lines)
