"""The structured recipe against known truths and its own serving form."""

from pathlib import Path

import numpy as np
import pytest

from leap.predictor.features.batch import Floats, Rows, take
from leap.predictor.history.hash_index import Keys
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured.exact_history import LEVELS, STATISTICS, ExactHistory
from leap.predictor.models.structured.gating import Gate, gating_features, gating_weights
from leap.predictor.models.structured.gating_estimator import PRIOR_GATE, OutOfSamplePredictions, fit_gate
from leap.predictor.models.structured.gp_prior import Prior
from leap.predictor.models.structured.inputs import BATCH
from leap.predictor.models.structured.model import Structured
from leap.retrainer.evaluation.median_chain import ChainOfMedians
from tests.predictor.models.structured.prior_rows import TABLE, attempts


@pytest.fixture(scope="module")
def fitted() -> tuple[StructuredRecipe, Rows, Floats]:
    rows, y = attempts(900)
    return StructuredRecipe(TABLE, ("sequence_length",)).fit(rows, y), rows, y


def test_held_out_attempts_are_predicted(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, _, _ = fitted
    rows, truth = attempts(300, seed=3)
    estimate = recipe.estimate(rows)
    error = np.abs(estimate.combined.mean - truth)
    assert np.median(error) < 0.03
    inside = error <= 1.2816 * estimate.combined.deviation
    assert 0.6 < inside.mean() < 0.99
    gate = recipe.gate_
    weight = gating_weights(gating_features(estimate.prior, estimate.history), gate.intercept, gate.slope)
    np.testing.assert_allclose(weight.sum(axis=1), 1.0)


def test_hardware_that_never_ran_is_ranked_by_specification(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, rows, _ = fitted
    job = take(rows, np.zeros(3, dtype=np.intp))
    job = {**job, "hardware_type": np.array(["V100-SXM-16GB", "H200-SXM-141GB", "no such hardware"])}
    job["family"] = np.full(3, "")
    estimate = recipe.estimate(job)
    assert estimate.prior.mean[1] > estimate.prior.mean[0] + 0.7
    assert estimate.prior.deviation[2] > estimate.prior.deviation[1] > estimate.prior.deviation[0]


def test_unseen_names_and_numbers_are_estimated(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, rows, _ = fitted
    job = dict(take(rows, np.zeros(3, dtype=np.intp)))
    job["model_type"] = np.array([rows["model_type"][0], "new model", rows["model_type"][0]])
    job["accelerators"] = np.array([8.0, 8.0, 4096.0])
    job["family"] = np.array(["", "", ""])
    estimate = recipe.estimate(job)
    assert estimate.prior.deviation[0] < min(estimate.prior.deviation[1:])
    assert np.isfinite(estimate.combined.mean).all() and (estimate.combined.deviation > 0).all()


def test_a_missing_batch_is_the_usual_one_of_the_model_type(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, _, _ = fitted
    asked, truth = attempts(300, seed=8)
    prior = recipe.model_.prior
    missing = {**asked, "batch_size": np.full(300, np.nan)}
    points = prior.encoding.points(missing)
    np.testing.assert_allclose(points.x[:, BATCH], np.log(32.0), atol=1e-9)
    np.testing.assert_array_equal(points.x[:, 2], prior.encoding.points(asked).x[:, 2])
    off = np.abs(recipe.estimate(missing).combined.mean - truth)
    assert np.median(off) < 0.3  # ln 4 times 0.3 lie between the least and the greatest batch
    stated, unstated = prior.predict(asked), prior.predict(missing)
    usual = asked["batch_size"] == 32 * asked["accelerators"]
    assert (unstated.deviation[usual] > 1.2 * stated.deviation[usual]).all()


def test_arrays_of_before_batches_had_medians_take_a_missing_one_for_1(
    fitted: tuple[StructuredRecipe, Rows, Floats],
) -> None:
    recipe, rows, _ = fitted
    stored = recipe.model_.prior.arrays()
    of_before = Prior.from_arrays({name: array for name, array in stored.items() if name != "encoding.batch"})
    missing, one = ({**rows, "batch_size": np.full(900, batch)} for batch in (np.nan, 1.0))
    np.testing.assert_array_equal(of_before.predict(missing).mean, of_before.predict(one).mean)
    with pytest.raises(ValueError, match="batches of 6 model types"):
        Prior.from_arrays({**stored, "encoding.batch": np.zeros(3)})


def test_arrays_round_trip_without_pickle(fitted: tuple[StructuredRecipe, Rows, Floats], tmp_path: Path) -> None:
    recipe, _, _ = fitted
    loaded = {}
    for number, (name, array) in enumerate(recipe.model_.arrays().items()):
        np.save(tmp_path / f"{number}.npy", array, allow_pickle=False)
        loaded[name] = np.load(tmp_path / f"{number}.npy", allow_pickle=False, mmap_mode="r")
    asked, _ = attempts(100, seed=4)
    ours, theirs = recipe.estimate(asked), Structured.from_arrays(loaded).estimate(asked)
    np.testing.assert_allclose(theirs.prior.mean, ours.prior.mean, atol=1e-3)
    np.testing.assert_allclose(theirs.prior.deviation, ours.prior.deviation, rtol=1e-2)
    np.testing.assert_allclose(theirs.combined.mean, ours.combined.mean, atol=2e-3)


@pytest.mark.parametrize("count", [1, 2, 10])
def test_few_rows_are_enough(count: int) -> None:
    rows, y = attempts(count)
    estimate = StructuredRecipe(TABLE).fit(rows, y).estimate(attempts(5, seed=5)[0])
    assert np.isfinite(estimate.combined.mean).all() and (estimate.combined.deviation > 0).all()


@pytest.mark.parametrize("count", [50, 300])
def test_the_first_days_are_predicted_better_than_by_the_chain_of_medians(count: int) -> None:
    rows, y = attempts(count, days=2)
    asked, truth = attempts(200, seed=7)
    chain = ChainOfMedians().fit(rows, y).answer(asked)
    answered = np.isfinite(chain)
    off = np.abs(StructuredRecipe(TABLE).fit(rows, y).predict(asked) - truth)[answered]
    assert answered.any()
    assert np.median(off) < 0.8 * np.median(np.abs(chain - truth)[answered])


def test_exact_history_is_the_latest_day_and_all_days() -> None:
    rows = {
        "family": np.array(["f"] * 4),
        "model_type": np.array(["m"] * 4),
        "hardware_type": np.array(["A100-SXM-80GB"] * 4),
        "accelerators": np.full(4, 8.0),
        "batch_size": np.full(4, 64.0),
        "day": np.array([1.0, 1.5, 4.0, 4.0]),
    }
    rows["configuration"] = rows["batch_size"]
    history = ExactHistory.of(rows, np.array([1.0, 2.0, 3.0, 5.0]))
    asked = {**take(rows, np.array([0, 0])), "day": np.full(2, 10.0), "configuration": np.array([64.0, 32.0])}
    found = history.estimate(asked["day"], Keys.from_rows(asked))
    np.testing.assert_allclose(found.mean[0, :2], [4.0, 2.5])
    np.testing.assert_allclose(found.count[0, :2], [2, 4])
    np.testing.assert_allclose(found.spread[0, :2], [1.0, 1.75])
    np.testing.assert_allclose(found.age[0, :2], [6.0, 6.0])
    assert np.isnan(found.mean[1, :2]).all() and found.mean[1, 2] == 4.0
    assert history.table.values.shape == (len(LEVELS), len(STATISTICS))


def test_a_row_without_a_family_has_no_family_history() -> None:
    rows, y = attempts(20)
    rows = {**rows, "family": np.full(20, "")}
    found = ExactHistory.of(rows, y).estimate(rows["day"], Keys.from_rows(rows))
    of_family = np.repeat([columns[0] == "family" for columns in LEVELS], 2)
    assert np.isnan(found.mean[:, of_family]).all() and np.isfinite(found.mean[:, ~of_family]).all()


def test_the_gate_learns_whom_to_trust(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, rows, y = fitted
    estimate = recipe.estimate(rows)
    rng = np.random.default_rng(0)
    good = np.where(np.isfinite(estimate.history.mean), y[:, None] + 0.01 * rng.standard_normal((len(y), 1)), np.nan)
    poor = good + rng.choice([-0.5, 0.5], size=good.shape)
    for mean, history_wins in ((good, True), (poor, False)):
        history = type(estimate.history)(mean, estimate.history.count, estimate.history.spread, estimate.history.age)
        prior = type(estimate.prior)(y + 0.1 * rng.standard_normal(len(y)), estimate.prior.deviation)
        gate = fit_gate(OutOfSamplePredictions(prior, history, y))
        weight = gating_weights(gating_features(prior, history), gate.intercept, gate.slope)
        assert (weight[:, 0].mean() < 0.5) == history_wins
        assert isinstance(gate, Gate)


def test_a_gate_without_rehearsal_stays_as_it_is() -> None:
    assert fit_gate(OutOfSamplePredictions.empty()) is PRIOR_GATE


def test_a_second_fit_starts_from_the_first() -> None:
    rows, y = attempts(300)
    early = rows["day"] < 15
    recipe = StructuredRecipe(TABLE, warm_start=True).fit(take(rows, early), y[early])
    learned, rehearsed = recipe.variances_, len(recipe.rehearsal_.y)
    recipe.fit(rows, y)
    assert recipe.variances_ is learned
    assert len(recipe.rehearsal_.y) == rehearsed + int((~early).sum())


def test_serving_needs_no_scikit_learn() -> None:
    import subprocess
    import sys

    code = "import sys, leap.predictor.models.structured.model; "
    code += "sys.exit(any(m.split('.')[0] in ('sklearn', 'scipy') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert Prior.__module__ == "leap.predictor.models.structured.gp_prior"
