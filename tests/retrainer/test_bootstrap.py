"""The plan for a new hardware type: frequent jobs that fit there, and never ran there."""

from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from leap.predictor.features.batch import HardwareTable
from leap.retrainer.bootstrap import Pick, plan
from leap.retrainer.cli.bootstrap import app
from leap.retrainer.dataset.feature_table import frame
from leap.retrainer.dataset.partitions import Partitions
from leap.schemas.events import THROUGHPUT, JobAttempt
from tests.artifacts import past
from tests.builders import CATALOG, MIDNIGHT, attempt, submission

TABLE = HardwareTable(CATALOG)


def jobs_of(family: str, count: int, hardware: str = "basic") -> list[JobAttempt]:
    return [
        attempt(
            submission(f"{family}-{number}", job_name=family, at=MIDNIGHT),
            hardware,
            100.0,
        )
        for number in range(count)
    ]


def test_families_with_most_attempts_are_chosen() -> None:
    rows = frame([*jobs_of("a", 2), *jobs_of("b", 5), *jobs_of("c", 3)])
    picks = plan(rows, TABLE, "newest", 2, THROUGHPUT)
    assert [(pick.family, pick.attempts) for pick in picks] == [("b", 50.0), ("c", 30.0)]
    assert picks == plan(rows, TABLE, "newest", 9, THROUGHPUT)[:2], "a longer plan goes on"


def test_what_ran_there_or_does_not_fit_is_not_chosen() -> None:
    huge = msgspec.structs.replace(
        attempt(submission("huge-1", job_name="huge"), "fast", 1.0), family="huge", architecture={"parameters": 1e13}
    )
    been = attempt(submission("been-there", job_name="been"), "newest", 1.0)
    rows = frame([been, *jobs_of("been", 3), huge, *jobs_of("open", 1)])
    assert [pick.family for pick in plan(rows, TABLE, "newest", 9, THROUGHPUT)] == ["open"]
    with pytest.raises(ValueError, match="no past attempt fits"):
        plan(frame([huge]), TABLE, "newest", 9, THROUGHPUT)
    with pytest.raises(ValueError, match="not in the catalog"):
        plan(rows, TABLE, "nowhere", 9, THROUGHPUT)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAP_PARTITIONS", str(tmp_path / "partitions"))
    main = typer.Typer()
    main.add_typer(app, name="bootstrap")
    run = CliRunner().invoke
    arguments = ["bootstrap", "plan", "--hardware", "B200", "--jobs", "3"]
    assert "leap retrain" in run(main, arguments).stderr
    Partitions(tmp_path / "partitions").ingest(past())
    done = run(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.stderr
    picks = msgspec.json.decode(done.stdout, type=list[Pick])
    assert len({pick.family for pick in picks}) == 3
    assert "3 jobs" in run(main, arguments).stdout
    refused = run(main, ["bootstrap", "plan", "--hardware", "nowhere"])
    assert refused.exit_code == 1 and "not in the catalog" in refused.stderr
