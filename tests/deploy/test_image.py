"""The Dockerfile: what it copies is there, what it installs is whole, and what it starts and asks works."""

import tomllib
import zipfile
from pathlib import Path

from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.liveness import Progress
from tests.deploy.compose import healthy, instructions
from tests.package.wheel import build, copy_sources, packaged_files
from tests.services import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def copied() -> list[str]:
    """What the build takes from the repository."""
    return [
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]


def test_the_image_holds_every_module_and_data_file(tmp_path: Path) -> None:
    copy_sources(copied(), tmp_path)
    with zipfile.ZipFile(build("wheel", tmp_path, tmp_path)) as wheel:
        assert packaged_files() <= set(wheel.namelist())


def test_the_image_installs_extras_that_are_declared() -> None:
    [install] = [rest for name, rest in instructions() if name == "RUN" and "'.[" in rest]
    extras = install.split("'.[")[1].split("]")[0].split(",")
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])
    assert "s3" in extras, "artifacts and partitions may be on S3"
    assert "signing" in extras, "LEAP_TRUSTED_KEYS and LEAP_SIGNING_KEY are variables of every container"


def test_the_image_starts_the_command_as_nobody_special() -> None:
    last = dict(instructions())
    assert last["ENTRYPOINT"] == '["/leap/bin/leap"]'
    assert PROJECT["project"]["scripts"] == {"leap": "leap.__main__:main"}
    uid, gid = last["USER"].split(":")
    assert int(uid) > 0 and int(gid) > 0, "Kubernetes can tell from a number alone that it is not root"


def test_the_health_check_tells_a_worker_that_stalls() -> None:
    now = 0.0
    progress = Progress(lambda: now, stall_s=60)
    with health_server(0, progress) as port:
        progress.assigned([("t", 0)])
        progress.ends({("t", 0): 5})
        assert healthy(port)
        now = 61.0
        assert not healthy(port)
    assert not healthy(port), "nobody is there"


def test_what_is_not_needed_is_not_sent_to_the_build() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", ".leap"} <= set(ignored)
    assert not {Path(name).name for name in copied()} & set(ignored)
