"""Rankings with pairs held out: against rankings known in advance, and what a held-out fit may see."""

import csv
from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from leap.predictor.features.batch import Floats, HardwareTable, Rows
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured.model import Structured
from leap.retrainer.cli.backtest import backtest, holdout
from leap.retrainer.evaluation.backtest import beside
from leap.retrainer.evaluation.leave_pair_out import LeavePairOut, evaluate_leave_pair_out
from leap.schemas.hardware import load_catalog

TABLE = HardwareTable(load_catalog())
#: In the order of their peak and bandwidth.
TYPES = ("V100-SXM-16GB", "A100-SXM-80GB", "H100-SXM-80GB", "B200")


def attempts(models: int = 4, slow: str = "") -> tuple[Rows, Floats]:
    """Five attempts of each model on each type, faster with each type but for `slow`, the slowest of all."""
    model, hardware = (index.ravel() for index in np.meshgrid(np.arange(models), np.repeat(np.arange(4), 5)))
    types = np.array(TYPES, dtype=object)[hardware]
    y = 2.0 + model + 0.8 * hardware + 0.01 * np.random.default_rng(0).standard_normal(len(model))
    rows = {
        "model_type": np.array([f"model-{n}" for n in model], dtype=object),
        "family": np.array([f"model-{n}" for n in model], dtype=object),
        "configuration": np.zeros(len(model), dtype=np.uint64),
        "hardware_type": types,
        "trainers": np.ones(len(model)),
        "accelerators": np.full(len(model), 8.0),
        "batch_size": np.full(len(model), 256.0),
        "day": np.arange(len(model)) // 8 * 1.0,
    }
    return rows, np.where(types == slow, 0.0, y)


def test_hardware_that_a_model_never_ran_on_is_ranked_by_what_others_reached_there() -> None:
    found = evaluate_leave_pair_out(*attempts(), StructuredRecipe(TABLE), TABLE)
    assert (found.contexts, found.pairs) == (4, 16)
    held_out = (found.pair_held_out, found.no_pair_seen, found.model_held_out)
    for ranking in (found.seen, *held_out, found.peak, found.bandwidth):
        assert (ranking.tau, ranking.regret) == (1.0, 0.0)


def test_what_is_sorted_by_specification_misses_what_jobs_show() -> None:
    found = evaluate_leave_pair_out(*attempts(slow="B200"), StructuredRecipe(TABLE), TABLE)
    assert found.peak.tau == 0.0  # three of the six pairs are in order
    assert found.peak.regret > 80
    assert found.seen.tau == found.no_pair_seen.tau == 1.0
    assert found.pair_held_out.tau > 0.9


def test_one_pair_held_out_meets_what_was_seen() -> None:
    """The chain takes what was left out for the median of the others: only the fastest of four loses its place."""
    found = evaluate_leave_pair_out(*attempts(models=2), StructuredRecipe(TABLE), TABLE)
    assert found.chain_pair_held_out.regret == pytest.approx(100 * -np.expm1(-0.8) / 4, abs=0.5)


def test_a_prediction_does_not_see_what_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[tuple[str, str]]] = []
    conditioned = StructuredRecipe.conditioned

    def witness(recipe: StructuredRecipe, rows: Rows, y: Floats) -> Structured:
        seen.append(set(zip(rows["model_type"].tolist(), rows["hardware_type"].tolist(), strict=True)))
        return conditioned(recipe, rows, y)

    monkeypatch.setattr(StructuredRecipe, "conditioned", witness)
    evaluate_leave_pair_out(*attempts(models=2), StructuredRecipe(TABLE, rehearsed_days=1), TABLE)
    whole = {(f"model-{n}", name) for n in range(2) for name in TYPES}
    left_out = [whole - each for each in seen[1:]]  # the first is the fit's rehearsal
    pairs, models = left_out[:-2], left_out[-2:]
    assert sorted(pair for each in pairs for pair in each) == sorted(whole)
    assert all(len({model for model, _ in each}) == len(each) == 2 for each in pairs)
    assert all(len({hardware for _, hardware in each}) == 2 for each in pairs)
    assert models == [{(name, hardware) for hardware in TYPES} for name in ("model-0", "model-1")]


def test_one_hardware_type_cannot_be_ranked() -> None:
    rows, y = attempts()
    with pytest.raises(ValueError, match="accelerators ran on two hardware types"):
        evaluate_leave_pair_out(
            {**rows, "hardware_type": np.full(len(y), "B200", dtype=object)}, y, StructuredRecipe(TABLE), TABLE
        )


def test_parts_are_scored_apart() -> None:
    y = np.zeros(5)
    predicted, chained = np.log([1.1, 1.3, 1.0, 1.0, np.nan]), np.log([1.3, 1.3, 1.0, 1.3, 1.0])
    found = beside(np.array(["b", "b", "a", "a", "c"], dtype=object), y, predicted, chained)
    assert list(found) == ["a", "b"]
    assert [part.recipe and part.recipe.w20 for part in found.values()] == [100.0, 50.0]
    assert [part.chain and part.chain.w20 for part in found.values()] == [50.0, 0.0]


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, Path]:
    """A table of past jobs, half of them of each year, and its mapping."""
    rows, y = attempts(models=2)
    with (tmp_path / "jobs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "model", "hardware", "when", "speed", "year"))
        for n, (model, hardware, value) in enumerate(zip(rows["model_type"], rows["hardware_type"], y, strict=True)):
            writer.writerow((n, model, hardware, 1.7e9 + 86_400 * (n // 4), np.exp(value), 2023 + (n >= len(y) / 2)))
    (tmp_path / "map.yaml").write_text(
        "attempt_id: id\njob_name: model\nmodel_type: model\nhardware_type: hardware\nsubmitted_at: when\n"
        "time_format: seconds\nrun_seconds: {expression: '60 * 60'}\n"
        "config: {num_trainers: {expression: '1 * 1'}, accelerators_per_trainer: {expression: '8 * 1'}, "
        "batch_size: {expression: '256 * 1'}}\nextra: {year: year}\nmeasurements: {throughput: speed}\n"
    )
    return tmp_path / "jobs.csv", tmp_path / "map.yaml"


def test_the_commands(table: tuple[Path, Path]) -> None:
    file, mapping = map(str, table)
    app = typer.Typer()
    app.command()(backtest)
    app.command()(holdout)
    run = CliRunner()
    found = run.invoke(app, ["holdout", file, "--mapping", mapping, "--json"])
    assert found.exit_code == 0, found.output
    assert msgspec.json.decode(found.stdout, type=LeavePairOut).pairs == 8
    wrong = run.invoke(app, ["holdout", file, "--mapping", mapping, "--same", "colour"])
    assert wrong.exit_code == 1 and "colour" in wrong.output
    chain = ["--recipe", "chain", "--warm-up", "2", "--by", "year"]
    scored = run.invoke(app, ["backtest", file, "--mapping", mapping, *chain, "--json"])
    assert scored.exit_code == 0, scored.output
    scores = msgspec.json.decode(scored.stdout)
    assert list(scores) == ["all", "seen", "unseen", "by"]
    assert sum(part["recipe"]["n"] for part in scores["by"].values()) == scores["all"]["n"]
    plain = run.invoke(app, ["backtest", file, "--mapping", mapping, *chain]).stdout
    assert [line.split()[0] for line in plain.splitlines()[-3:]] == ["all", "seen", "unseen"]
    assert len(plain.splitlines()) == 2 * len(scores["by"]) + 3


def test_commands_read_the_own_catalog_and_any_spelling(
    table: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, mapping = map(str, table)
    own = tmp_path / "own.yaml"
    own.write_text("replace: true\nentries: [{name: X1, vendor: V}]")
    app = typer.Typer()
    app.command()(backtest)
    app.command()(holdout)
    arguments = ["holdout", file, "--mapping", mapping, "--json"]

    def found() -> LeavePairOut:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return msgspec.json.decode(done.stdout, type=LeavePairOut)

    as_listed = found()
    text = table[0].read_text()
    table[0].write_text(text.replace("A100-SXM-80GB", "NVIDIA A100-SXM4-80GB").replace("B200", "nvidia-b200"))
    assert found() == as_listed
    monkeypatch.setenv("LEAP_CATALOG", str(own))
    assert found().price.tau == 0.0 < as_listed.price.tau, "no type of the table has a price there"
