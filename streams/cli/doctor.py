"""``leap doctor``: is all that Leap stands on as it should be, and if not, what to do."""

from typing import Annotated

import msgspec
import typer

from leap.predictor.cli.options import Json
from leap.streams.cli.common import read_settings

COLOURS = {"ok": "green", "warning": "yellow", "fault": "red", "skipped": "bright_black"}


def doctor(
    role: Annotated[
        str,
        typer.Option(help="Ask for the rights of one role only: launcher, history, joiner, ranking, retrainer, …"),
    ] = "",
    as_json: Json = False,
) -> None:
    """Check broker, topics, workers, store, artifacts, catalog, clocks and rights; say what to do about each finding.

    Ends within ten seconds, with status 1 if there is a fault. Nothing is written but one file beside the artifacts,
    where the role may write there, and it is removed.

    Example:
      leap doctor --role ranking
    """
    from leap.streams.doctor.check import CheckContext
    from leap.streams.doctor.runner import examine
    from leap.streams.runtime.acl import ROLES

    if role and role not in ROLES:
        raise typer.BadParameter(f"{role!r} is none of: {', '.join(ROLES)}", param_hint="--role")
    findings = examine(CheckContext(read_settings(), role))
    if as_json:
        print(msgspec.json.encode(findings).decode())
    else:
        for finding in findings:
            typer.secho(f"{finding.state:14}", fg=COLOURS[finding.state], nl=False)
            typer.echo(f"{finding.check:20} {finding.found}")
            if finding.remedy:
                typer.echo(f"{'':14}{'':20} -> {finding.remedy}")
    if any(finding.state == "fault" for finding in findings):
        raise typer.Exit(1)
