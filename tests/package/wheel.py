"""The wheel as it is built: of a copy of the sources, by the hooks that pip calls, without an index."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.services import ROOT

LAYERS = ("schemas", "predictor", "streams", "retrainer")
#: What the build takes from the repository.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "leap", *LAYERS)
#: Packages of a developer's tools, which stay out of the wheel.
TOOLS = (Path("retrainer", "ablation"), Path("retrainer", "bench"), Path("streams", "bench"))
_HOOK = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def copy_sources(names: Iterable[str], target: Path) -> None:
    """Copy files and folders of the repository, links as links."""
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target / name)


def build(kind: str, source: Path, target: Path) -> Path:
    """The ``wheel`` or ``sdist`` of a folder of sources."""
    command = [sys.executable, "-W", "ignore", "-c", _HOOK, f"build_{kind}", str(target)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


def packaged_files() -> set[str]:
    """Names in the wheel of all files in the repository that belong there."""
    own = {path.relative_to(ROOT) for path in (ROOT / "leap").iterdir() if path.is_file()}
    of_layers = {path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*") if path.is_file()}
    return {str(path) for path in own} | {
        str(Path("leap", path))
        for path in of_layers
        if "__pycache__" not in path.parts and not any(path.is_relative_to(tool) for tool in TOOLS)
    }
