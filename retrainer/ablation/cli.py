"""``leap ablate``: families of models side by side, on the same rows and the same held-out attempts."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json, OwnCatalog

if TYPE_CHECKING:
    from leap.retrainer.ablation.problem import Source
    from leap.retrainer.ablation.run import Result, Run

FLEET = "fleet"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def ablate(
    listed: Annotated[bool, typer.Option("--list", help="Name the families and what each needs at serving.")] = False,
    families: Annotated[str, typer.Option(help="Names, comma-separated; all by default.")] = "",
    source: Annotated[str, typer.Option(help="The simulated fleet, or a table of past jobs.")] = FLEET,
    mapping: Annotated[str, typer.Option(help="Of a table: mapping file (YAML), or mlperf, sia.")] = "",
    days: Annotated[int, typer.Option(min=2, help="Of the fleet: days to learn from; the next is held out.")] = 30,
    per_day: Annotated[int, typer.Option(min=10, help="Of the fleet: attempts a day.")] = 3000,
    every: Annotated[int, typer.Option(min=1, help="Of a table: days that one fit serves.")] = 60,
    warm_up: Annotated[int, typer.Option(min=1, help="Of a table: first days, which are not held out.")] = 45,
    hold: Annotated[str, typer.Option(help="Of a table: hold out groups, as in leap holdout, not later days.")] = "",
    rows: Annotated[int, typer.Option(min=0, help="Learn from the latest so many attempts; 0 is all.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Fleets, or fits of a table, to take the mean of.")] = 1,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Also take this away: scale, architecture, hardware, history, names; or hardware_type=X."),
    ] = None,
    importance: Annotated[
        bool, typer.Option("--importance", help="Also the drop in accuracy when each feature is shuffled.")
    ] = False,
    options: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE for families that take it.")] = None,
    folder: Annotated[Path, typer.Option(help="Results; a run that stopped goes on from there.")] = Path(
        ".leap/ablation"
    ),
    own: OwnCatalog = "",
    as_json: Json = False,
) -> None:
    """Compare families of models, each fitted in a process of its own, one after the other.

    Examples:
      leap ablate --list
      leap ablate --families structured,lightgbm --days 10
      leap ablate --source jobs.csv --mapping jobs.yaml
    """
    from leap.retrainer.ablation.problem import FleetSource, TableSource
    from leap.retrainer.ablation.results_table import as_figure
    from leap.retrainer.ablation.run import RESULTS, measure_all
    from leap.retrainer.ablation.summary import as_text, compare
    from leap.retrainer.evaluation.groups import HOLDS

    if listed:
        _list()
        return
    if (source == FLEET) == bool(mapping):
        raise fail("a table needs --mapping, and the fleet takes none")
    if hold and (hold not in HOLDS or not mapping):
        raise fail(f"--hold {hold}: of a table, one of {', '.join(HOLDS)}")
    if hold and (rows or "history" in (without or ())):
        raise fail("--hold takes neither --rows nor --without history: a fit sees all that is left, and its history")
    of = TableSource(source, mapping, every, warm_up, rows, hold, own) if mapping else FleetSource(days, per_day, rows)
    given = dict(option.partition("=")[::2] for option in options or [])
    runs = _runs(of, _named(families), given, ("", *(without or ())), seeds, importance)
    for variable in ONE_THREAD:
        os.environ.setdefault(variable, "1")
    results: list[Result] = []
    for result in measure_all(runs, folder):
        results.append(result)
        _tell(f"{len(results)} of {len(runs)} or more: {_brief(result)}")
    comparison = compare(results, folder)
    (folder / "ablation.json").write_bytes(msgspec.json.format(msgspec.json.encode(comparison)))
    (folder / "ablation.svg").write_text(as_figure(comparison.families), encoding="utf-8")
    print(msgspec.json.encode(comparison).decode() if as_json else as_text(comparison))
    if failed := [result.name for result in results if result.error]:
        raise fail(f"failed: {', '.join(failed)}; {folder / RESULTS} has the reasons")


def _list() -> None:
    from leap.retrainer.ablation.candidates import FAMILIES

    for family in FAMILIES.values():
        print(f"{family.name:12} {family.about}; serving needs {family.serving}")
        for option, meaning in family.options.items():
            print(f"{'':12} --set {option}={meaning}{', needed' if option in family.needs else ''}")


def _runs(
    source: "Source", names: list[str], given: dict[str, str], without: tuple[str, ...], seeds: int, importance: bool
) -> "list[Run]":
    """One run for each family, removal and seed; a family without what it needs is left out."""
    from leap.retrainer.ablation.candidates import FAMILIES
    from leap.retrainer.ablation.run import Run

    if unknown := set(given) - {option for name in names for option in FAMILIES[name].options}:
        raise fail(f"no family here takes --set {', '.join(sorted(unknown))}; see leap ablate --list")
    runs = []
    for name in names:
        if missing := [needed for needed in FAMILIES[name].needs if needed not in given]:
            _tell(f"{name}: left out, it needs {' '.join(f'--set {needed}=…' for needed in missing)}")
            continue
        taken = {option: given[option] for option in FAMILIES[name].options if option in given}
        runs += [
            Run(source, name, seed, away, taken, importance and not away) for away in without for seed in range(seeds)
        ]
    return runs


def _named(families: str) -> list[str]:
    from leap.retrainer.ablation.candidates import FAMILIES

    names = families.split(",") if families else list(FAMILIES)
    if unknown := [name for name in names if name not in FAMILIES]:
        raise fail(f"no family {', '.join(unknown)}; see leap ablate --list")
    return names


def _brief(result: "Result") -> str:
    name = f"{result.name}, seed {result.run.seed}" + (f", without {result.run.without}" * bool(result.run.without))
    if result.error or not result.cost:
        return f"{name}: {result.error}"
    score = result.splits["all"]
    return f"{name}: w20 {score.w20 if score else None}, fitted in {result.cost.fit_cpu_s} s of CPU"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
