"""The comparison of families: the rows are the same for all, a run goes on where it stopped, failures stay apart."""

import os
import threading
from multiprocessing import active_children
from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from predictor.features.history import SECONDS_PER_DAY
from retrainer.ablation.cli import ablate
from retrainer.ablation.families import FAMILIES
from retrainer.ablation.family import Context
from retrainer.ablation.measure import RESULTS, Run, measure, measure_all, read
from retrainer.ablation.problem import INPUTS, FleetSource, Problem
from retrainer.ablation.table import Line, as_figure, as_text, lines
from retrainer.ablation.truth import Truth

SOURCE = FleetSource(days=5, per_day=150)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return SOURCE.problem(0)


def test_learned_from_is_what_had_finished_before_the_held_out_day(problem: Problem) -> None:
    ((training, held_out),) = problem.folds()
    start = problem.starts[0] * SECONDS_PER_DAY
    assert len(training) > 400 and len(held_out) > 80
    assert training.rows["finished_at"].max() < start <= held_out.rows["submitted_at"].min()
    count, last_day = held_out.pairs.found["family"][:, [0, 4]].T
    assert np.nanmax(last_day) * SECONDS_PER_DAY < start
    finished = problem.data.rows[problem.data.rows["finished_at"] < start].groupby("family").size()
    expected = held_out.rows["family"].map(finished).fillna(0.0).to_numpy()
    np.testing.assert_array_equal(np.nan_to_num(count), expected)
    np.testing.assert_array_equal(problem.splits["first_seen"], expected == 0)


def test_the_latest_rows_are_learned_from(problem: Problem) -> None:
    ((whole, _),) = problem.folds()
    ((few, held_out),) = msgspec.structs.replace(SOURCE, rows=50).problem(0).folds()
    assert few.rows["attempt_id"].tolist() == whole.rows["attempt_id"].tolist()[-50:]
    assert held_out.rows["attempt_id"].tolist() == problem.held_out.rows["attempt_id"].tolist()


def test_what_is_taken_away_is_neither_learned_from_nor_in_any_history(problem: Problem) -> None:
    name = problem.data.rows["hardware_type"].mode()[0]
    ((training, held_out),) = SOURCE.problem(0, f"hardware_type={name}").folds()
    assert name not in set(training.rows["hardware_type"])
    asked = held_out.rows["hardware_type"].to_numpy() == name
    assert asked.any()
    assert np.isnan(held_out.pairs.found["family_hardware"][asked]).all()


@pytest.mark.parametrize("category", INPUTS)
def test_a_category_that_is_taken_away_is_not_stated(problem: Problem, category: str) -> None:
    ((training, held_out),) = SOURCE.problem(0, category).folds()
    assert held_out.rows["attempt_id"].tolist() == problem.held_out.rows["attempt_id"].tolist()
    np.testing.assert_array_equal(held_out.y, problem.held_out.y)
    for data in (training, held_out):
        for column in INPUTS[category]:
            values = data.rows[column]
            assert (values.isna() | (values == "")).all()
    if category == "history":
        assert all(np.isnan(found).all() for found in held_out.pairs.found.values())


def test_what_cannot_be_taken_away_is_refused() -> None:
    with pytest.raises(ValueError, match="name one of scale, architecture"):
        SOURCE.problem(0, "weather")


@pytest.mark.parametrize("name", ["lookup", "chain", "step-1", "step-4", "step-5", "structured"])
def test_every_family_predicts_each_attempt_and_does_not_look_at_the_answer(
    problem: Problem, name: str, tmp_path: Path
) -> None:
    ((training, held_out),) = problem.folds()
    estimator = FAMILIES[name].make(Context())
    estimator.fit(training)
    mean = estimator.predict(held_out).mean
    assert mean.shape == held_out.y.shape
    hidden = held_out.rows.assign(measured_throughput=1.0)
    np.testing.assert_array_equal(estimator.predict(type(held_out)(hidden, held_out.pairs, mean * 0)).mean, mean)
    assert np.nanmedian(np.abs(mean - held_out.y)) < np.median(np.abs(np.median(training.y) - held_out.y)) / 2
    estimator.save(tmp_path)
    assert any(path.stat().st_size for path in tmp_path.iterdir())


def test_attempts_of_one_family_are_drawn_together() -> None:
    count = 400
    within = np.arange(count) % 4 == 0
    alone, together = (
        Truth(
            y=np.zeros(count),
            family=family,
            basis=np.full(count, ""),
            model_type=np.full(count, ""),
            hardware_type=np.full(count, ""),
            splits={"all": np.ones(count, dtype=bool)},
            ceilings={},
        )
        for family in (np.arange(count), np.zeros(count, dtype=int))
    )
    mean = np.where(within, 0.1, 0.5)
    # The deviation of a share of n independent attempts.
    assert alone.resampled(mean).std() == pytest.approx(100 * np.sqrt(0.25 * 0.75 / count), rel=0.1)
    assert (together.resampled(mean) == 25.0).all()
    # Draws are the same for two predictions, so that they can be compared draw by draw.
    np.testing.assert_allclose(alone.resampled(mean) + alone.resampled(0.6 - mean), 100.0)


def test_runs_go_on_where_they_stopped_and_failures_stay_apart(tmp_path: Path) -> None:
    first = list(measure_all([Run(SOURCE, "no such family"), Run(SOURCE, "lookup")], tmp_path))
    assert [bool(result.error) for result in first] == [True, False]
    kept = (tmp_path / RESULTS).read_bytes()

    def kill() -> None:
        while not (running := active_children()):
            os.sched_yield()
        running[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    again = list(measure_all([Run(SOURCE, "lookup"), Run(SOURCE, "chain")], tmp_path))
    killer.join()
    assert again[0] == first[1]
    assert again[1].error and "BrokenProcessPool" in again[1].error
    assert (tmp_path / RESULTS).read_bytes().startswith(kept)
    assert next(one for one in read(tmp_path) if one.name == "lookup") == first[1]


def test_table_and_figure(tmp_path: Path) -> None:
    results = [
        result
        for seed in (0, 1)
        for name in ("lookup", "chain")
        for result in measure(Run(SOURCE, name, seed), tmp_path)
    ]
    found = lines(results, tmp_path)
    assert [line.name for line in found] == ["(noise)", "(reachable)", "lookup", "chain"]
    each = [result.splits["all"] for result in results if result.name == "chain"]
    assert all(each)
    assert found[3].splits["all"].w20 == pytest.approx(np.mean([score.w20 for score in each if score]), abs=1e-3)
    assert found[3].low < found[3].splits["all"].w20 < found[3].high < found[0].low
    assert "chain" in as_text(found)
    assert as_figure(found, "A < B").count("<rect") == 4 and "A &lt; B" in as_figure(found, "A < B")


def test_the_command(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(ablate)
    run = CliRunner().invoke
    listed = run(app, ["--list"]).stdout
    assert all(name in listed for name in FAMILIES)
    arguments = ["--families", "lookup", "--days", "3", "--per-day", "100", "--folder", str(tmp_path), "--json"]
    done = run(app, arguments)
    assert done.exit_code == 0, done.stderr
    assert [line.name for line in msgspec.json.decode(done.stdout, type=list[Line])] == [
        "(noise)",
        "(reachable)",
        "lookup",
    ]
    assert (tmp_path / "ablation.svg").exists() and (tmp_path / "ablation.json").exists()
    assert "see leap ablate --list" in run(app, ["--families", "oracle"]).stderr
    assert "--mapping" in run(app, ["--source", "jobs.csv"]).stderr
