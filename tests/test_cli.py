"""The command where only the base is installed, or an extra is not."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from leap import commands

ROOT = Path(__file__).parents[1]
EXTRAS = frozenset().union(*commands.PACKAGES.values()) - commands.PACKAGES["cli"]

#: As if packages were not there: what they raise when they are not.
WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from leap.cli import main
main()
"""


def run(arguments: str, absent: frozenset[str] = EXTRAS, artifacts: str = "") -> tuple[int, str]:
    """Exit status, and what it says of errors."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=set(absent)), *arguments.split()],
        cwd=ROOT,
        env={"LEAP_ARTIFACTS": artifacts} if artifacts else {},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        ("retrain --date 2026-01-01", "structlog", "retrainer"),  # the command itself cannot be imported
        ("switch set dlrm off", "redis", "streams"),
        ("up --broker-port 1", "redis", "streams,embedded"),
        ("worker ranking", "structlog", "streams"),  # only what it does cannot
        ("dead-letters list", "structlog", "streams"),
        ("doctor", "confluent_kafka", "streams"),
        ("replay --from 2026-01-01 --to 2026-01-02", "confluent_kafka", "retrainer"),
        ("ablate --list", "pandas", "retrainer"),
    ],
)
def test_a_command_says_which_extra_it_needs(arguments: str, missing: str, extra: str) -> None:
    assert run(arguments) == (1, f"{missing} is not installed; run: pip install 'leap-launch[{extra}]'\n")


def test_a_store_on_s3_says_which_extra_it_needs() -> None:
    said = (1, "s3fs is not installed; run: pip install 'leap-launch[s3]'\n")
    assert run("artifact list", artifacts="s3://models/leap") == said


def test_what_no_extra_brings_stays_a_traceback() -> None:
    status, said = run("artifact list", frozenset({"fsspec"}), artifacts="s3://models/leap")
    assert status == 1
    assert "pip install" not in said
    assert "ModuleNotFoundError: No module named 'fsspec'" in said


def test_every_package_of_an_extra_is_known() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    imported: dict[str, set[str]] = {}
    for name, distributions in packages_distributions().items():
        for distribution in distributions:
            imported.setdefault(distribution.lower().replace("_", "-"), set()).add(name)
    for extra, packages in commands.PACKAGES.items():
        names = {re.split(r"[>\[]", each)[0] for each in extras[extra]} - {"rich", "leap-launch"}
        assert all(packages & imported[name] for name in names), extra
    assert set(commands.PACKAGES) == set(extras)
