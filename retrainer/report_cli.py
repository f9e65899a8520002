"""``leap report``: one self-contained HTML file of a night or a replay."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from predictor.cli import fail
from predictor.manifest import ArtifactError
from predictor.store import open_store
from schemas.events import THROUGHPUT
from streams.topics_cli import read_settings


def report(
    out: Annotated[Path, typer.Argument(help="HTML file to write.")],
    night: Annotated[
        datetime | None, typer.Option("--date", formats=["%Y-%m-%d"], help="Night to report on; the last by default.")
    ] = None,
    replay: Annotated[Path | None, typer.Option(help="Folder of a `leap replay --folder`, instead of a night.")] = None,
    target: Annotated[str, typer.Option(help="Prediction target.")] = THROUGHPUT,
) -> None:
    """Write what a night or a replay found: figures, tables, the lookup table beside Leap, the worst families."""
    from retrainer.partitions import Partitions
    from retrainer.report.page import page
    from retrainer.report.rows import of_night, of_replay

    settings = read_settings()
    partitions = Partitions(settings.partitions)
    try:
        if replay:
            subject = of_replay(replay)
        else:
            day = night or _last(partitions.files.names(f"reports/{target}-*.json"), target)
            subject = of_night(partitions, open_store(settings.artifacts), target, day.date())
        out.write_text(page(subject), encoding="utf-8")
    except (FileNotFoundError, ArtifactError) as error:
        raise fail(f"{error}; `leap retrain` makes a night, `leap replay --folder` a replay") from None
    print(out)


def _last(names: list[str], target: str) -> datetime:
    if not names:
        raise FileNotFoundError(f"no night of {target} has a report")
    text = names[-1].removeprefix(f"reports/{target}-").removesuffix(".json")
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
