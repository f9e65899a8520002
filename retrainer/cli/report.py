"""``leap report``: one self-contained HTML file of a night or a replay."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.open import open_store
from leap.predictor.cli.errors import fail, writable
from leap.predictor.cli.options import Target
from leap.predictor.storage.whole_file import write_whole
from leap.schemas.events import THROUGHPUT
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.retrainer.report.subject import Subject


def report(
    out: Annotated[Path, typer.Argument(help="HTML file to write.", callback=writable)],
    night: Annotated[
        datetime | None, typer.Option("--date", formats=["%Y-%m-%d"], help="Night to report on; the last by default.")
    ] = None,
    replayed: Annotated[
        Path | None, typer.Option("--replay", help="Folder of a `leap replay --folder`, instead of a night.")
    ] = None,
    routed_since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Day on which routing began, after days in shadow: adds the saving."),
    ] = None,
    as_png: Annotated[
        bool,
        typer.Option("--png", help="Each figure as PNG too, in a folder of its name (with the extra png)."),
    ] = False,
    target: Target = THROUGHPUT,
) -> None:
    """Write an HTML report of a training run or a replay: figures, tables, the lookup table beside Leap.

    Examples:
      leap report night.html --date 2026-01-08
      leap report replay.html --replay replayed
    """
    if routed_since and target != THROUGHPUT:
        raise fail(f"--routed-since compares throughput: leave it out, or --target {target}")
    from leap.retrainer.report.figures import figures
    from leap.retrainer.report.html_page import page
    from leap.retrainer.report.png import pictures

    try:
        subject = _of_replay(replayed) if replayed else _of_night(target, night, routed_since)
        drawn = list(figures(subject))
        write_whole(out, page(subject, drawn).encode())
        if as_png:
            folder = out.with_suffix("")
            folder.mkdir(exist_ok=True)
            for name, data in pictures(drawn):
                (folder / name).write_bytes(data)
    except (FileNotFoundError, ArtifactError) as error:
        raise fail(f"{error}; `leap retrain` makes a night, `leap replay --folder` a replay") from None
    except ValueError as error:
        raise fail(str(error)) from None
    print(out)


def _of_replay(folder: Path) -> "Subject":
    from leap.retrainer.report.subject import of_replay
    from leap.schemas.hardware import load_catalog

    return of_replay(folder, load_catalog(read_settings().catalog))


def _of_night(target: str, night: datetime | None, routed_since: datetime | None) -> "Subject":
    """A night, the last by default, and what routing has saved since a day if one is given."""
    from leap.retrainer.dataset.partitions import Partitions
    from leap.retrainer.report.subject import of_night
    from leap.retrainer.savings.inputs import saving_since
    from leap.schemas.hardware import load_catalog

    settings = read_settings()
    catalog = load_catalog(settings.catalog)
    partitions = Partitions(settings.partitions, catalog)
    day = night or _last(partitions.files.names(f"reports/{target}-*.json"), target)
    store = open_store(settings.artifacts, trusted_keys=settings.trusted_keys)
    subject = of_night(partitions, store, target, day.date(), settings.premium_efficiency)
    if not routed_since:
        return subject
    saving = saving_since(partitions, store, catalog, routed_since.date(), day.date())
    return replace(subject, saving=saving)


def _last(names: list[str], target: str) -> datetime:
    if not names:
        raise FileNotFoundError(f"no night of {target} has a report")
    text = names[-1].removeprefix(f"reports/{target}-").removesuffix(".json")
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
