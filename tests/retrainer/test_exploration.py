"""The plan for a new hardware type: telling, different jobs that fit there, and never ran there."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from predictor.jobs import HardwareTable
from retrainer.bootstrap_cli import app
from retrainer.exploration import Pick, choose, plan
from retrainer.partitions import Partitions
from retrainer.table import frame
from schemas.events import THROUGHPUT, JobAttempt
from tests.artifacts import past
from tests.builders import CATALOG, MIDNIGHT, attempt, submission

TABLE = HardwareTable(CATALOG)


def jobs_of(family: str, count: int, hardware: str = "basic", **job: float) -> list[JobAttempt]:
    return [
        attempt(
            submission(f"{family}-{number}", job_name=family, batch_size=job.get("batch", 64.0), at=MIDNIGHT),
            hardware,
            job.get("speed", 100.0),
        )
        for number in range(count)
    ]


def test_two_kinds_of_jobs_are_both_chosen() -> None:
    rows = frame(
        [
            *jobs_of("small/a", 5, batch=8.0), *jobs_of("small/b", 4, batch=9.0), *jobs_of("small/c", 3, batch=10.0),
            *jobs_of("large/a", 4, batch=4096.0, speed=9000.0), *jobs_of("large/b", 3, batch=4000.0, speed=8800.0),
        ]
    )  # fmt: skip
    picks = plan(rows, TABLE, "newest", 2, THROUGHPUT)
    assert {pick.family.partition("/")[0] for pick in picks} == {"small", "large"}
    assert picks[0].family.startswith("small")  # 12 of 19 attempts
    assert sum(pick.stands_for for pick in picks) == pytest.approx(100, abs=0.02)
    assert picks[0].stands_for == pytest.approx(100 * 12 / 19, abs=0.01)


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


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_choices_are_distinct_and_no_worse_than_chance(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, weight = rng.normal(size=(12, 3)), rng.uniform(0.1, 5, 12)
    chosen, nearest = choose(rows, weight, count)
    assert len(set(chosen)) == count
    assert set(nearest.tolist()) <= set(range(count))
    assert all(nearest[row] == order for order, row in enumerate(chosen))
    assert choose(rows, weight, count)[0] == chosen
    assert choose(rows, weight, max(1, count - 1))[0] == chosen[: max(1, count - 1)]  # a longer plan goes on


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAP_PARTITIONS", str(tmp_path))
    main = typer.Typer()
    main.add_typer(app, name="bootstrap")
    run = CliRunner().invoke
    arguments = ["bootstrap", "plan", "--hardware", "B200", "--jobs", "3"]
    assert "leap retrain" in run(main, arguments).stderr
    Partitions(tmp_path).absorb(past())
    done = run(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.stderr
    picks = msgspec.json.decode(done.stdout, type=list[Pick])
    assert len({pick.family for pick in picks}) == 3
    assert "3 jobs" in run(main, arguments).stdout
    refused = run(main, ["bootstrap", "plan", "--hardware", "nowhere"])
    assert refused.exit_code == 1 and "not in the catalog" in refused.stderr
