"""Past attempts that commands score recipes on: of a table with its mapping, or of the partitions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leap.predictor.cli.errors import fail
from leap.schemas.hardware import Catalog
from leap.streams.cli.reading import read

if TYPE_CHECKING:
    import pandas as pd

    from leap.retrainer.dataset.training_set import TrainingSet
    from leap.streams.runtime.settings import Settings

Mapping = Annotated[str | None, typer.Option(help="Mapping file (YAML) of the table, or one that comes with Leap.")]
Recipes = Annotated[
    list[str] | None, typer.Option("--recipe", help="Recipe to score, or all; repeat for several. chain: rules alone.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Parallel runs, each with all attempts in memory.")]
CHAIN = "chain"


def of_table(file: Path, mapping: str | None, catalog: Catalog, *, accept: bool = False) -> "TrainingSet":
    """Attempts of a table that can be learned from, after telling what it holds."""
    from leap.retrainer.dataset.feature_table import attempt_of, frame

    if mapping is None:
        raise fail(f"{file}: --mapping says what its columns are; see docs/backfill.md")
    attempts = _attempts(frame(map(attempt_of, read(file, mapping, catalog, accept=accept).jobs)), catalog)
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
