"""The structured recipe against a dense Gaussian process, known truths, and its own serving form."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from predictor.experts import LEVELS, STATISTICS, ExactHistory
from predictor.gate import BASIS, Gate, evidence, trust
from predictor.gate_fit import UNTAUGHT, Rehearsal, fit_gate
from predictor.jobs import Floats, HardwareTable, columns, strings
from predictor.kernel import BATCH, Kernel, Points, Rows
from predictor.keys import hashed
from predictor.prior import OUTSIDE, Prior
from predictor.prior_fit import MOST_OF_A_MODEL, StructuredPrior, _sample
from predictor.structured import Structured, rows_of
from predictor.structured_fit import StructuredRecipe, fold_of
from predictor.terms import Term, kernel_of
from predictor.units import Units, aggregate, codes, grouped_median
from retrainer.chain import ChainOfMedians
from schemas.hardware import load_catalog
from tests.builders import MODEL, submission

TABLE = HardwareTable(load_catalog())
TYPES = ("V100-SXM-16GB", "A100-SXM-80GB", "H100-SXM-80GB", "B200")
SPEED = dict(zip(TYPES, (0.0, 0.7, 1.5, 2.2), strict=True))


def attempts(count: int, seed: int = 0, models: int = 6, days: int = 20) -> tuple[Rows, Floats]:
    """Rows whose ln throughput is model + hardware + family + 0.9 ln accelerators + 0.3 ln batch, and 2% noise."""
    rng = np.random.default_rng(seed)
    model = rng.integers(models, size=count)
    family = rng.integers(3, size=count)
    hardware = rng.choice(TYPES, size=count)
    trainers = rng.choice([1.0, 2.0, 4.0], size=count)
    batch = trainers * 8 * rng.choice([16.0, 32.0, 64.0], size=count)
    rows: dict[str, NDArray[np.generic]] = {
        "model_type": np.array([f"model-{n}" for n in model]),
        "hardware_type": hardware,
        "family": np.array([f"family-{n}-{m}" for n, m in zip(model, family, strict=True)]),
        "trainers": trainers,
        "accelerators": trainers * 8,
        "batch_size": batch,
        "configuration": batch.view(np.uint64),
        "day": np.sort(rng.integers(days, size=count)).astype(float),
        "sequence_length": np.full(count, np.nan),
    }
    speed = np.array([SPEED[name] for name in hardware.tolist()])
    truth = 3 + 1.5 * (model % 6) + speed + 0.1 * (family - 1) + 0.9 * np.log(trainers * 8) + 0.3 * np.log(batch)
    return rows, truth + 0.02 * rng.standard_normal(count)


def take(rows: Rows, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Rows:
    return {name: column[chosen] for name, column in rows.items()}


@pytest.fixture(scope="module")
def fitted() -> tuple[StructuredRecipe, Rows, Floats]:
    rows, y = attempts(900)
    return StructuredRecipe(TABLE, ("sequence_length",)).fit(rows, y), rows, y


def test_posterior_equals_a_dense_gaussian_process() -> None:
    rows, y = attempts(150, models=3)
    prior = StructuredPrior(TABLE, steps=3).fit(rows, y)
    kernel, shared = prior.prior_.kernel, prior.prior_.shared
    units = prior.units_

    def covariance(a: Points, b: Points) -> Floats:
        same = a.model[:, None] == b.model[None, :]
        return np.asarray(shared(a) @ shared(b).T + np.where(same, kernel(a, b), 0.0))

    # Noise as the fit left it: recovered from its definition at the solution, so solve with weights of one.
    prior_fixed = StructuredPrior(TABLE, variances=prior.variances_, steps=0, reweightings=0).fit(rows, y)
    noise = prior.variances_[-2] + prior.variances_[-1] / units.count
    inverse = np.linalg.inv(covariance(units.points, units.points) + np.diag(noise))
    asked = prior.encoding_.points(attempts(40, seed=1, models=4)[0])
    cross = covariance(asked, units.points)
    expected = units.y.mean() + cross @ inverse @ (units.y - units.y.mean())
    variance = np.diag(covariance(asked, asked) - cross @ inverse @ cross.T)
    seen = asked.model >= 0
    mean, found = prior_fixed.prior_.at(asked)
    np.testing.assert_allclose(mean, expected, atol=1e-5)
    np.testing.assert_allclose(found[seen], variance[seen], atol=1e-5)
    assert (~seen).any()


def test_few_landmarks_lose_little() -> None:
    rows, y = attempts(600, models=2)
    asked, truth = attempts(200, seed=2, models=2)
    exact = StructuredPrior(TABLE, landmarks=500).fit(rows, y)
    few = StructuredPrior(TABLE, landmarks=30, variances=exact.variances_, steps=0).fit(rows, y)
    assert max(len(block.weights) for block in few.prior_.blocks) <= 30
    assert np.abs(few.predict(asked) - truth).mean() < np.abs(exact.predict(asked) - truth).mean() + 0.03


def test_held_out_attempts_are_predicted(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, _, _ = fitted
    rows, truth = attempts(300, seed=3)
    estimate = recipe.estimate(rows)
    error = np.abs(estimate.combined.mean - truth)
    assert np.median(error) < 0.03
    inside = error <= 1.2816 * estimate.combined.deviation
    assert 0.6 < inside.mean() < 0.99
    assert {BASIS[basis] for basis in estimate.combined.basis} <= {"similar jobs", "family history"}
    np.testing.assert_allclose(estimate.combined.weight.sum(axis=1), 1.0)


def test_hardware_that_never_ran_is_ranked_by_specification(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, rows, _ = fitted
    job = take(rows, np.zeros(3, dtype=np.intp))
    job = {**job, "hardware_type": np.array(["V100-SXM-16GB", "H200-SXM-141GB", "no such hardware"])}
    job["family"] = np.full(3, "")
    estimate = recipe.estimate(job)
    assert estimate.prior.mean[1] > estimate.prior.mean[0] + 0.7
    np.testing.assert_array_equal(estimate.prior.outside[:, OUTSIDE.index("hardware type")], [False, True, True])
    assert estimate.prior.deviation[2] > estimate.prior.deviation[1] > estimate.prior.deviation[0]


def test_unseen_names_and_numbers_are_flagged(fitted: tuple[StructuredRecipe, Rows, Floats]) -> None:
    recipe, rows, _ = fitted
    job = dict(take(rows, np.zeros(3, dtype=np.intp)))
    job["model_type"] = np.array([rows["model_type"][0], "new model", rows["model_type"][0]])
    job["accelerators"] = np.array([8.0, 8.0, 4096.0])
    job["family"] = np.array(["", "", ""])
    estimate = recipe.estimate(job)
    flags = dict(zip(OUTSIDE, estimate.prior.outside.T, strict=True))
    np.testing.assert_array_equal(flags["model type"], [False, True, False])
    assert flags["range"][2] and not flags["range"][0]
    assert BASIS[estimate.combined.basis[1]] == "specification only"
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
    assert unstated.outside[:, OUTSIDE.index("range")].all() and not stated.outside.any()


def test_a_model_type_that_never_states_its_batch_is_as_the_window() -> None:
    rows, y = attempts(300, models=3)
    silent = rows["model_type"] == "model-0"
    rows = {**rows, "batch_size": np.where(silent, np.nan, rows["batch_size"])}
    prior = StructuredPrior(TABLE, steps=2).fit(rows, y).prior_
    np.testing.assert_allclose(prior.encoding.batch[[0, -1]], np.log(32.0))
    estimate = prior.predict(rows)
    assert not estimate.outside[silent].any()
    assert np.median(np.abs(estimate.mean - y)[silent]) < 0.3
    nobody = StructuredPrior(TABLE, steps=2).fit({**rows, "batch_size": np.full(300, np.nan)}, y).prior_
    assert np.isfinite(nobody.predict(rows).mean).all()


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
    np.testing.assert_array_equal(theirs.prior.outside, ours.prior.outside)


@pytest.mark.parametrize("count", [1, 2, 10])
def test_few_rows_are_enough(count: int) -> None:
    rows, y = attempts(count)
    estimate = StructuredRecipe(TABLE).fit(rows, y).estimate(attempts(5, seed=5)[0])
    assert np.isfinite(estimate.combined.mean).all() and (estimate.combined.deviation > 0).all()


@pytest.mark.parametrize(("noise", "constant"), [(0.0, True), (0.0, False), (1e-3, True), (1e-3, False)])
def test_next_to_no_noise_is_learned_from(noise: float, constant: bool) -> None:
    rows, _ = attempts(600, models=3)
    speed = np.array([SPEED[name] for name in rows["hardware_type"].tolist()])
    truth = (
        np.full(600, 4.0) if constant else speed + 0.9 * np.log(rows["accelerators"]) + 0.3 * np.log(rows["batch_size"])
    )
    y = truth + noise * np.random.default_rng(1).standard_normal(600)
    estimate = StructuredRecipe(TABLE).fit(rows, y).estimate(rows)
    assert np.median(np.abs(estimate.combined.mean - truth)) < 0.02
    assert (estimate.combined.deviation > 0).all() and np.isfinite(estimate.combined.deviation).all()


@pytest.mark.parametrize("count", [50, 300])
def test_the_first_days_are_predicted_better_than_by_the_chain_of_medians(count: int) -> None:
    rows, y = attempts(count, days=2)
    asked, truth = attempts(200, seed=7)
    chain = ChainOfMedians().fit(rows, y).answer(asked)
    answered = np.isfinite(chain)
    off = np.abs(StructuredRecipe(TABLE).fit(rows, y).predict(asked) - truth)[answered]
    assert answered.any()
    assert np.median(off) < 0.8 * np.median(np.abs(chain - truth)[answered])


def test_hundreds_of_model_types_and_a_number_that_nobody_states() -> None:
    rows, y = attempts(1500, models=660)
    asked, truth = attempts(400, seed=6, models=660)
    prior = StructuredPrior(TABLE, ("sequence_length",), steps=5).fit(rows, y)
    seen = np.isin(asked["model_type"], rows["model_type"])
    estimate = prior.prior_.predict(asked)
    np.testing.assert_array_equal(estimate.outside[:, OUTSIDE.index("model type")], ~seen)
    assert np.isfinite(estimate.mean).all()
    assert np.median(np.abs(estimate.mean - truth)[seen]) < 0.3  # 1.5 lie between one kind of model and the next


def test_variances_are_learned_from_so_many_of_a_model_type() -> None:
    model = np.repeat([0, 1, 2], [3000, 700, 5])
    points = Points(model, np.zeros(len(model), dtype=np.intp), np.zeros((len(model), 5)))
    chosen = _sample(Units(points, np.zeros(len(model)), np.ones(len(model)), np.arange(len(model))), 4000)
    assert np.bincount(model[chosen]).tolist() == [MOST_OF_A_MODEL, 700, 5]


def test_out_of_fold_prior_does_not_see_its_family() -> None:
    rows, y = attempts(400, models=3)
    strange = rows["family"] == "family-0-0"
    shifted = y + 2.0 * strange
    fold = fold_of(rows, 3)
    prior = StructuredPrior(TABLE, steps=5).fit(rows, y)
    before = prior.out_of_fold(rows, y, fold).mean
    after = prior.out_of_fold(rows, shifted, fold).mean
    np.testing.assert_array_equal(before[strange], after[strange])
    assert np.abs(before[~strange] - after[~strange]).max() > 0.1


def test_one_row_per_configuration() -> None:
    points = Points(np.array([0, 0, 0, 1]), np.array([2, 2, 2, 2]), np.zeros((4, 5)))
    points.x[:, 4] = np.array([0.0, 0.4, 25.0, 0.0]) / 365.25
    units = aggregate(points, np.array([1.0, 2.0, 5.0, 7.0]))
    assert units.count.tolist() == [1.0, 2.0, 1.0]
    assert units.y[units.of_row].tolist() == [1.5, 1.5, 5.0, 7.0]


def test_medians_and_codes() -> None:
    np.testing.assert_array_equal(
        grouped_median(np.array([2, 0, 2, 2, 0]), np.array([9.0, 1.0, 5.0, 6.0, 2.0]), 3), [1.5, np.nan, 6.0]
    )
    assert codes(np.array(["b", "a", "b"]), np.array([1.0, 1.0, 2.0])).tolist() == [1, 0, 2]


def test_kernel_is_what_its_terms_say() -> None:
    chosen = [Term("same", (("accelerators", 2.0),)), Term("any", (("years", 0.0),)), Term("any", shared=True)]
    columns = ("accelerators", "batch_per_accelerator", "trainers", "accelerators_per_trainer", "years")
    tables = {"same": np.eye(3), "any": np.ones((3, 3))}
    centre = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    kernel, shared = kernel_of(chosen, np.array([0.5, 0.25, 4.0]), tables, columns, centre)
    a = Points(np.array([0]), np.array([1]), np.array([[1.0, 0.0, 0.0, 0.0, 3.0]]))
    b = Points(np.array([0, 0]), np.array([1, 0]), np.array([[2.0, 0, 0, 0, 2.0], [2.0, 0, 0, 0, 1.0]]))
    np.testing.assert_allclose(kernel(a, b), [[0.5 * np.exp(-0.5) + 0.25 * 2 * 1, 0.0]])
    np.testing.assert_allclose(kernel.diagonal(a), [0.5 + 0.25 * 4])
    np.testing.assert_allclose(shared(a) @ shared(b).T, [[4.0, 4.0]], rtol=1e-6)
    assert isinstance(kernel, Kernel)


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
    found = history.estimate(asked, hashed(asked))
    np.testing.assert_allclose(found.mean[0, :2], [4.0, 2.5])
    np.testing.assert_allclose(found.count[0, :2], [2, 4])
    np.testing.assert_allclose(found.spread[0, :2], [1.0, 1.75])
    np.testing.assert_allclose(found.age[0, :2], [6.0, 6.0])
    assert np.isnan(found.mean[1, :2]).all() and found.mean[1, 2] == 4.0
    assert history.statistics[0].shape == (1, len(STATISTICS))


def test_a_row_without_a_family_has_no_family_history() -> None:
    rows, y = attempts(20)
    rows = {**rows, "family": np.full(20, "")}
    found = ExactHistory.of(rows, y).estimate(rows, hashed(rows))
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
        prior = type(estimate.prior)(
            y + 0.1 * rng.standard_normal(len(y)),
            estimate.prior.deviation,
            estimate.prior.basis,
            estimate.prior.outside,
        )
        gate = fit_gate(Rehearsal(prior, history, y))
        weight = trust(evidence(prior, history), gate.intercept, gate.slope)
        assert (weight[:, 0].mean() < 0.5) == history_wins
        assert isinstance(gate, Gate)


def test_a_gate_without_rehearsal_stays_as_it_is() -> None:
    assert fit_gate(Rehearsal.empty()) is UNTAUGHT


def test_a_second_fit_starts_from_the_first() -> None:
    rows, y = attempts(300)
    early = rows["day"] < 15
    recipe = StructuredRecipe(TABLE, warm_start=True).fit(take(rows, early), y[early])
    learned, rehearsed = recipe.variances_, len(recipe.rehearsal_.y)
    recipe.fit(rows, y)
    assert recipe.variances_ is learned
    assert len(recipe.rehearsal_.y) == rehearsed + int((~early).sum())


def test_neither_definition_nor_extra_is_an_input() -> None:
    job = submission()
    extra = msgspec.structs.replace(job, model=MODEL, config=msgspec.structs.replace(job.config, extra={"image": "x"}))
    found = rows_of(columns([job, extra]), np.arange(2), strings(["basic"] * 2))
    for first, second in found.values():
        np.testing.assert_equal(first, second)


def test_serving_needs_no_scikit_learn() -> None:
    import subprocess
    import sys

    code = (
        "import sys, predictor.structured; sys.exit(any(m.split('.')[0] in ('sklearn', 'scipy') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert Prior.__module__ == "predictor.prior"
