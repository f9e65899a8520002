"""``leap holdout``: recipes and rules judged on groups of a table's attempts that were left out."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json, OwnCatalog
from leap.retrainer.cli.past import Jobs, Mapping, Recipes, known, of_table
from leap.schemas.hardware import load_catalog
from leap.streams.cli.reading import Accept

if TYPE_CHECKING:
    from collections.abc import Callable

    from leap.retrainer.evaluation.holdout import Scores
    from leap.retrainer.evaluation.rules import Estimator


def holdout(
    file: Annotated[Path, typer.Argument(help="Table of past jobs.", exists=True)],
    mapping: Mapping = None,
    hold: Annotated[
        list[str] | None, typer.Option(help="pair, model, prefix, hardware or scale; repeat for several, pair if none.")
    ] = None,
    recipe: Recipes = None,
    same: Annotated[
        list[str] | None, typer.Option(help="What ranked jobs agree in; model_type and accelerators by default.")
    ] = None,
    jobs: Jobs = 1,
    own: OwnCatalog = "",
    accept: Accept = False,
    as_json: Json = False,
) -> None:
    """Judge recipes on what never ran: groups of attempts are left out of a table, predicted and ranked.

    A model type's prefix is its name up to the first digit, dot, dash, underscore, slash or space.

    Examples:
      leap holdout jobs.csv --mapping jobs.yaml
      leap holdout jobs.csv --mapping jobs.yaml --hold model --hold scale --recipe all
    """
    from leap.retrainer.evaluation.contexts import SAME
    from leap.retrainer.evaluation.groups import HOLDS, folds
    from leap.retrainer.evaluation.holdout import hold_out
    from leap.retrainer.evaluation.rules import rules_of
    from leap.retrainer.night.recipes import Published

    holds = list(dict.fromkeys(hold or ["pair"]))
    if unknown := [name for name in holds if name not in HOLDS]:
        raise fail(f"--hold {', '.join(unknown)}: give some of {', '.join(HOLDS)}")
    recipes = {name: partial(Published, name, calibrated=True) for name in known(recipe)}
    attempts = of_table(file, mapping, load_catalog(own), accept=accept)
    if strange := sorted(set(same or ()) - set(attempts.rows)):
        raise fail(f"--same {', '.join(strange)}: jobs have {', '.join(sorted(attempts.rows))}")
    found: dict[str, dict[str, Scores]] = {}
    for name in holds:
        estimators: dict[str, Callable[[], Estimator]] = {**recipes, **rules_of(attempts, name)}
        try:
            split = list(folds(attempts.rows, name))
        except ValueError as error:
            raise fail(f"{file}: {error}") from None
        with typer.progressbar(length=len(split), label=f"--hold {name}", file=sys.stderr) as bar:
            found[name] = hold_out(attempts, split, estimators, same or SAME, jobs, bar.update)
    print(msgspec.json.encode(found).decode() if as_json else "\n\n".join(map(as_text, found, found.values())))


def as_text(hold: str, scores: "dict[str, Scores]") -> str:
    """A table for the terminal."""
    columns = ("w20", "w10", "mdape", "covered", "answered", "tau", "regret", "contexts", "seconds")
    first = next(iter(scores.values()))
    lines = [f"{f'{hold} held out, n {first.n:,}':28}" + "".join(f"{name:>10}" for name in columns)]
    for name, score in scores.items():
        cells = [getattr(score, column) for column in columns]
        lines.append(f"{name:28}" + "".join(f"{'' if cell is None else cell:>10}" for cell in cells))
    return "\n".join(lines)
