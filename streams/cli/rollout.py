"""``leap switch``: turn ranking on, off or into shadow, for all or for one model type."""

import getpass
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json
from leap.predictor.cli.terminal import printable
from leap.predictor.routing.rollout import Switch, Switches
from leap.schemas.events import Objective
from leap.streams.cli.common import read_settings
from leap.streams.ranking.rollout_store import DEFAULT, FOLLOW_EVERY_S, SwitchStore
from leap.streams.redis_store.client import connect

app = typer.Typer(
    no_args_is_help=True, help=f"Turn ranking on, off or into shadow; workers follow within {FOLLOW_EVERY_S:g} s."
)

ModelType = Annotated[str, typer.Argument(help="A model type, or * for all that have no switch of their own.")]
Answer = TypeVar("Answer")


@app.command("set")
def set_switch(
    model_type: ModelType,
    mode: Annotated[Literal["on", "off", "shadow"], typer.Argument(help="In force within seconds.")],
    percentage: Annotated[float, typer.Option(min=0, max=100, help="Share of families that `on` reaches.")] = 100.0,
    objective: Annotated[Objective | None, typer.Option(help="How to rank where the job does not say.")] = None,
    by: Annotated[str | None, typer.Option(help="Who changes it; the user of this machine by default.")] = None,
) -> None:
    """Change one switch.

    Examples:
      leap switch set dlrm on --percentage 10
      leap switch set "*" shadow
    """
    switch = Switch(mode=mode, percentage=percentage, objective=objective)
    _show(_ask(lambda store: store.set(model_type, switch, by or getpass.getuser())))


@app.command("unset")
def unset_switch(
    model_type: ModelType,
    by: Annotated[str | None, typer.Option(help="Who changes it; the user of this machine by default.")] = None,
) -> None:
    """Remove a model type's own switch.

    Example:
      leap switch unset dlrm
    """

    def unset(store: SwitchStore) -> Switches:
        known = store.read().by_model_type
        if model_type not in (*known, DEFAULT):
            raise fail(f"{model_type} has no switch of its own; these have: {', '.join(sorted(known)) or 'none'}")
        return store.set(model_type, None, by or getpass.getuser())

    _show(_ask(unset))


@app.command()
def show() -> None:
    """Print the switches in force, as JSON.

    Example:
      leap switch show
    """
    _show(_ask(SwitchStore.read))


@app.command()
def history(count: Annotated[int, typer.Option(min=1, help="How many.")] = 20, as_json: Json = False) -> None:
    """List the latest changes, newest first: who changed what, and when.

    Example:
      leap switch history --count 5
    """
    changes = _ask(lambda store: store.history(count))
    if as_json:
        print(msgspec.json.encode(changes).decode())
        return
    for change in changes:
        what = msgspec.json.encode(change.switch).decode() if change.switch else "removed"
        whom = "all" if change.model_type == DEFAULT else change.model_type
        print(printable(f"{change.at:%Y-%m-%d %H:%M:%SZ}  {change.by}  {whom}  {what}"))


def _show(switches: msgspec.Struct) -> None:
    print(msgspec.json.format(msgspec.json.encode(switches), indent=1).decode())


def _ask(question: Callable[[SwitchStore], Answer]) -> Answer:
    settings = read_settings()
    return question(SwitchStore(connect(settings.redis_url), settings.redis_prefix))
