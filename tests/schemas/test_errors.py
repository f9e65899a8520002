"""One root for all exceptions, and its tree as drawn."""

import ast
import builtins
import inspect
from importlib import import_module
from pathlib import Path

from leap.schemas import errors
from leap.streams.kafka.message import Rewind

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("schemas", "predictor", "streams", "retrainer")
#: Control flow, which must not end in a handler of errors.
SIGNALS = {Rewind}


def exceptions() -> set[type[BaseException]]:
    """Every exception that a module of Leap defines; only modules that define one are imported."""
    names = {name for name, kind in inspect.getmembers(builtins, inspect.isclass) if issubclass(kind, BaseException)}
    classes = [
        (path, node)
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    defined: set[type[BaseException]] = set()
    while True:
        new = [
            (path, node)
            for path, node in classes
            if node.name not in names and names & {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        ]
        if not new:
            return defined
        for path, node in new:
            module = import_module("leap." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
            defined.add(getattr(module, node.name))
            names.add(node.name)


def drawn() -> dict[str, tuple[str, str]]:
    """Name of each class in the docstring's tree to the name above it and the module beside it."""
    text = inspect.cleandoc(errors.LeapError.__doc__ or "").split("::\n\n")[1].split("\n\n")[0]
    above: list[str] = []
    tree = {}
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 4 - 1
        name, module = line.split()
        tree[name] = (above[depth - 1] if depth else "", module)
        above[depth:] = [name]
    return tree


def test_the_tree_is_as_drawn() -> None:
    expected = {
        kind.__name__: (kind.__bases__[0].__name__, kind.__module__.removeprefix("leap."))
        for kind in exceptions() - SIGNALS
    }
    assert drawn() == expected | {"LeapError": ("", "schemas.errors")}


def test_every_exception_derives_from_the_root() -> None:
    assert {kind for kind in exceptions() if not issubclass(kind, errors.LeapError)} == SIGNALS
