"""The table of commands, and what their help texts say."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from leap import cli
from leap.commands import COMMANDS, FORMER, PANELS, Command
from tests.commands import invoke

TABLE = [command for commands in PANELS.values() for command in commands]
#: Of words that help may not show: types of flags, and switches to turn off what is off.
NOISE = re.compile(r"<bool>|--no-")
TELL_MODULES = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from leap.cli import main
main()
"""


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command that runs something, by the words after ``leap``."""
    for name, command in COMMANDS.items():
        loaded = cli.load(command)
        below = getattr(loaded, "commands", None)
        yield from ((f"{name} {sub}", each) for sub, each in below.items()) if below else [(name, loaded)]


LEAVES = dict(leaves())


def modules_after(*arguments: str) -> set[str]:
    """Modules that a fresh process has loaded when a command has ended."""
    run = subprocess.run([sys.executable, "-c", TELL_MODULES, *arguments], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


@pytest.mark.parametrize("command", TABLE, ids=lambda command: command.name)
def test_the_table_says_what_the_command_says(command: Command) -> None:
    assert cli.summary(cli.load(command)) == command.help


def test_every_name_is_there_once() -> None:
    assert len(COMMANDS) == len(TABLE) + len(FORMER)
    assert list(PANELS) == ["Launcher", "Operator", "Analyst", "Developer"]


def test_help_has_every_command_under_who_uses_it() -> None:
    for flag in ("-h", "--help"):
        shown = invoke(flag).stdout
        for (title, commands), following in zip(PANELS.items(), [*PANELS, ""][1:], strict=True):
            section = shown.partition(f"\n{title}:\n")[2].partition(f"\n{following}:\n")[0]
            assert all(f"\n  {command.name} " in f"\n{section}" for command in commands)
        assert not NOISE.search(shown)
        assert all(f"\n  {former.name} " not in shown for former in FORMER)


@pytest.mark.parametrize("words", LEAVES)
def test_a_command_has_help_with_an_example(words: str) -> None:
    short, long = (invoke(*words.split(), flag) for flag in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert re.search(r"\n  Examples?:\n    \S", short.stdout)
    assert not NOISE.search(short.stdout)


@pytest.mark.parametrize("words", LEAVES)
def test_an_example_can_be_run_as_written(words: str) -> None:
    examples = re.findall(r"^ +(?:LEAP_\w+=\S+ )?leap (.+)$", LEAVES[words].help, re.MULTILINE)
    assert examples
    for example in examples:
        begin, arguments = shlex.split(example)[: len(words.split())], shlex.split(example)[len(words.split()) :]
        assert " ".join(begin) == words or words in {former.name for former in FORMER}
        context = typer.Context(LEAVES[words], resilient_parsing=False)
        LEAVES[words].make_parser(context).parse_args(args=arguments)


def test_help_imports_no_command_and_nothing_heavy() -> None:
    loaded = modules_after("--help")
    assert not {command.place.partition(":")[0] for command in COMMANDS.values()} & loaded
    assert not {"msgspec", "numpy", "pydantic", "rich", "yaml", "fsspec"} & loaded


def test_help_of_rank_imports_nothing_that_ranks() -> None:
    loaded = modules_after("rank", "--help")
    assert "leap.predictor.cli.rank" in loaded
    assert not {"msgspec", "numpy", "rich", "yaml", "fsspec", "onnxruntime"} & loaded


def test_version() -> None:
    assert re.fullmatch(r"leap \d+\.\d+\.\d+\n", invoke("--version").stdout)


def test_a_tool_that_is_not_installed_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [tool._replace(place=f"leap.absent.{tool.name}:app") for tool in PANELS["Developer"]]
    monkeypatch.setitem(PANELS, "Developer", tuple(tools))
    for tool in tools:
        monkeypatch.setitem(COMMANDS, tool.name, tool)
    assert "Developer:" not in invoke("--help").stdout
    asked = invoke("bench", "rank")
    assert (asked.exit_code, asked.stderr) == (1, "leap bench is a developer's tool: run it from a checkout\n")
