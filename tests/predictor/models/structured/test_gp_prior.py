"""The structured prior against a dense Gaussian process, and what its variances are learned from."""

import numpy as np
import pytest

from leap.predictor.features.batch import Floats
from leap.predictor.models.structured.estimator import StructuredRecipe, fold_of
from leap.predictor.models.structured.gp_prior_estimator import MOST_OF_A_MODEL, StructuredPrior, _sample
from leap.predictor.models.structured.inputs import UNSEEN, Inputs, Queries
from leap.predictor.models.structured.kernel import Kernel
from leap.predictor.models.structured.kernel_terms import Term, kernel_of, terms
from leap.predictor.models.structured.replicates import Replicates, aggregate_replicates, group_codes, grouped_median
from tests.predictor.models.structured.prior_rows import SPEED, TABLE, attempts
from tests.predictor.models.structured.slow_reference import covariance


def test_posterior_equals_a_dense_gaussian_process() -> None:
    rows, y = attempts(150, models=3)
    prior = StructuredPrior(TABLE, steps=3).fit(rows, y)
    kernel, shared = prior.prior_.kernel, prior.prior_.shared
    units = prior.units_

    def covariance(a: Inputs, b: Inputs) -> Floats:
        same = a.model[:, None] == b.model[None, :]
        return np.asarray(shared(a) @ shared(b).T + np.where(same, kernel(a, b), 0.0))

    # Noise as the fit left it: recovered from its definition at the solution, so solve with weights of one.
    prior_fixed = StructuredPrior(TABLE, variances=prior.variances_, form=prior.form_, steps=0, reweightings=0).fit(
        rows, y
    )
    noise = prior.variances_[-2] + prior.variances_[-1] / units.count
    inverse = np.linalg.inv(covariance(units.points, units.points) + np.diag(noise))
    asked = prior.encoding_.points(attempts(40, seed=1, models=4)[0])
    cross = covariance(asked, units.points)
    expected = units.y.mean() + cross @ inverse @ (units.y - units.y.mean())
    variance = np.diag(covariance(asked, asked) - cross @ inverse @ cross.T)
    seen = asked.model >= 0
    mean, found = prior_fixed.prior_.posterior(Queries.of(asked))
    # Landmarks end where they explain all but a millionth of the variance.
    np.testing.assert_allclose(mean, expected, atol=1e-4)
    np.testing.assert_allclose(found[seen], variance[seen], atol=1e-4)
    assert (~seen).any()


def test_few_landmarks_lose_little() -> None:
    rows, y = attempts(600, models=2)
    asked, truth = attempts(200, seed=2, models=2)
    exact = StructuredPrior(TABLE, landmarks=500).fit(rows, y)
    few = StructuredPrior(TABLE, landmarks=30, variances=exact.variances_, form=exact.form_, steps=0).fit(rows, y)
    assert max(len(block.weights) for block in few.prior_.blocks) <= 30
    assert np.abs(few.predict(asked) - truth).mean() < np.abs(exact.predict(asked) - truth).mean() + 0.03


def test_a_model_type_that_never_states_its_batch_is_as_the_window() -> None:
    rows, y = attempts(300, models=3)
    silent = rows["model_type"] == "model-0"
    rows = {**rows, "batch_size": np.where(silent, np.nan, rows["batch_size"])}
    prior = StructuredPrior(TABLE, steps=2).fit(rows, y).prior_
    np.testing.assert_allclose(prior.encoding.batch[[0, -1]], np.log(32.0))
    estimate = prior.predict(rows)
    assert np.median(np.abs(estimate.mean - y)[silent]) < 0.3
    nobody = StructuredPrior(TABLE, steps=2).fit({**rows, "batch_size": np.full(300, np.nan)}, y).prior_
    assert np.isfinite(nobody.predict(rows).mean).all()


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


def test_hundreds_of_model_types_and_a_number_that_nobody_states() -> None:
    rows, y = attempts(1500, models=660)
    asked, truth = attempts(400, seed=6, models=660)
    prior = StructuredPrior(TABLE, ("sequence_length",), steps=5).fit(rows, y)
    seen = np.isin(asked["model_type"], rows["model_type"])
    estimate = prior.prior_.predict(asked)
    np.testing.assert_array_equal(prior.encoding_.points(asked).model == UNSEEN, ~seen)
    assert np.isfinite(estimate.mean).all()
    assert np.median(np.abs(estimate.mean - truth)[seen]) < 0.3  # 1.5 lie between one kind of model and the next


def test_variances_are_learned_from_so_many_of_a_model_type() -> None:
    model = np.repeat([0, 1, 2], [3000, 700, 5])
    points = Inputs(model, np.zeros(len(model), dtype=np.intp), np.zeros((len(model), 5)))
    chosen = _sample(Replicates(points, np.zeros(len(model)), np.ones(len(model)), np.arange(len(model))), 4000)
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
    points = Inputs(np.array([0, 0, 0, 1]), np.array([2, 2, 2, 2]), np.zeros((4, 5)))
    points.x[:, 4] = np.array([0.0, 0.4, 25.0, 0.0]) / 365.25
    units = aggregate_replicates(points, np.array([1.0, 2.0, 5.0, 7.0]))
    assert units.count.tolist() == [1.0, 2.0, 1.0]
    assert units.y[units.of_row].tolist() == [1.5, 1.5, 5.0, 7.0]


def test_medians_and_codes() -> None:
    np.testing.assert_array_equal(
        grouped_median(np.array([2, 0, 2, 2, 0]), np.array([9.0, 1.0, 5.0, 6.0, 2.0]), 3), [1.5, np.nan, 6.0]
    )
    assert group_codes(np.array(["b", "a", "b"]), np.array([1.0, 1.0, 2.0])).tolist() == [1, 0, 2]


def test_kernel_is_what_its_terms_say() -> None:
    chosen = [Term("same", (("accelerators", 2.0),)), Term("any", (("years", 0.0),)), Term("any", shared=True)]
    columns = ("accelerators", "batch_per_accelerator", "trainers", "accelerators_per_trainer", "years")
    tables = {"same": np.eye(3), "any": np.ones((3, 3))}
    centre = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    kernel, shared = kernel_of(chosen, np.array([0.5, 0.25, 4.0]), tables, columns, centre)
    a = Inputs(np.array([0]), np.array([1]), np.array([[1.0, 0.0, 0.0, 0.0, 3.0]]))
    b = Inputs(np.array([0, 0]), np.array([1, 0]), np.array([[2.0, 0, 0, 0, 2.0], [2.0, 0, 0, 0, 1.0]]))
    decayed = (1 + np.sqrt(3) / 2) * np.exp(-np.sqrt(3) / 2)  # at a distance of 1 with a length of 2
    np.testing.assert_allclose(kernel(a, b), [[0.5 * decayed + 0.25 * 2 * 1, 0.0]])
    np.testing.assert_allclose(kernel.diagonal(a), [0.5 + 0.25 * 4])
    np.testing.assert_allclose(shared(a) @ shared(b).T, [[4.0, 4.0]], rtol=1e-6)
    assert isinstance(kernel, Kernel)


def test_candidates_of_one_job_have_the_covariance_that_each_has_alone() -> None:
    rows, y = attempts(150, models=1)
    prior = StructuredPrior(TABLE, steps=0, variances=np.full(len(terms(())) + 2, 0.1)).fit(rows, y)
    kernel, points = prior.prior_.kernel, prior.units_.points
    hardware = np.arange(4) % len(TABLE.names)
    tables, place = kernel.tables_of(points.hardware)
    tables = tables[hardware][:, :, place]
    together = kernel.of_configurations(points.x[[5]], np.zeros(4, np.intp), tables, kernel.scaled(points.x))
    candidates = Inputs(points.model[:4], hardware, points.x[[5, 5, 5, 5]])
    landmarks = list(zip(points.hardware.tolist(), points.x, strict=True))
    pairs = [[covariance(kernel, own, points.x[5], other, x) for other, x in landmarks] for own in hardware.tolist()]
    np.testing.assert_allclose(together, pairs, rtol=1e-12)
    np.testing.assert_allclose(kernel(candidates, points), pairs, rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(points), np.diag(kernel(points, points)), rtol=1e-12)
