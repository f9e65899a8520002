"""``leap retrain``: all targets in one night, and what it says."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from leap.predictor.artifacts.local_store import LocalStore
from leap.retrainer.dataset.partitions import Partitions
from leap.schemas.events import THROUGHPUT
from tests.artifacts import NIGHT, past
from tests.commands import invoke


@pytest.fixture
def partitions(tmp_path: Path) -> Partitions:
    made = Partitions(tmp_path / "partitions")
    made.ingest(past())
    return made


def run(root: Path, *options: str) -> Result:
    environment = {
        "LEAP_PARTITIONS": str(root / "partitions"),
        "LEAP_ARTIFACTS": str(root / "artifacts"),
        "LEAP_JOBLIB_BACKEND": "threading",
    }
    arguments = ["--offline", "--date", NIGHT.isoformat(), "--recipe", "boosted", *options]
    return invoke("retrain", *arguments, env=environment)


def test_a_target_that_cannot_be_learned_does_not_hold_up_the_others(partitions: Partitions, tmp_path: Path) -> None:
    result = run(tmp_path, "--target", "memory", "--target", THROUGHPUT)
    assert result.exit_code == 1
    assert "memory failed: 0 attempts with a positive memory from 2026-02-09 to 2026-03-10" in result.output
    assert "promoted" in result.output
    assert LocalStore(tmp_path / "artifacts").pointer(THROUGHPUT) is not None


def test_the_reports_are_json_for_a_program(partitions: Partitions, tmp_path: Path) -> None:
    result = run(tmp_path, "--json", "--trial")
    assert result.exit_code == 0
    [report] = json.loads(result.stdout)
    assert (report["target"], report["promoted"], report["store"]) == (THROUGHPUT, False, None)
    assert set(report["seconds"]) == {"absorb", "window", "train", "evaluate", "snapshot", "publish", "prune"}


def test_without_partitions_it_says_what_to_do(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "Check `leap worker joiner`, or `leap learn` a table of past jobs" in result.output
