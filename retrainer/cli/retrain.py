"""``leap retrain`` and ``leap demo``."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import structlog
import typer

from leap.predictor.cli.errors import fail, in_words, sentence
from leap.predictor.cli.options import Json
from leap.retrainer.cli.summary import summary
from leap.schemas.errors import LeapError

if TYPE_CHECKING:
    from leap.retrainer.dataset.partitions import Partitions
    from leap.retrainer.night.plan import Plan, Report
    from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)


class Every(StrEnum):
    """Built-in schedules."""

    day = "day"


Backend = Annotated[
    str,
    typer.Option(
        envvar="LEAP_JOBLIB_BACKEND", help="Where fits run: loky, dask@<scheduler>, or any that joblib knows."
    ),
]


def retrain(
    night: Annotated[
        datetime | None,
        typer.Option("--date", formats=["%Y-%m-%d"], help="Date of the training run; today by default."),
    ] = None,
    every: Annotated[Every | None, typer.Option(help="Keep running: one training run a day at 00:30 UTC.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Prediction target; all by default.")] = None,
    window: Annotated[
        int | None,
        typer.Option(min=2, help="Days before the night to learn from; by default 30, more if they hold few attempts."),
    ] = None,
    max_missing: Annotated[
        int | None,
        typer.Option(min=0, help="Days without attempts, above which nothing is promoted; 10 beyond what is usual."),
    ] = None,
    recipe: Annotated[list[str] | None, typer.Option(help="Recipe to train; repeat for several.")] = None,
    keep_days: Annotated[
        int | None,
        typer.Option(min=1, help="Days that partitions are kept; by default 90, but none that was not learned from."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Parallel fits.")] = 1,
    backend: Backend = "loky",
    trial: Annotated[bool, typer.Option("--trial", help="Keep the artifact, but do not move production.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use the partitions as they are: no Kafka, no Redis.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train on the window before the night, publish the champion, move production if it is good enough.

    Examples:
      leap retrain
      leap retrain --date 2026-01-08 --recipe structured --trial
      leap retrain --every day
    """
    from leap.streams.cli.common import read_settings

    settings = read_settings()
    if not offline and not every:  # before what trains is loaded; the daily schedule tries again by itself
        from leap.streams.kafka.reachable import broker_metadata

        broker_metadata(settings)
    from leap.retrainer.dataset.partitions import Partitions
    from leap.retrainer.night.plan import DEFAULT_RECIPES, Plan
    from leap.streams.runtime.logs import configure

    configure()
    targets, partitions = tuple(target or settings.targets), Partitions(settings.partitions)
    plan = Plan(
        night=night.date() if night else datetime.now(UTC).date(),
        window_days=window,
        max_missing=max_missing,
        recipes=known(recipe or DEFAULT_RECIPES),
        keep_days=max(keep_days, window or 0) if keep_days else None,
        promote=not trial,
        n_jobs=jobs,
    )
    run = partial(_run_all, settings, partitions, plan, backend=backend, offline=offline)
    if every:
        _run_daily(run, partitions, targets, settings.metrics_port)
    try:
        reports = run(plan.night, targets)
    except ValueError as error:  # of the backend
        raise fail(str(error)) from None
    except OSError as error:
        raise fail(f"{in_words(error)}; LEAP_PARTITIONS says where partitions are") from None
    print(msgspec.json.encode(reports).decode() if as_json else "\n".join(map(summary, reports)))


def _run_daily(
    run: "Callable[[date, Sequence[str]], object]", partitions: "Partitions", targets: Sequence[str], port: int
) -> None:
    """Run every day, for ever, what has no report of that day yet; health on `port`, unless it is 0."""
    from leap.retrainer.night.plan import report_name
    from leap.retrainer.night.schedule import run_daily
    from leap.streams.runtime.health_server import health_server
    from leap.streams.runtime.liveness import Progress

    def left(day: date) -> list[str]:
        return [target for target in targets if not partitions.files.names(report_name(target, day))]

    with health_server(port, Progress()) if port else nullcontext():
        run_daily(lambda day: run(day, left(day)), lambda day: not left(day))


def known(recipes: Sequence[str]) -> tuple[str, ...]:
    """Names of recipes, each of which there is."""
    from leap.retrainer.night.recipes import RECIPES

    if unknown := [name for name in recipes if name not in RECIPES]:
        raise fail(f"no recipe {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    return tuple(recipes)


class NightFailed(LeapError, RuntimeError):
    """Some targets have no artifact of this night; the text says which and why."""


def _run_all(
    settings: "Settings",
    partitions: "Partitions",
    plan: "Plan",
    day: date,
    targets: Sequence[str],
    backend: str,
    offline: bool,
) -> "list[Report]":
    """One run a target; one that fails does not hold up the others.

    Raises
    ------
    NightFailed
        After all have run, if any failed.
    """
    from leap.retrainer.night.joblib_backend import joblib_backend
    from leap.retrainer.storage.lease import night_lock

    reports, failed = [], []
    with night_lock(partitions.root) as assert_held, joblib_backend(backend):
        for target in targets:
            try:
                reports.append(_run(settings, replace(plan, night=day, target=target), offline, assert_held))
            except Exception as error:
                told = sentence(error)
                if told is None:  # a mistake in Leap: its trace says where
                    log.exception("training run failed", target=target)
                failed.append(f"training run for {target} failed: {told or in_words(error)}")
    if failed:
        raise NightFailed("\n".join([*map(summary, reports), *failed]))
    return reports


def _run(settings: "Settings", plan: "Plan", offline: bool, assert_held: Callable[[], None]) -> "Report":
    """One night over the configured places."""
    from leap.predictor.artifacts.open import open_store
    from leap.predictor.artifacts.signing import SigningKey
    from leap.retrainer.dataset.partitions import Partitions
    from leap.retrainer.night import connectors
    from leap.retrainer.night.pipeline import Night
    from leap.retrainer.storage.files import open_files
    from leap.retrainer.storage.guarded import Guarded
    from leap.schemas.hardware import load_catalog

    catalog = load_catalog(settings.catalog)
    partitions = Partitions(settings.partitions, catalog, Guarded(open_files(settings.partitions), assert_held))
    today = plan.night == datetime.now(UTC).date()
    night = Night(
        partitions,
        open_store(settings.artifacts, trusted_keys=settings.trusted_keys),
        catalog,
        ingest=(lambda _: []) if offline else connectors.ingest_attempts(settings),
        # Redis knows the present only: a run for a past date takes the statistics of that day from the partitions.
        snapshot=connectors.snapshot(settings, plan.target) if today and not offline else None,
        announce=(lambda event: None) if offline else connectors.announce(settings),
        key=SigningKey(Path(settings.signing_key)) if settings.signing_key else None,
    )
    return night.run(plan)


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything that it makes goes.")] = Path(".leap/demo"),
) -> None:
    """Run a small simulated fleet through broker, store, workers, training and ranking, all on this machine.

    Example:
      leap demo
    """
    import shutil

    from leap.predictor.cli.ranking import as_table, console
    from leap.retrainer.demo import Demo
    from leap.streams.runtime.logs import configure

    configure(logging.WARNING)
    shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    outcome, report, example = Demo(folder, print).run()
    print(summary(report))
    console.print(as_table(example))
    table = outcome.lookup_table
    print(
        f"{outcome.attempts} submissions ranked, {outcome.coverage}% with an opinion, "
        f"in {time.monotonic() - started:.0f} s altogether.\n"
        f"  Leap          w20 {outcome.w20}%  w5 {outcome.w5}%  of all that finished\n"
        f"  lookup table  w20 {table['w20']}%  w5 {table['w5']}%  of the {table['coverage']}% that it covers; "
        f"Leap there: w20 {outcome.w20_where_table_covers}%"
    )
    result = folder.with_suffix(".json")
    result.write_bytes(msgspec.json.format(msgspec.json.encode(outcome), indent=1))
    print(f"The same as JSON: {result}. w20: share of attempts predicted within 20% of what was measured.")
