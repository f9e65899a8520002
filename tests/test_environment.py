"""Who reads the environment: commands, and few others; a class of the library gets its settings passed in."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("schemas", "predictor", "streams", "retrainer")
#: Modules beside the commands, and why.
ALLOWED = {
    "streams/embedded.py": "a child process gets the environment of its parent",
    "streams/runtime/logs.py": "NO_COLOR is a wish of whoever reads the terminal, not a setting",
    "retrainer/ablation/neural/training.py": "sets a variable of a library before that reads it",
}


def reads_environment(source: str) -> bool:
    """Whether a module asks for a variable, by whatever name it imports what it asks with."""
    names = {"environ", "environb", "getenv", "getenvb"}
    return any(
        (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and names & {alias.name for alias in node.names})
        for node in ast.walk(ast.parse(source))
    )


def test_only_commands_read_the_environment() -> None:
    paths = [path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    reading = {path.as_posix() for path in paths if reads_environment((ROOT / path).read_text(encoding="utf-8"))}
    assert {path for path in reading if "cli" not in Path(path).with_suffix("").parts} == set(ALLOWED)


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("import os\nos.environ['A']", True),
        ("import os as o\no.getenv('A')", True),
        ("from os import environ", True),
        ("from os import getenv as g", True),
        ("import os\nos.getpid()", False),
        ("def f(environ): return environ['A']", False),
    ],
)
def test_every_way_to_read_it_is_seen(source: str, reads: bool) -> None:
    assert reads_environment(source) is reads
