"""``leap learn``: a table of past jobs becomes an artifact on this machine alone, without broker and store."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json
from leap.schemas.hardware import Catalog, load_catalog
from leap.streams.cli.common import read_settings
from leap.streams.cli.reading import Accept, read

if TYPE_CHECKING:
    from leap.retrainer.night.plan import Report
    from leap.streams.backfill.sender import Table
    from leap.streams.runtime.settings import Settings

#: Days that partitions stay: a table that was learned from another day may go back further.
FOR_EVER = 36_500


def learn(
    file: Annotated[
        Path, typer.Argument(help="Table of past jobs, or a folder: CSV, JSON, Parquet, Excel.", exists=True)
    ],
    mapping: Annotated[str, typer.Option(help="Mapping file (YAML), or one that comes with Leap, as slurm.")],
    recipe: Annotated[list[str] | None, typer.Option(help="Recipe to train; repeat for several.")] = None,
    accept: Accept = False,
    as_json: Json = False,
) -> None:
    """Train on a table of past jobs and publish what `leap rank` answers from; no broker, no store.

    The last day of the table is held out to choose and judge the recipe; then all of it is learned.

    Example:
      leap learn examples/jobs.csv --mapping examples/jobs.yaml
    """
    from leap.retrainer.cli.retrain import known
    from leap.retrainer.cli.summary import summary
    from leap.retrainer.night.plan import DEFAULT_RECIPES
    from leap.streams.runtime.logs import configure

    configure(logging.WARNING)
    settings = read_settings()
    catalog = load_catalog(settings.catalog)
    table = read(file, mapping, catalog, accept=accept)
    if not table.jobs:
        raise fail(f"{file}: none of its {table.tally.rows} rows is an attempt; see the reasons above")
    report = _train(settings, catalog, table, known(recipe or DEFAULT_RECIPES))
    if as_json:
        print(msgspec.json.encode(report).decode())
        return
    print(summary(report))
    if not report.promoted:
        raise fail(
            f"{report.artifact} was not promoted; `leap artifact promote {report.artifact}` does so all the same"
        )


def _train(settings: "Settings", catalog: Catalog, table: "Table", recipes: tuple[str, ...]) -> "Report":
    """One training run over all days of the table, whose attempts it merges into the partitions first."""
    from leap.predictor.artifacts.open import open_store
    from leap.predictor.artifacts.signing import SigningKey
    from leap.retrainer.dataset.feature_table import attempt_of
    from leap.retrainer.dataset.partitions import Partitions
    from leap.retrainer.night.pipeline import Night
    from leap.retrainer.night.plan import Plan
    from leap.retrainer.storage.files import open_files
    from leap.retrainer.storage.guarded import Guarded
    from leap.retrainer.storage.lease import night_lock

    days = [completed.finished_at.date() for _, _, completed in table.jobs]
    window = (max(days) - min(days)).days + 1
    plan = Plan(
        night=max(days) + timedelta(days=1),
        window_days=max(window, 2),
        accept_anomalies=True,
        keep_days=FOR_EVER,
        recipes=recipes,
    )
    key = SigningKey(Path(settings.signing_key)) if settings.signing_key else None
    with night_lock(settings.partitions) as assert_held:
        night = Night(
            Partitions(settings.partitions, catalog, Guarded(open_files(settings.partitions), assert_held)),
            open_store(settings.artifacts, trusted_keys=settings.trusted_keys),
            catalog,
            ingest=lambda into: into.ingest(map(attempt_of, table.jobs)),
            key=key,
        )
        return night.run(plan)
