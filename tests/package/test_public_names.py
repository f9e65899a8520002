"""What ``import leap`` offers, and how little it costs."""

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import leap
from leap import Launcher, Router, open_store, schedulers
from tests.services import ROOT


def under_type_checking() -> dict[str, str]:
    """Name that a type checker sees to the module that it is imported from."""
    tree = ast.parse((ROOT / "leap" / "__init__.py").read_text())
    [block] = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    statements = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in statements for alias in node.names}


def test_what_is_told_is_sorted_and_what_a_type_checker_sees() -> None:
    assert leap.__all__ == sorted(leap.__all__)
    assert set(leap.__all__) == set(under_type_checking())
    assert set(leap.__all__) | {"__version__"} <= set(dir(leap))


@pytest.mark.parametrize(("name", "module"), under_type_checking().items())
def test_each_name_is_what_its_module_defines(name: str, module: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from {module} import {name}", namespace)
    assert getattr(leap, name) is namespace[name]


def test_names_are_those_of_the_layers() -> None:
    assert Router is import_module("leap.predictor.routing.router").Router
    assert open_store.__module__ == "leap.predictor.artifacts.open"
    assert Launcher.__module__ == "leap.streams.launcher.launcher"
    assert schedulers.__name__ == "leap.predictor.routing.schedulers"


def test_another_name_is_an_error_to_python_and_to_a_type_checker() -> None:
    with pytest.raises(AttributeError, match=r"module 'leap' has no attribute 'Rooter'"):
        _ = leap.Rooter  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Rooter'"):
        exec("from leap import Rooter")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_else() -> None:
    program = "import sys; before = {*sys.modules}; import leap; print(*{*sys.modules} - before)"
    names = {name.partition(".")[0] for name in run(program).split()}
    assert names - sys.stdlib_module_names == {"leap"}
    assert run("import sys, leap; print(*(name for name in sys.modules if name[:5] == 'leap.'))").split() == []


def test_a_missing_extra_is_named() -> None:
    program = """
import sys
sys.modules["confluent_kafka"] = None
import leap
try:
    leap.Launcher
except ImportError as error:
    print(error, error.name, sep="\\n")
"""
    told, name = run(program).splitlines()
    assert told == "Launcher needs the package confluent_kafka; run: pip install 'leap-launch[streams]'"
    assert name == "confluent_kafka"
