"""The comparison of families: the rows are the same for all, a run goes on where it stopped, failures stay apart."""

import os
import subprocess
import sys
import threading
from datetime import date, timedelta
from multiprocessing import active_children
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.models.accuracy import within
from leap.predictor.models.serving import Prediction
from leap.retrainer.ablation.candidate import Context
from leap.retrainer.ablation.candidates import FAMILIES
from leap.retrainer.ablation.cli import ablate
from leap.retrainer.ablation.held_out import Truth
from leap.retrainer.ablation.leave_group_out import losses
from leap.retrainer.ablation.permutation_importance import importance
from leap.retrainer.ablation.problem import INPUTS, FleetSource, Problem, TableSource
from leap.retrainer.ablation.results_table import as_figure, as_text, lines
from leap.retrainer.ablation.run import RESULTS, Run, measure, measure_all, read
from leap.retrainer.ablation.summary import Comparison
from leap.retrainer.dataset.training_set import TrainingSet

SOURCE = FleetSource(days=5, per_day=150)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return SOURCE.problem(0)


def test_learned_from_is_what_had_finished_before_the_held_out_day(problem: Problem) -> None:
    ((training, held_out),) = problem.folds()
    start = held_out.submitted_day.min() * SECONDS_PER_DAY
    assert len(training) > 400 and len(held_out) > 80
    assert training.table["finished_at"].max() < start <= held_out.table["submitted_at"].min()
    count, last_day = held_out.pairs.history["family"][:, [0, 4]].T
    assert np.nanmax(last_day) * SECONDS_PER_DAY < start
    finished = problem.data.table[problem.data.table["finished_at"] < start].groupby("family").size()
    expected = held_out.table["family"].map(finished).fillna(0.0).to_numpy()
    np.testing.assert_array_equal(np.nan_to_num(count), expected)
    np.testing.assert_array_equal(problem.splits["first_seen"], expected == 0)


def test_the_latest_rows_are_learned_from(problem: Problem) -> None:
    ((whole, _),) = problem.folds()
    ((few, held_out),) = msgspec.structs.replace(SOURCE, rows=50).problem(0).folds()
    assert few.table["attempt_id"].tolist() == whole.table["attempt_id"].tolist()[-50:]
    assert held_out.table["attempt_id"].tolist() == problem.held_out.table["attempt_id"].tolist()


def test_what_is_taken_away_is_neither_learned_from_nor_in_any_history(problem: Problem) -> None:
    name = problem.data.table["hardware_type"].mode()[0]
    ((training, held_out),) = SOURCE.problem(0, f"hardware_type={name}").folds()
    assert name not in set(training.table["hardware_type"])
    asked = held_out.table["hardware_type"].to_numpy() == name
    assert asked.any()
    assert np.isnan(held_out.pairs.history["family_hardware"][asked]).all()


@pytest.mark.parametrize("category", INPUTS)
def test_a_category_that_is_taken_away_is_not_stated(problem: Problem, category: str) -> None:
    ((training, held_out),) = SOURCE.problem(0, category).folds()
    assert held_out.table["attempt_id"].tolist() == problem.held_out.table["attempt_id"].tolist()
    np.testing.assert_array_equal(held_out.y, problem.held_out.y)
    for data in (training, held_out):
        for column in INPUTS[category]:
            values = data.table[column]
            assert (values.isna() | (values == "")).all()
    if category == "history":
        assert all(np.isnan(found).all() for found in held_out.pairs.history.values())


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
    hidden = held_out.table.assign(measured_throughput=1.0)
    np.testing.assert_array_equal(estimator.predict(type(held_out)(hidden, held_out.pairs, mean * 0)).mean, mean)
    assert np.nanmedian(np.abs(mean - held_out.y)) < np.median(np.abs(np.median(training.y) - held_out.y)) / 2
    estimator.save(tmp_path)
    assert any(path.stat().st_size for path in tmp_path.iterdir())


def test_importance_is_what_an_input_is_worth(problem: Problem) -> None:
    class Hosts:
        """Right for attempts that have as many hosts as they have, and wrong for all that exchanged them."""

        def fit(self, training: TrainingSet) -> None:
            self.hosts = dict(
                zip(training.table["attempt_id"], training.pairs.jobs.number("num_trainers"), strict=True)
            )

        def predict(self, data: TrainingSet) -> Prediction:
            own = data.table["attempt_id"].map(self.hosts).to_numpy() == data.pairs.jobs.number("num_trainers")
            return Prediction(np.where(own, data.y, data.y + 1))

        def save(self, folder: Path) -> None:
            raise NotImplementedError

    estimator = Hosts()
    estimator.fit(problem.held_out)
    lost = importance(estimator, problem.held_out)
    share = problem.held_out.table["num_trainers"].value_counts(normalize=True)
    # Two attempts drawn at random differ in their hosts with this probability.
    assert set(lost) == {"scale", "num_trainers"} and lost["scale"] == lost["num_trainers"]
    assert lost["scale"] == pytest.approx(100 * (1 - (share**2).sum()), abs=8)


def test_attempts_of_one_family_are_drawn_together() -> None:
    count = 400
    within = np.arange(count) % 4 == 0
    alone, together = (
        Truth(
            y=np.zeros(count),
            family=family,
            model_type=np.full(count, ""),
            hardware_type=np.full(count, ""),
            splits={"all": np.ones(count, dtype=bool)},
            ceilings={},
        )
        for family in (np.arange(count), np.zeros(count, dtype=int))
    )
    mean = np.where(within, 0.1, 0.5)
    # The deviation of a share of n independent attempts.
    every = alone.splits["all"]
    assert alone.resampled(mean, every).std() == pytest.approx(100 * np.sqrt(0.25 * 0.75 / count), rel=0.1)
    assert (together.resampled(mean, every) == 25.0).all()
    # Draws are the same for two predictions, so that they can be compared draw by draw.
    np.testing.assert_allclose(alone.resampled(mean, every) + alone.resampled(0.6 - mean, every), 100.0)


def test_runs_go_on_where_they_stopped_and_failures_stay_apart(tmp_path: Path) -> None:
    others = set(active_children())  # of tests before, as joblib's, which wait for more work

    def kill() -> None:
        while not (running := set(active_children()) - others):
            os.sched_yield()
        running.pop().kill()

    killer = threading.Thread(target=kill)
    killer.start()
    first = list(measure_all([Run(SOURCE, "chain"), Run(SOURCE, "lookup")], tmp_path))
    killer.join()
    assert first[0].error and "BrokenProcessPool" in first[0].error
    assert not first[1].error and first[1].cost and first[1].cost.size > 0
    kept = (tmp_path / RESULTS).read_bytes()
    assert list(measure_all([Run(SOURCE, "lookup")], tmp_path)) == first[1:]
    assert (tmp_path / RESULTS).read_bytes() == kept
    assert read(tmp_path) == first


def test_a_fit_does_not_outlive_a_command_that_was_killed() -> None:
    script = """
import os, signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from leap.retrainer.bench.resource_meter import end_with_parent
with ProcessPoolExecutor(1, get_context("spawn"), initializer=end_with_parent) as process:
    print(process.submit(os.getpid).result(), flush=True)
    process.submit(signal.pause).result()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout and int(running.stdout.readline()) != running.pid
        running.kill()
        assert running.stdout.read() == ""  # its end comes once the process that fits has closed it too


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


def test_a_table_is_fitted_anew_every_few_days(tmp_path: Path) -> None:
    days = (0, 1, 10, 15, 40, 41, 60, 61)
    jobs = pd.DataFrame(
        {
            "round": "r1", "status": "success", "resubmission": False, "suspect": None, "num_nodes": 1,
            "job_name": [f"{'ab'[day % 2]}/result_{day}" for day in days], "model_type": "bert", "hardware_type": "T4",
            "start_time": [f"{date(2024, 1, 1) + timedelta(day)}T08:00:00Z" for day in days], "run_seconds": 60,
            "gpus_per_node": 8, "batch_size": 64, "max_seq_len": None, "grad_accum": None, "optimizer": "lamb",
            "throughput": [10.0 * 2**place for place in range(8)],
        }
    )  # fmt: skip
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    source = TableSource(str(tmp_path / "jobs.csv"), "mlperf", every=20, warm_up=5)
    problem = source.problem(0)
    first = problem.data.submitted_day[0]
    assert [data.submitted_day.min() - first for _, data in problem.folds()] == [10, 40, 60]
    assert [(len(past), len(asked)) for past, asked in problem.folds()] == [(2, 2), (4, 2), (6, 2)]
    (result,) = measure(Run(source, "lookup"), tmp_path)
    throughput = jobs["throughput"].to_numpy()
    medians = [np.median(throughput[:seen]) for seen in (2, 2, 4, 4, 6, 6)]
    np.testing.assert_allclose(np.exp(result.predicted(tmp_path)["mean"]), medians)
    assert result.splits["seen"] and result.splits["seen"].n == 6 and result.splits["unseen"] is None
    with pytest.raises(ValueError, match="shorten --warm-up"):
        msgspec.structs.replace(source, warm_up=100).problem(0)


def test_losses_are_those_of_the_attempts_that_were_taken_away(problem: Problem, tmp_path: Path) -> None:
    held_out = problem.held_out
    kind = held_out.table["model_type"].mode()[0]
    runs = [Run(SOURCE, name, 0, away) for name in ("chain", "step-1") for away in ("", f"model_type={kind}")]
    results = [result for run in runs for result in measure(run, tmp_path)]
    loss, _ = losses(results, tmp_path)
    of_kind = held_out.table["model_type"].to_numpy() == kind
    mean = results[0].predicted(tmp_path)["mean"]
    hit = within(np.exp(mean), np.exp(held_out.y), 20)[of_kind]
    # Without an attempt of its model type the chain says 1 sample/s.
    expected = (of_kind.sum(), round(100 * hit.mean(), 1), 0.0, 0.0)
    assert (loss.attempts, loss.w20_with, loss.w20_without, loss.coverage) == expected
    assert loss.low < loss.w20_with < loss.high


def test_groups_of_a_table_are_held_out(tmp_path: Path) -> None:
    """Every attempt once, in the order of submission, from a fit and a history without its model type."""
    (tmp_path / "map.yaml").write_text(
        "attempt_id: n\njob_name: model\nmodel_type: model\nhardware_type: {constant: T4}\nsubmitted_at: n\n"
        "time_format: seconds\nrun_seconds: 1\nmeasurements: {throughput: n}\n"
        "config: {num_trainers: 1, accelerators_per_trainer: 1, batch_size: 1}\n"
    )
    (tmp_path / "jobs.csv").write_text("n,model\n" + "".join(f"{n},m{n % 3}\n" for n in range(1, 13)))
    run = Run(TableSource(str(tmp_path / "jobs.csv"), str(tmp_path / "map.yaml"), hold="model"), "chain")
    problem = run.source.problem(0)
    for training, asked in problem.folds():
        assert (len(training), len(asked), set(training.table["model_type"]) & set(asked.table["model_type"])) == (
            8,
            4,
            set(),
        )
        assert np.isnan(asked.pairs.history["model_type"]).all()
    (result,) = measure(run, tmp_path)
    np.testing.assert_array_equal(result.predicted(tmp_path)["mean"], np.zeros(12))
    np.testing.assert_allclose(np.exp(result.truth(tmp_path).y), np.arange(1.0, 13.0))
    assert list(result.splits) == ["all"]


def test_the_command(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(ablate)
    run = CliRunner().invoke
    listed = run(app, ["--list"]).stdout
    assert all(name in listed for name in FAMILIES)
    arguments = ["--families", "lookup", "--days", "3", "--per-day", "100", "--folder", str(tmp_path), "--json"]
    done = run(app, arguments)
    assert done.exit_code == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=Comparison)
    assert [line.name for line in found.families] == ["(noise)", "(reachable)", "lookup"]
    assert (tmp_path / "ablation.svg").exists() and (tmp_path / "ablation.json").exists()
    assert "see leap ablate --list" in run(app, ["--families", "oracle"]).stderr
    assert "--mapping" in run(app, ["--source", "jobs.csv"]).stderr
    assert "one of pair, model" in run(app, ["--hold", "colour"]).stderr
    held_out = ["--source", "jobs.csv", "--mapping", "mlperf", "--hold", "model"]
    assert "neither --rows" in run(app, [*held_out, "--without", "history"]).stderr
