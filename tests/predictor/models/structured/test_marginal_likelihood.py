"""Variances of the structured prior: the likelihood against a dense one, and what made the rows found again."""

import numpy as np
import pytest

from leap.predictor.features.batch import Floats
from leap.predictor.models.structured.inputs import COLUMNS, Inputs
from leap.predictor.models.structured.kernel_terms import Term, kernel_of
from leap.predictor.models.structured.marginal_likelihood import _Likelihood, learn
from leap.predictor.models.structured.replicates import Replicates, student_t_reweight

TABLES: dict[str, Floats] = {
    "any": np.ones((4, 4)),
    "same": np.eye(4),
    "vendor": np.repeat(np.repeat(np.eye(2), 2, 0), 2, 1),
}
CHOSEN = (
    Term("any", shared=True),
    Term("same", shared=True),
    Term("any", (("accelerators", 0.0),), shared=True),
    Term("any"),
    Term("vendor", (("batch_per_accelerator", 1.5),)),
)
VARIANCES = np.array([0.3, 0.2, 0.05, 1.5, 0.4, 0.01, 0.02])
CENTRE = np.zeros(len(COLUMNS))


def units(count: int, models: int, seed: int = 0) -> Replicates:
    rng = np.random.default_rng(seed)
    points = Inputs(rng.integers(models, size=count), rng.integers(4, size=count), rng.normal(size=(count, 5)))
    repeats = rng.integers(1, 6, size=count).astype(float)
    made = Replicates(points, np.zeros(count), repeats, np.arange(count))
    root = np.linalg.cholesky(dense(made, VARIANCES))
    return Replicates(points, root @ rng.standard_normal(count), repeats, np.arange(count))


def dense(made: Replicates, variances: Floats) -> Floats:
    kernel, shared = kernel_of(CHOSEN, variances, TABLES, COLUMNS, CENTRE)
    points, features = made.points, shared(made.points)
    own = kernel(points, points) * (points.model[:, None] == points.model)
    return np.asarray(features @ features.T + own + np.diag(variances[-2] + variances[-1] / made.count))


def test_the_likelihood_is_that_of_a_dense_process() -> None:
    made = units(60, models=4)
    y = made.y - made.y.mean()
    covariance = dense(made, VARIANCES)
    expected = y @ np.linalg.solve(covariance, y) / 2 + np.linalg.slogdet(covariance)[1] / 2
    likelihood = _Likelihood(CHOSEN, TABLES, COLUMNS, CENTRE, made)
    loss, gradient = likelihood(VARIANCES)
    assert loss == pytest.approx(expected, abs=1e-3)

    steps = 1e-4 * np.eye(len(VARIANCES))
    numeric = [(likelihood(VARIANCES + step)[0] - likelihood(VARIANCES - step)[0]) / 2e-4 for step in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=0.02, atol=0.3)


def test_variances_that_made_the_rows_are_found() -> None:
    found = learn(CHOSEN, TABLES, COLUMNS, CENTRE, units(600, models=40), None, 40)
    for one, made in zip(found[3:5], VARIANCES[3:5], strict=True):
        assert 0.4 * made < one < 2.5 * made
    assert 0.3 < found[-2:].sum() / VARIANCES[-2:].sum() < 2  # less, as the noise is taken to have heavy tails


def test_far_off_measurements_do_not_raise_the_noise() -> None:
    made = units(600, models=10)
    spoilt = np.where(np.arange(600) % 40 == 0, made.y + 3.0, made.y)
    found = learn(CHOSEN, TABLES, COLUMNS, CENTRE, Replicates(made.points, spoilt, made.count, made.of_row), None, 40)
    assert found[-2:].sum() < 3 * VARIANCES[-2:].sum()  # by least squares it would be 10 times as much


def test_noise_grows_with_what_is_far_off_only() -> None:
    found = student_t_reweight(np.full(3, 0.01), np.array([0.0, 0.01, 1.0]))
    np.testing.assert_allclose(found, [0.0075, 0.01, 0.2575])
