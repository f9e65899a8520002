"""The wheel in a fresh environment with nothing but what it depends on, beside folders of the layers' names."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.router import Router
from leap.schemas.codec import encode
from leap.schemas.distribution import DISTRIBUTION
from tests.builders import MODEL, submission
from tests.package.wheel import LAYERS
from tests.services import ROOT

JOB = submission("new", job_name="team/job-3x", model_type="model-3", model=MODEL)

LAUNCHER = """
import json, sys
import schemas.job, predictor, streams, retrainer
from leap import JobSubmitted, Router, open_store
import msgspec

router = Router(open_store(sys.argv[1]), deadline=60.0)
assert router.refresh()
answer = router.rank(msgspec.json.decode(schemas.job.read(), type=JobSubmitted))
try:
    from leap import Launcher
except ImportError as error:
    reason = str(error)
print(json.dumps({
    "ranked": [[candidate.hardware_type, candidate.throughput] for candidate in answer.ranked],
    "own": [module.__file__ for module in (schemas, predictor, streams, retrainer)],
    "leap": sys.modules["leap"].__file__,
    "reason": reason,
}))
"""


def dependencies(wheel: Path, extra: str = "") -> dict[str, Distribution]:
    """What the wheel depends on, by default without any extra, and what that does, as it is installed here."""
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        wanted = Parser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist", [])
    extras = {extra}
    own = {need for need in map(Requirement, wanted) if canonicalize_name(need.name) == DISTRIBUTION}
    while more := {name for need in own if applies(need, extras) for name in need.extras} - extras:
        extras |= more
    closure: dict[str, Distribution] = {}
    while wanted:
        need = Requirement(wanted.pop())
        name = canonicalize_name(need.name)
        if name not in {*closure, DISTRIBUTION} and applies(need, extras):
            closure[name] = distribution(name)
            wanted += closure[name].requires or []
    return closure


def applies(need: Requirement, extras: Iterable[str]) -> bool:
    """Whether something is needed with any of some extras."""
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)


def environment(wheel: Path, folder: Path, extra: str = "") -> Path:
    """The interpreter of an environment of its own; dependencies are links to those installed here."""
    venv.create(folder, symlinks=True)
    interpreter = folder / "bin" / "python"
    [packages] = folder.glob("lib/python*/site-packages")
    for found in dependencies(wheel, extra).values():
        for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(found.locate_file(name))))
    for command in (["install", "-q", "--no-index", str(wheel)], ["check"]):  # which fails if anything is missing
        pip(interpreter, *command)
    return interpreter


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a launcher installs."""
    return environment(wheel, tmp_path_factory.mktemp("environment"))


def pip(interpreter: Path, *arguments: str) -> str:
    done = run(Path(sys.executable), "-m", "pip", "--python", str(interpreter), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(interpreter: Path, *arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(interpreter), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_launcher_with_folders_of_the_same_names_ranks(
    python: Path, artifact_store: LocalStore, tmp_path: Path
) -> None:
    for layer in LAYERS:
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "__init__.py").touch()
    (tmp_path / "schemas" / "job.py").write_text(f"def read():\n    return {encode(JOB)!r}\n")
    (tmp_path / "launch.py").write_text(LAUNCHER)

    done = run(python, "launch.py", str(artifact_store.root), folder=tmp_path)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    here = Router(artifact_store, deadline=60.0)
    here.refresh()
    expected = here.rank(JOB).ranked
    assert len(expected) > 1
    assert told["ranked"] == [[candidate.hardware_type, candidate.throughput] for candidate in expected]
    assert told["own"] == [str(tmp_path / layer / "__init__.py") for layer in LAYERS]
    assert Path(told["leap"]).is_relative_to(python.parents[1])
    assert told["reason"] == f"Launcher needs the package confluent_kafka; run: pip install '{DISTRIBUTION}[streams]'"


def test_the_command_says_what_it_needs(python: Path) -> None:
    done = run(python, "-m", "leap", "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"typer is not installed; run: pip install '{DISTRIBUTION}[cli]'\n"


def test_the_first_ten_minutes_of_the_readme(wheel: Path, tmp_path: Path) -> None:
    python = environment(wheel, tmp_path / "environment", extra="learn")
    assert not {"confluent-kafka", "redis", "faust-streaming", "prometheus-client"} & {*dependencies(wheel, "learn")}
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in ("learn examples/jobs.csv --mapping examples/jobs.yaml", "rank examples/job.json"):
        done = run(python, "-m", "leap", *command.split(), folder=tmp_path)
        assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^ +1 +A100-SXM-40GB", done.stdout)


def test_nothing_heavy_is_installed(python: Path, wheel: Path) -> None:
    listed = {canonicalize_name(entry["name"]) for entry in json.loads(pip(python, "list", "--format", "json"))}
    assert listed == {*dependencies(wheel), DISTRIBUTION}
    assert not listed & {
        "typer",
        "scikit-learn",
        "scipy",
        "pandas",
        "pyarrow",
        "onnx",
        "confluent-kafka",
        "redis",
        "jax",
    }


def test_a_tool_of_a_developer_is_no_command_there(wheel: Path, tmp_path: Path) -> None:
    python = environment(wheel, tmp_path / "environment", extra="cli")
    done = run(python, "-m", "leap", "--help", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    commands = set(re.findall(r"(?m)^\W*([a-z]+) ", done.stdout))
    assert {"rank", "artifact", "describe"} <= commands
    assert not commands & {"ablate", "bench"}
    asked = run(python, "-m", "leap", "bench", "rank", folder=tmp_path)
    assert (asked.returncode, asked.stderr) == (1, "leap bench is a developer's tool: run it from a checkout\n")
