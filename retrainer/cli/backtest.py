"""``leap backtest``: a recipe scored over any table of past jobs."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json
from leap.schemas.hardware import Catalog, load_catalog
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.predictor.features.batch import Floats, Rows
    from leap.predictor.models.accuracy import Accuracy
    from leap.retrainer.evaluation.backtest import Backtest, Beside
    from leap.streams.runtime.settings import Settings


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
    jobs: Annotated[int, typer.Option(min=1, help="Parallel runs, each with all rows in memory.")] = 1,
    by: Annotated[str | None, typer.Option(help="Scores by this extra value too, beside the chain of medians.")] = None,
    as_json: Json = False,
) -> None:
    """Score a recipe on every attempt of a table or of the partitions, each predicted from earlier days.

    Examples:
      leap backtest
      leap backtest jobs.csv --mapping jobs.yaml --every 7
    """
    from leap.predictor.features.batch import HardwareTable
    from leap.predictor.models.structured.estimator import StructuredRecipe
    from leap.predictor.models.structured.model import EXTRAS
    from leap.retrainer.evaluation.backtest import beside, summary, walk
    from leap.retrainer.evaluation.median_chain import ChainOfMedians

    settings = read_settings()
    catalog = load_catalog(settings.catalog)
    rows, y = (
        _of_partitions(settings, catalog) if file is None else _of_file(file, mapping, catalog, (by,) if by else ())
    )
    if by and by not in rows:
        raise fail(f"--by {by}: only a table with a mapping has extra values")
    table = HardwareTable(catalog.with_siblings(rows["hardware_type"]))
    fitted = ChainOfMedians() if recipe is Walked.chain else StructuredRecipe(table, EXTRAS, warm_start=True)
    predicted = walk(rows, y, fitted, every, warm_up, jobs)
    scores = summary(rows, y, predicted)
    parts = beside(rows[by], y, predicted, walk(rows, y, ChainOfMedians(), every, warm_up, jobs)) if by else None
    if as_json:
        by_part = {} if parts is None else {"by": parts}
        print(msgspec.json.encode({**msgspec.structs.asdict(scores), **by_part}).decode())
    else:
        print("\n".join((*parts_as_text(parts or {}), as_text(scores))))


def _of_file(file: Path, mapping: str | None, catalog: Catalog, extra: tuple[str, ...] = ()) -> "tuple[Rows, Floats]":
    from leap.retrainer.dataset.feature_table import attempt_of, frame
    from leap.retrainer.evaluation.backtest import rows_of_table
    from leap.schemas.backfill.mapping import load_mapping
    from leap.streams.backfill.sender import read_table

    if mapping is None:
        raise fail(f"{file}: --mapping says what its columns are; see docs/backfill.md")
    attempts = map(attempt_of, read_table(file, load_mapping(mapping), catalog).jobs)
    rows, y = rows_of_table(frame(attempts), extra)
    if not len(y):
        raise fail(f"{file}: no row has a positive throughput under the mapping {mapping}")
    return rows, y


def _of_partitions(settings: "Settings", catalog: Catalog) -> "tuple[Rows, Floats]":
    from leap.retrainer.dataset.partitions import Partitions
    from leap.retrainer.evaluation.backtest import rows_of_table

    partitions = Partitions(settings.partitions, catalog)
    rows, y = rows_of_table(partitions.read(partitions.days()))
    if not len(y):
        raise fail(f"{partitions.root} has no attempts with a throughput; name a table, or run `leap retrain` first")
    return rows, y


def as_text(backtest: "Backtest") -> str:
    """One line for all attempts, those seen before, and the others."""
    parts = (("all", backtest.all), ("seen", backtest.seen), ("unseen", backtest.unseen))
    return "\n".join(f"{name:7} n {part.n if part else 0:6}  {_line(part)}" for name, part in parts)


def parts_as_text(parts: "dict[str, Beside]") -> list[str]:
    """Two lines for each part: the recipe's scores, and the chain's."""
    return [
        f"{name:7} {who:7} n {scores.n if scores else 0:6}  {_line(scores)}"
        for name, part in parts.items()
        for who, scores in (("recipe", part.recipe), ("chain", part.chain))
    ]


def _line(part: "Accuracy | None") -> str:
    return f"w20 {part.w20:5} w10 {part.w10:5} w5 {part.w5:5} MdAPE {part.mdape}" if part else "nothing to score"
