"""``leap backtest``: recipes and rules walked forward over any table of past jobs."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json, OwnCatalog
from leap.retrainer.cli.past import Jobs, Mapping, Recipes, known, of_partitions, of_table
from leap.schemas.hardware import load_catalog
from leap.streams.cli.common import read_settings
from leap.streams.cli.reading import Accept

if TYPE_CHECKING:
    from collections.abc import Callable

    from leap.predictor.models.accuracy import Accuracy
    from leap.retrainer.evaluation.backtest import Backtest
    from leap.retrainer.evaluation.rules import Estimator


def backtest(
    file: Annotated[
        Path | None, typer.Argument(help="Table of past jobs; the partitions without one.", exists=True)
    ] = None,
    mapping: Mapping = None,
    recipe: Recipes = None,
    every: Annotated[
        str, typer.Option(help="Days that one fit serves, or a column each value of which it serves, as in round.")
    ] = "1",
    warm_up: Annotated[int, typer.Option(min=1, help="First days, which are not scored.")] = 45,
    by: Annotated[str | None, typer.Option(help="Scores by the values of this column too.")] = None,
    jobs: Jobs = 1,
    own: OwnCatalog = "",
    accept: Accept = False,
    as_json: Json = False,
) -> None:
    """Score recipes on every attempt of a table or of the partitions, each predicted from earlier days.

    Examples:
      leap backtest
      leap backtest jobs.csv --mapping jobs.yaml --every 7 --recipe structured --recipe boosted
      leap backtest runs.csv --mapping mlperf --every round
    """
    import numpy as np

    from leap.retrainer.evaluation.backtest import column, spans, summary, walk
    from leap.retrainer.evaluation.rules import rules_of
    from leap.retrainer.night.recipes import Published

    recipes = {name: partial(Published, name) for name in known(recipe)}
    catalog = load_catalog(own)
    attempts = (
        of_partitions(read_settings(), catalog) if file is None else of_table(file, mapping, catalog, accept=accept)
    )
    try:
        parts = column(attempts, by) if by else None
        fits = spans(attempts, int(every) if every.isdecimal() else column(attempts, every), warm_up)
    except ValueError as error:
        raise fail(str(error)) from None
    judged = np.any([now for _, now in fits], axis=0)
    print(
        f"{judged.sum():,} of {len(attempts):,} attempts are predicted, by {len(fits):,} fits each; "
        f"the first {warm_up} days are for --warm-up",
        file=sys.stderr,
    )
    estimators: dict[str, Callable[[], Estimator]] = {**recipes, **rules_of(attempts)}
    found: dict[str, Backtest] = {}
    for name, make in estimators.items():
        with typer.progressbar(length=len(fits), label=name, file=sys.stderr) as bar:
            found[name] = summary(attempts, judged, walk(attempts, make, fits, jobs, bar.update), parts)
    print(msgspec.json.encode(found).decode() if as_json else as_text(found))


def as_text(found: "dict[str, Backtest]") -> str:
    """A table for the terminal: what each estimator reached on all attempts, and on parts of them."""
    lines = [f"{'':24}{'':16}{'n':>8}{'w20':>8}{'w10':>8}{'w5':>8}{'MdAPE':>8}{'ratio':>8}{'answered':>10}"]
    parts = ("all", "seen", "unseen", *next(iter(found.values())).by)
    for part in parts:
        for name, scores in found.items():
            of: Accuracy | None = scores.by[part] if part in scores.by else getattr(scores, part)
            if of is not None:
                cells = (of.w20, of.w10, of.w5, of.mdape, of.ratio)
                numbers = "".join(f"{cell:>8}" for cell in cells)
                lines.append(f"{part:24}{name:16}{of.n:>8,}{numbers}{of.coverage:>10}")
    return "\n".join(lines)
