"""The plan for a new hardware type: telling, different jobs that fit there, and never ran there."""

from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from predictor.jobs import HardwareTable
from predictor.keys import hashed
from predictor.structured import EXTRAS, Structured, rows_of
from predictor.structured_fit import StructuredRecipe
from retrainer.bootstrap_cli import app
from retrainer.exploration import Pick, candidates, choose, doubt, plan
from retrainer.partitions import Partitions
from retrainer.table import frame, jobs, log_target
from schemas.events import THROUGHPUT, JobAttempt
from tests.artifacts import NIGHT, night_over, past
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


def test_without_a_structured_model_the_most_frequent_are_chosen() -> None:
    rows = frame([*jobs_of("a", 2), *jobs_of("b", 5), *jobs_of("c", 3)])
    picks = plan(rows, TABLE, "newest", 2, THROUGHPUT)
    assert [(pick.family, pick.attempts, pick.doubt_left) for pick in picks] == [("b", 50.0, 50.0), ("c", 30.0, 20.0)]


@pytest.fixture(scope="module")
def model() -> Structured:
    """Of jobs on two of three hardware types."""
    rows = [one for one in past(6, 60) if one.completed.hardware_type != "newest"]
    table = frame(rows)
    y = log_target(table, THROUGHPUT)
    ran_on = table["hardware_type"].to_numpy(dtype=object)
    recipe = StructuredRecipe(TABLE, EXTRAS)
    recipe.fit(rows_of(jobs(table), np.arange(len(table)), ran_on), y)
    return recipe.model_


def test_the_doubt_is_that_of_the_model_s_own_variance(model: Structured) -> None:
    """The diagonal is what the model itself says of each job; off it, runs of one model type tell of one another."""
    rows = frame([one for one in past(6, 60) if one.completed.hardware_type != "newest"])
    families = candidates(rows, TABLE, int(TABLE.index(["newest"])[0]), THROUGHPUT)
    covariance, noise = doubt(model, families, "newest")
    asked = rows_of(jobs(families), np.arange(len(families)), np.array(["newest"] * len(families), dtype=object))
    points = model.prior.encoding.points(asked)
    _, own = model.process.at(asked, hashed(asked))
    np.testing.assert_allclose(np.diag(covariance), model.prior.at(points)[1] + own, rtol=1e-6)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9
    assert noise == model.process.variances.noise
    kind = families["model_type"].to_numpy()
    same = covariance[(kind[:, None] == kind) & ~np.eye(len(kind), dtype=bool)]
    assert same.mean() > covariance[kind[:, None] != kind].mean()


def test_a_run_lessens_doubt_as_conditioning_does() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    covariance, noise, weight = root @ root.T, 0.3, rng.uniform(1, 5, 8)
    chosen, left = choose(covariance, noise, weight, 3)
    seen = covariance[np.ix_(chosen, chosen)] + noise * np.eye(3)
    after = covariance - covariance[:, chosen] @ np.linalg.solve(seen, covariance[chosen])
    assert left[-1] == pytest.approx(float(weight @ np.diag(after) / (weight @ np.diag(covariance))))
    for other in set(range(8)) - {chosen[0]}:
        alone = covariance[:, other] ** 2 / (covariance[other, other] + noise)
        best = covariance[:, chosen[0]] ** 2 / (covariance[chosen[0], chosen[0]] + noise)
        assert weight @ best >= weight @ alone


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
def test_choices_are_distinct_and_a_longer_plan_goes_on(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, weight = rng.normal(size=(12, 4)), rng.uniform(0.1, 5, 12)
    chosen, left = choose(root @ root.T, 0.1, weight, count)
    assert len(set(chosen)) == count
    assert left == sorted(left, reverse=True)
    assert choose(root @ root.T, 0.1, weight, max(1, count - 1))[0] == chosen[: max(1, count - 1)]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAP_PARTITIONS", str(tmp_path / "partitions"))
    monkeypatch.setenv("LEAP_ARTIFACTS", str(tmp_path / "artifacts"))
    main = typer.Typer()
    main.add_typer(app, name="bootstrap")
    run = CliRunner().invoke
    arguments = ["bootstrap", "plan", "--hardware", "B200", "--jobs", "3"]
    assert "leap retrain" in run(main, arguments).stderr
    Partitions(tmp_path / "partitions").absorb(past())
    assert "no structured model in production" in run(main, arguments).stderr
    night_over(tmp_path, past(4, 40), NIGHT - timedelta(days=6), recipe="structured")
    done = run(main, [*arguments, "--json"])
    assert "no structured model" not in done.stderr
    assert done.exit_code == 0, done.stderr
    picks = msgspec.json.decode(done.stdout, type=list[Pick])
    assert len({pick.family for pick in picks}) == 3
    assert "3 jobs" in run(main, arguments).stdout
    refused = run(main, ["bootstrap", "plan", "--hardware", "nowhere"])
    assert refused.exit_code == 1 and "not in the catalog" in refused.stderr
