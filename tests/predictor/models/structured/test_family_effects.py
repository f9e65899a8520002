"""The process of a family against a dense Gaussian process, and its variances against those that made the data."""

from dataclasses import astuple, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.features.batch import Floats, Rows
from leap.predictor.history.hash_index import Keys
from leap.predictor.models.structured import family_effects_estimator as process_fit
from leap.predictor.models.structured.family_effects import FADING_DAYS, KEYS, FamilyEffects, FamilyVarianceComponents
from leap.predictor.models.structured.family_effects_estimator import fit_variance_components, posterior

VARIANCES = FamilyVarianceComponents(family=0.2, hardware=0.05, configuration=0.04, both=0.02, fading=0.03, noise=0.01)


def attempts(count: int, families: int, seed: int = 0, days: int = 20) -> Rows:
    rng = np.random.default_rng(seed)
    return {
        "family": np.array([f"family-{number}" for number in rng.integers(families, size=count)]),
        "hardware_type": np.array([f"h{number}" for number in rng.integers(3, size=count)]),
        "configuration": rng.integers(3, size=count).astype(np.uint64),
        "day": np.sort(rng.integers(days, size=count)).astype(float),
    }


def covariance(a: Rows, b: Rows, variances: FamilyVarianceComponents = VARIANCES) -> Floats:
    """Straight from the definition."""
    same = {name: np.asarray(a[name])[:, None] == np.asarray(b[name])[None, :] for name in a}
    family, hardware, config = same["family"], same["hardware_type"], same["configuration"]
    apart = np.abs(a["day"][:, None] - b["day"][None, :])
    total = variances.family + variances.fading * np.exp(-apart / FADING_DAYS)
    total = total + variances.hardware * hardware + variances.configuration * config
    return np.asarray(family * (total + variances.both * hardware * config))


def test_the_mean_is_that_of_a_dense_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_fit, "REWEIGHTINGS", 0)
    rows = attempts(60, families=4, days=200)  # hardly ever twice the same in a day
    rows = {**rows, "day": np.arange(60.0)}
    y = np.random.default_rng(1).normal(0, 0.4, 60)
    asked = {**attempts(40, families=5, seed=2), "day": np.full(40, 61.5)}
    expected = covariance(asked, rows) @ np.linalg.solve(covariance(rows, rows) + VARIANCES.noise * np.eye(60), y)
    mean, variance, known = posterior(rows, y, VARIANCES).at(asked["day"], Keys.from_rows(asked))
    np.testing.assert_allclose(mean, expected, atol=1e-6)
    unknown = ~np.isin(asked["family"], rows["family"])
    assert unknown.any()
    assert (known == ~unknown).all()
    assert (mean[unknown] == 0).all()
    np.testing.assert_allclose(variance[unknown], VARIANCES.total)
    assert (variance[~unknown] < VARIANCES.total).all()


@given(st.lists(st.floats(1e-3, 1.0), min_size=6, max_size=6))
def test_a_family_without_attempts_is_not_known_whatever_the_variances(variances: list[float]) -> None:
    rows, other = attempts(5, families=1), {**attempts(5, families=1), "family": np.array(["another"] * 5)}
    process = posterior(rows, np.full(5, 0.3), FamilyVarianceComponents(*variances))
    assert process.at(rows["day"], Keys.from_rows(rows))[2].tolist() == [True] * 5
    assert process.at(other["day"], Keys.from_rows(other))[2].tolist() == [False] * 5


def test_repeats_of_one_day_are_their_median() -> None:
    rows = {"family": np.array(["f"] * 5), "hardware_type": np.array(["h"] * 5), "day": np.full(5, 3.0)}
    asked = {name: column[:1] for name, column in rows.items()}
    once, *_ = posterior({name: column[:1] for name, column in rows.items()}, np.array([0.3]), VARIANCES).at(
        asked["day"], Keys.from_rows(asked)
    )
    five, *_ = posterior(rows, np.array([0.3, 0.3, 0.3, -5.0, 0.3]), VARIANCES).at(asked["day"], Keys.from_rows(asked))
    assert 0 < once[0] < five[0] < 0.3


def test_one_slow_run_does_not_bend_a_family() -> None:
    rows = {"family": np.array(["f"] * 12), "hardware_type": np.array(["h"] * 12), "day": np.arange(12.0)}
    y = np.full(12, 0.2)
    asked = {name: column[-1:] for name, column in rows.items()}
    calm, *_ = posterior(rows, y, VARIANCES).at(asked["day"], Keys.from_rows(asked))
    y[-1] = -2.0
    slow, *_ = posterior(rows, y, VARIANCES).at(asked["day"], Keys.from_rows(asked))
    assert abs(slow[0] - calm[0]) < 0.05


def test_variances_are_learned_from_families() -> None:
    rows = attempts(3000, families=100, seed=3, days=30)
    total = covariance(rows, rows) + VARIANCES.noise * np.eye(3000)
    y = np.linalg.cholesky(total) @ np.random.default_rng(4).standard_normal(3000)
    learned = fit_variance_components(rows, y)
    for found, made in zip(astuple(learned), astuple(VARIANCES), strict=True):
        assert 0.4 * made < found < 2.5 * made


def test_a_step_that_rounding_takes_out_of_the_bounds_ends_no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As L-BFGS-B does it, whereupon its own differences raise."""

    def beyond(fun: Any, start: Floats, *, bounds: list[tuple[float, float]], **options: Any) -> SimpleNamespace:
        for edge, outside in ((0, -np.inf), (1, np.inf)):
            at = np.array([ends[edge] for ends in bounds])
            value, slope = fun(np.nextafter(at, outside))
            assert value == fun(at)[0] and np.isfinite(slope).all()
        return SimpleNamespace(x=np.nextafter(at, np.inf))

    monkeypatch.setattr(process_fit, "minimize", beyond)
    learned = fit_variance_components(attempts(3000, families=100), np.zeros(3000))
    assert astuple(learned) == pytest.approx([process_fit.MOST] * 6)


def test_too_few_attempts_teach_nothing() -> None:
    assert fit_variance_components(attempts(10, families=5), np.zeros(10)) == FamilyVarianceComponents()


def test_a_missing_family_or_measurement_is_left_out() -> None:
    rows = {**attempts(4, families=1), "family": np.array(["", "f", "f", ""])}
    process = posterior(rows, np.array([1.0, np.nan, 0.5, 1.0]), VARIANCES)
    assert len(process.table) == len(KEYS), "one key of each kind"
    assert process.at(rows["day"], Keys.from_rows(rows))[0][[0, 3]].tolist() == [0.0, 0.0]
    empty = posterior(rows, np.full(4, np.nan), VARIANCES)
    assert empty.at(rows["day"], Keys.from_rows(rows))[0].tolist() == [0.0] * 4


@given(st.integers(0, 2**31), st.integers(0, 30))
def test_arrays_give_the_process_back(seed: int, count: int) -> None:
    rows = attempts(count, families=3, seed=seed)
    process = posterior(rows, np.random.default_rng(seed).normal(size=count), replace(VARIANCES, noise=0.5))
    again = FamilyEffects.from_arrays(process.arrays())
    asked = attempts(9, families=4, seed=seed + 1)
    keys = Keys.from_rows(asked)
    for restored, expected in zip(again.at(asked["day"], keys), process.at(asked["day"], keys), strict=True):
        np.testing.assert_array_equal(restored, expected)
    assert not any(array.dtype == object for array in process.arrays().values())
