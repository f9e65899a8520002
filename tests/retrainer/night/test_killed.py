"""A night that is killed, or that meets another: production stays whole, and a rerun completes."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.local_store import LocalStore
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import report_name
from leap.schemas.events import THROUGHPUT
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG
from tests.commands import invoke
from tests.retrainer.night.night_to_signal import PLAN
from tests.services import ROOT

BEFORE_PRODUCTION_MOVES = ("absorb", "window", "train", "evaluate", "snapshot", "move")
AFTER = ("publish", "prune", "report")


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The places of a fleet after the night before."""
    root = tmp_path_factory.mktemp("yesterday")
    partitions = Partitions(root / "partitions")
    partitions.ingest(past(days=9))
    plan = replace(PLAN, night=NIGHT - timedelta(days=1))
    assert Night(partitions, LocalStore(root / "artifacts"), CATALOG).run(plan).promoted
    return root


@pytest.mark.parametrize("point", [*BEFORE_PRODUCTION_MOVES, *AFTER])
def test_a_night_killed_at_any_step_leaves_production_whole_and_a_rerun_completes(
    point: str, yesterday: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(yesterday, tmp_path / "fleet")
    store, partitions = LocalStore(root / "artifacts"), Partitions(root / "partitions")
    before = store.pointer(THROUGHPUT)
    assert start(root, point, signal.SIGKILL).wait() == -signal.SIGKILL
    after = store.pointer(THROUGHPUT)
    assert after is not None
    assert (after == before) is (point in BEFORE_PRODUCTION_MOVES)
    for version in store.versions(THROUGHPUT):
        artifacts.load(store.folder(THROUGHPUT, version))
    assert bool(partitions.files.names(report_name(THROUGHPUT, NIGHT))) is (point == "report")

    night = Night(partitions, store, CATALOG, ingest=lambda into: into.ingest(past()))
    report = night.run(PLAN)
    now = store.pointer(THROUGHPUT)
    assert now is not None
    assert (now.version, report.promoted) == (report.artifact, True)
    assert set(store.versions(THROUGHPUT)) == {now.version, now.previous}
    assert partitions.files.names(report_name(THROUGHPUT, NIGHT))
    kept = {one.attempt_id for one in past() if one.completed.finished_at.date() >= NIGHT - timedelta(days=9)}
    assert set(partitions.read(partitions.days())["attempt_id"]) == kept
    assert not [path for path in root.rglob(".*draft*") if path.exists()]


def test_a_second_night_says_that_another_is_running(yesterday: Path, tmp_path: Path) -> None:
    root = shutil.copytree(yesterday, tmp_path / "fleet")
    first = start(root, "window", signal.SIGSTOP)
    try:
        os.waitpid(first.pid, os.WUNTRACED)
        environment = {"LEAP_PARTITIONS": str(root / "partitions"), "LEAP_ARTIFACTS": str(root / "artifacts")}
        second = invoke("retrain", "--offline", "--date", NIGHT.isoformat(), env=environment)
        assert second.exit_code == 1
        assert "another night is running" in second.output
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait() == 0
    [report] = Partitions(root / "partitions").files.names(report_name(THROUGHPUT, NIGHT))
    assert report


def start(root: Path, point: str, number: signal.Signals) -> "subprocess.Popen[bytes]":
    """The night in a process of its own."""
    command = [sys.executable, "-m", "tests.retrainer.night.night_to_signal", str(root), point, str(int(number))]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
