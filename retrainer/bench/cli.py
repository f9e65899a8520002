"""``leap bench``: measure, on this machine, what the design promises."""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.options import Json
from leap.retrainer.cli.retrain import known
from leap.schemas.events import MAX_CANDIDATES
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.retrainer.bench.model import Trained
    from leap.streams.runtime.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Measure, on this machine, what the design promises.")


class Recipe(StrEnum):
    """Models of the size that a night over 750,000 rows makes."""

    structured = "structured"
    boosted = "boosted"
    paper = "paper"


Recipes = Annotated[
    list[str] | None, typer.Option("--recipe", help="Recipe to train; those of `leap retrain` by default.")
]
Model = Annotated[Recipe, typer.Option("--recipe", help="Model to serve; training it takes a minute or more.")]


@app.command()
def rank(
    recipe: Model = Recipe.boosted,
    candidates: Annotated[int, typer.Option(min=1, max=MAX_CANDIDATES, help="Of each job.")] = 20,
    as_json: Json = False,
) -> None:
    """One job and its candidates in process, beside scikit-learn and beside one Redis read a candidate.

    Example:
      leap bench rank --recipe structured
    """
    from leap.retrainer.bench import launch as launch_bench
    from leap.streams.redis_store.client import connect

    with _trained(recipe) as trained, _services() as settings:
        _show(launch_bench.rank(trained, recipe, connect(settings.redis_url), candidates), as_json)


@app.command()
def start(recipe: Model = Recipe.boosted, as_json: Json = False) -> None:
    """A fresh process: import, load the artifact, first list.

    Example:
      leap bench start
    """
    from leap.retrainer.bench import launch as launch_bench

    with _trained(recipe) as trained, _folder() as folder:
        _show(launch_bench.start(trained, folder), as_json)


@app.command()
def soak(
    launches: Annotated[int, typer.Option(min=100, help="24 h at ten times the published rate by default.")] = 250_000,
    recipe: Model = Recipe.boosted,
    as_json: Json = False,
) -> None:
    """A day of launches, compressed: memory and open files before and after.

    Example:
      leap bench soak --launches 10000
    """
    from leap.retrainer.bench import launch as launch_bench

    with _trained(recipe) as trained:
        _show(launch_bench.soak(trained, launches), as_json)


@app.command()
def worker(
    seconds: Annotated[float, typer.Option(min=1, help="Time at 100 submissions a second.")] = 20.0,
    recipe: Model = Recipe.boosted,
    as_json: Json = False,
) -> None:
    """The ranking worker through Kafka: latency at 100 a second, then throughput.

    Example:
      leap bench worker --seconds 10
    """
    from leap.streams.bench import ranking as ranking_bench

    with _trained(recipe) as trained, _services() as settings, _folder() as folder:
        settings = replace(settings, artifacts=str(trained.store.root))
        command = [sys.executable, "-m", "leap", "worker", "ranking"]
        _show(ranking_bench.bench(settings, trained.submissions, command, folder, seconds), as_json)


@app.command()
def history(
    completions: Annotated[int, typer.Option(min=10_000, help="Sent in each round.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="Medians are taken over the rounds.")] = 3,
    as_json: Json = False,
) -> None:
    """The history worker through Kafka, beside the store's script alone.

    Example:
      leap bench history --rounds 1
    """
    from leap.streams.bench import history as history_bench

    with _services() as settings:
        _show(history_bench.bench(settings, completions, rounds), as_json)


@app.command()
def replay(
    submissions: Annotated[int, typer.Option(min=1000, help="A day of the published fleet by default.")] = 25_000,
    recipe: Model = Recipe.boosted,
    as_json: Json = False,
) -> None:
    """A day of submissions through Kafka again: reading, and reading with ranking.

    Example:
      leap bench replay --recipe boosted
    """
    from leap.retrainer.bench import replay as replay_bench

    with _trained(recipe) as trained, _services() as settings:
        _show(replay_bench.bench(settings, trained, submissions), as_json)


@app.command()
def night(
    rows: Annotated[
        int, typer.Option(min=3000, help="Attempts in the window; the published fleet by default.")
    ] = 750_000,
    recipe: Recipes = None,
    jobs: Annotated[int, typer.Option(min=1, help="Parallel fits.")] = 1,
    as_json: Json = False,
) -> None:
    """One training run over 30 days of the simulated fleet, with 250,000 families in the store and a busy writer.

    Example:
      leap bench night --rows 10000
    """
    from leap.retrainer.bench import night as night_bench
    from leap.retrainer.night.plan import DEFAULT_RECIPES

    with _services() as settings, _folder() as folder:
        _show(night_bench.bench(settings, rows, known(recipe or DEFAULT_RECIPES), jobs, folder), as_json)


@app.command()
def nights(
    count: Annotated[int, typer.Option(min=1, help="Training runs, one after the other.")] = 30,
    attempts: Annotated[int, typer.Option(min=100, help="Attempts a day.")] = 1000,
    recipe: Recipes = None,
    as_json: Json = False,
) -> None:
    """Nightly training runs over the simulated fleet, as production would have run them: w20 of each.

    Example:
      leap bench nights --count 3
    """
    from leap.retrainer.bench.night_series import walk
    from leap.retrainer.night.plan import DEFAULT_RECIPES
    from leap.streams.runtime.logs import configure

    configure(logging.WARNING)
    with _folder() as folder:
        recipes = known(recipe or DEFAULT_RECIPES)
        _show(walk(count, attempts, recipes, folder, lambda night: typer.echo(night, err=True)), as_json)


@app.command()
def sizes(
    families: Annotated[int, typer.Option(min=100, help="As many as an artifact keeps by default.")] = 250_000,
    recipe: Model = Recipe.boosted,
    as_json: Json = False,
) -> None:
    """Bytes of an event, a family, an attempt and an artifact: in Kafka, the store and partitions.

    Example:
      leap bench sizes
    """
    from leap.retrainer.bench import sizes as sizes_bench

    with _trained(recipe) as trained, _services() as settings, _folder() as folder:
        _show(sizes_bench.bench(settings, trained, families, folder), as_json)


@app.command()
def saving(
    fleets: Annotated[int, typer.Option(min=1, help="Fleets to compare on.")] = 20,
    attempts_per_day: Annotated[int, typer.Option("--attempts-per-day", min=100, help="Size of each fleet.")] = 300,
    as_json: Json = False,
) -> None:
    """The estimated saving beside the true one, on simulated fleets.

    Example:
      leap bench saving --fleets 3
    """
    from leap.retrainer.bench import savings as saving_bench
    from leap.streams.runtime.logs import configure

    configure(logging.WARNING)
    _show(saving_bench.bench(fleets, attempts_per_day), as_json)


@app.command()
def exploration(
    seeds: Annotated[int, typer.Option(min=1, help="Fleets to take the mean of.")] = 3,
    attempts_per_day: Annotated[int, typer.Option("--attempts-per-day", min=100, help="Size of each fleet.")] = 300,
    as_json: Json = False,
) -> None:
    """Accuracy on a hardware type that never ran, against the jobs run there first: planned, and at random.

    Example:
      leap bench exploration --seeds 1
    """
    from leap.retrainer.bench import bootstrap as exploration_bench

    points = exploration_bench.bench((5, 10, 20, 40), attempts_per_day, seeds)
    _show({f"{point.jobs} {point.chosen}": [point.w20, point.mdape] for point in points}, as_json)


@contextmanager
def _trained(recipe: Recipe) -> "Iterator[Trained]":
    from leap.retrainer.bench.model import train

    with _folder() as folder:
        typer.echo(f"training a {recipe} model of the size of production", err=True)
        trained = train(recipe, folder)
        typer.echo("measuring", err=True)
        yield trained


@contextmanager
def _services() -> "Iterator[Settings]":
    """The broker and store of the environment where it names a broker, else the embedded pair."""
    from leap.streams.runtime.logs import configure

    configure(logging.WARNING)  # on standard error: standard output is for the figures
    settings = read_settings()
    if "LEAP_KAFKA_BOOTSTRAP_SERVERS" in os.environ:
        yield settings
        return
    from leap.streams.embedded import embedded_pair
    from leap.streams.runtime.settings import Settings

    with _folder() as folder, embedded_pair(folder) as pair:
        yield Settings.from_environment(pair.environment())


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="leap-bench-") as name:
        yield Path(name)


def _show(figures: object, as_json: bool) -> None:
    data = msgspec.json.encode(figures)
    if as_json:
        print(data.decode())
        return
    for name, value in msgspec.json.decode(data).items():
        print(f"{name:24} {value}")
