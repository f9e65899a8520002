"""The README says what is: its table of variables, and commands that exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from leap.streams.runtime.settings import VARIABLES

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = sorted(set(re.findall(r"(?m)^\| `leap ([a-z-]+)", README)))


def test_the_table_of_variables_is_that_of_the_code() -> None:
    table = README.split("<!-- settings -->")[1].split("<!-- /settings -->")[0]
    rows = [f"| `{one.name}` | {f'`{one.default}`' if one.default else ''} | {one.meaning} |" for one in VARIABLES]
    assert table.strip().splitlines()[2:] == rows


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name: str) -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "leap", name, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert "needs the extra" not in asked.stdout


def test_every_subcommand_of_a_group_is_there() -> None:
    for line in re.findall(r"(?m)^\| `leap [^|]*\|", README):
        group, *others = [name.split() for name in re.findall(r"`([^`]*)`", line)]
        names = ([group[2]] if len(group) > 2 and group[2].isalpha() and group[2].islower() else []) + [
            other[0] for other in others
        ]
        if not names:
            continue
        asked = subprocess.run(
            [sys.executable, "-m", "leap", group[1], "--help"], capture_output=True, text=True, timeout=60, check=False
        )
        missing = [name for name in names if not re.search(rf"\b{name}\b", asked.stdout)]
        assert not missing, f"leap {group[1]} has no {missing}"
