"""The ``leap`` command: the commands of every layer under one name, each imported when it is called.

The table of :mod:`leap.commands` is all that ``leap --help`` reads. Modules of commands import at their top what their
parameters need, and inside of functions what the work needs: so ``leap COMMAND --help`` is quick, and needs no extra.
A command whose extra is not installed says what to install.
"""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from leap import __version__
from leap.commands import COMMANDS, PACKAGES, PANELS, Command
from leap.predictor.cli.errors import error_boundary, fail
from leap.predictor.cli.terminal import tolerate
from leap.schemas.distribution import install_command


class _Group(TyperGroup):
    """A group whose help tells what each command does in full, in plain text: drawing boxes takes 0.1 s."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands into the help."""
        for title, rows in self.sections():
            with formatter.section(title):
                formatter.write_dl(rows)

    def sections(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Titles, and under each the names of commands with what they do."""
        yield "Commands", [(name, summary(command)) for name, command in self.commands.items()]


class _Commands(_Group):
    """All commands, behind the one boundary that makes sentences of errors."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, for the completion of a shell."""
        return [name for _, rows in self.sections() for name, _ in rows]

    def sections(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """The table, without what is not installed."""
        for title, commands in PANELS.items():
            if rows := [(command.name, command.help) for command in commands if _is_there(command)]:
                yield title, rows

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command = COMMANDS[cmd_name]
        if not _is_there(command):
            raise fail(f"leap {cmd_name} is a developer's tool: run it from a checkout")
        return load(command)

    def invoke(self, ctx: Any) -> object:
        """Run one."""
        with error_boundary():
            return super().invoke(ctx)


def load(command: Command) -> Any:
    """Import a command, as Click sees it."""
    module, attribute = command.place.split(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        target.info.cls = _Group
        target.rich_markup_mode = None
        loaded: Any = get_group(target)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(command.name)(target)
        loaded = get_command(single)
    for member in (loaded, *getattr(loaded, "commands", {}).values()):
        member.help = member.help.replace(
            "\n\nExample", "\n\n\b\nExample"
        )  # Click's mark of lines that it must not join
    return loaded


def summary(command: Any) -> str:
    """First paragraph of a command's help, in one line."""
    return " ".join(command.help.partition("\n\n")[0].split())


def _is_there(command: Command) -> bool:
    try:
        return find_spec(command.place.partition(":")[0]) is not None
    except ModuleNotFoundError:  # its package
        return False


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"leap {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def leap(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Look before you launch: predicted training throughput per hardware type, as a ranked preference list."""
    if not {"-h", "--help"} & {*sys.argv}:  # which is to be quick
        from leap.streams.runtime.settings import warn_of_unknown

        warn_of_unknown(os.environ)
    if os.environ.get("NO_COLOR"):
        context.color = False  # of this and of the commands below


def _extra(missing: str | None) -> str | None:
    """Extra that brings a package: the command's own if that has it."""
    own = COMMANDS[sys.argv[1]].extra if sys.argv[1:2] and sys.argv[1] in COMMANDS else ""
    if any(missing in PACKAGES[extra] for extra in own.split(",") if extra):
        return own
    return next((extra for extra, packages in PACKAGES.items() if missing in packages), None)


def main() -> None:
    """Run the command."""
    tolerate(sys.stdout, sys.stderr)
    try:
        app()
    except ImportError as error:
        cause = error.__cause__ or error  # fsspec says in words of its own that s3fs is missing
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        if extra := _extra(missing):
            fail(f"{missing} is not installed; run: {install_command(extra)}")
        elif cause is not error and missing:
            fail(f"{error}; run: pip install {missing}")
        else:
            raise
        sys.exit(1)
    except KeyboardInterrupt:  # while modules were loading: what runs ends by itself
        sys.exit(130)
