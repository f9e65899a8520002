"""What a launcher links in opens no socket, writes nothing, has one thread, and lets forked children end."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.codec import encode
from tests.artifacts import night_over, past
from tests.builders import MODEL, submission
from tests.predictor.routing import launching

ROOT = Path(__file__).parents[3]
#: Of the kernel, where the tool is there: what libraries do behind Python's back.
STRACE = shutil.which("strace")
CALLS = "trace=network,clone,clone3,fork,vfork,openat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat"


@pytest.fixture(scope="module", params=["structured", "boosted"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    store, _ = night_over(tmp_path_factory.mktemp(request.param), past(), recipe=request.param)
    return store


def launch(store: LocalStore, tmp_path: Path, *prefix: str) -> dict[str, Any]:
    """The report of a launcher whose home cannot be written to."""
    job, home = tmp_path / "job.json", tmp_path / "home"
    job.write_bytes(encode(submission("new", job_name="team/job-3x", model_type="model-3", model=MODEL)))
    home.mkdir(mode=0o500)
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment = kept | {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}
    command = [*prefix, sys.executable, "-m", launching.__name__, str(store.root), str(job)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert not list(home.iterdir())
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_launcher_is_silent_and_its_children_end(store: LocalStore, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    report = launch(store, tmp_path, *([STRACE, "-f", "-qq", "-e", CALLS, "-o", str(trace)] if STRACE else []))
    assert report["outcome"] == {"before": True, "ranked": True, "after": True, "spawned": True}
    assert report["did"] == []
    # numpy's linear algebra brings its own, one a core unless OPENBLAS_NUM_THREADS says otherwise; Leap, once it ranks,
    # the one that keeps the deadline.
    threads = report["threads"]
    assert threads["import"] == threads["numpy"]
    assert threads["rank"] <= threads["numpy"] + 1
    if STRACE:
        calls = [line.partition(" ")[2].strip() for line in trace.read_text().splitlines()]
        strange = [
            call for call in calls
            if re.match(r"(socket|connect|sendto|sendmsg|bind|listen|mkdir|rename|unlink)", call)
            or (call.startswith("openat") and re.search(r"O_(WRONLY|RDWR|CREAT)", call) and "/dev/" not in call)
        ]  # fmt: skip
        assert strange == []
