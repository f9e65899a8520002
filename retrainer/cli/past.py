"""Past attempts that commands score recipes on: of a table with its mapping, or of the partitions."""

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leap.predictor.cli.errors import fail
from leap.schemas.hardware import Catalog

if TYPE_CHECKING:
    import pandas as pd

    from leap.retrainer.dataset.training_set import TrainingSet
    from leap.streams.backfill.sender import Table
    from leap.streams.runtime.settings import Settings

Mapping = Annotated[str | None, typer.Option(help="Mapping file (YAML) of the table, or one that comes with Leap.")]
Recipes = Annotated[
    list[str] | None, typer.Option("--recipe", help="Recipe to score, or all; repeat for several. chain: rules alone.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Parallel runs, each with all attempts in memory.")]
CHAIN = "chain"
#: Causes of bad rows that are told one by one.
SHOWN = 5


def of_table(file: Path, mapping: str | None, catalog: Catalog) -> "TrainingSet":
    """Attempts of a table that can be learned from, after telling what became of its rows."""
    from leap.retrainer.dataset.feature_table import attempt_of, frame
    from leap.schemas.backfill.mapping import load_mapping
    from leap.streams.backfill.sender import read_table

    if mapping is None:
        raise fail(f"{file}: --mapping says what its columns are; see docs/backfill.md")
    try:
        table = read_table(file, load_mapping(mapping), catalog)
    except ValueError as error:
        raise fail(str(error)) from None
    attempts = _attempts(frame(map(attempt_of, table.jobs)), catalog)
    _tell(file, table, len(attempts))
    if not len(attempts):
        raise fail(f"{file}: no row has a positive throughput under the mapping {mapping}")
    return attempts


def of_partitions(settings: "Settings", catalog: Catalog) -> "TrainingSet":
    """Attempts of all partitions."""
    from leap.retrainer.dataset.partitions import Partitions

    partitions = Partitions(settings.partitions, catalog)
    attempts = _attempts(partitions.read(partitions.days()), catalog)
    if not len(attempts):
        raise fail(f"{partitions.root} has no attempts with a throughput; name a table, or run `leap retrain` first")
    return attempts


def known(recipes: list[str] | None) -> list[str]:
    """The recipes of `--recipe`, the structured one by default; none for the chain, which stands beside every other."""
    from leap.retrainer.night.recipes import RECIPES

    names = list(dict.fromkeys(recipes or ["structured"]))
    if names == ["all"]:
        return list(RECIPES)
    if unknown := [name for name in names if name not in (*RECIPES, CHAIN)]:
        raise fail(f"--recipe {', '.join(unknown)}: give all, or some of {', '.join(RECIPES)}; {CHAIN} for rules alone")
    return [name for name in names if name != CHAIN]


def _attempts(rows: "pd.DataFrame", catalog: Catalog) -> "TrainingSet":
    from leap.predictor.features.batch import HardwareTable
    from leap.retrainer.dataset.training_set import attempts_of

    return attempts_of(rows, HardwareTable(catalog.with_siblings(rows["hardware_type"].dropna().unique())))


def _tell(file: Path, table: "Table", usable: int) -> None:
    """What became of the rows of a table, by cause, on standard error."""
    from leap.schemas.events import SUCCEEDED

    statuses = Counter(completed.status for _, _, completed in table.jobs)
    succeeded = statuses.pop(SUCCEEDED, 0)
    parts = [f"{usable:,} of {table.rows:,} rows can be learned from", f"{table.left_out:,} excluded by the mapping"]
    parts += [f"{count:,} {status}" for status, count in statuses.most_common()]
    parts += [f"{succeeded - usable:,} repeated or without a positive throughput"] if succeeded > usable else []
    print(f"{file}: {'; '.join(parts)}; {len(table.bad):,} bad", file=sys.stderr)
    causes = Counter((bad.field, bad.problem) for bad in table.bad)
    for (name, problem), count in causes.most_common(SHOWN):
        print(f"  {count:,} bad rows: {name}: {problem}", file=sys.stderr)
