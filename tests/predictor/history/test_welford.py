import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.history.welford import EMPTY, MAX_VALUE, Statistics, merge, of, update

EPSILON = float(np.finfo(np.float64).eps)
TINY = 1e-300  # below it squares vanish

values = st.floats(-1e9, 1e9)
times = st.integers(0, 5).map(float)
pairs = st.lists(st.tuples(values, times), max_size=40)


def one_by_one(seen: list[tuple[float, float]]) -> Statistics:
    statistics = EMPTY
    for value, at in seen:
        statistics = update(statistics, value, at)
    return statistics


def exact(seen: list[tuple[float, float]]) -> tuple[Fraction, Fraction]:
    """Mean and sum of squared differences in rational arithmetic."""
    numbers = [Fraction(value) for value, _ in seen]
    mean = sum(numbers, Fraction(0)) / len(numbers)
    return mean, sum(((number - mean) ** 2 for number in numbers), Fraction(0))


def assert_close(statistics: Statistics, seen: list[tuple[float, float]]) -> None:
    """The rounding bound of Welford's method: n eps on the mean, n eps sqrt(1 + mean^2 / variance) on m2."""
    mean, m2 = exact(seen)
    largest = max(abs(value) for value, _ in seen)
    n = len(seen)
    assert statistics.n == n
    assert abs(statistics.mean - float(mean)) <= 4 * n * EPSILON * largest + TINY
    assert abs(statistics.m2 - float(m2)) <= 8 * n * EPSILON * (float(m2) + largest * math.sqrt(n * float(m2))) + (
        n * (4 * n * EPSILON * largest) ** 2 + TINY
    )
    at = max(time for _, time in seen)
    assert (statistics.last_at, statistics.last) == (at, max(value for value, time in seen if time == at))


@given(pairs.filter(len))
def test_one_by_one_equals_exact_arithmetic(seen: list[tuple[float, float]]) -> None:
    assert_close(one_by_one(seen), seen)


@given(pairs.filter(len))
def test_a_batch_equals_exact_arithmetic(seen: list[tuple[float, float]]) -> None:
    assert_close(of(*zip(*seen, strict=True)), seen)


@given(pairs, pairs)
def test_merging_equals_exact_arithmetic(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> None:
    merged = merge(one_by_one(first), one_by_one(second))
    if first + second:
        assert_close(merged, first + second)
    else:
        assert merged is EMPTY


@given(pairs)
def test_nothing_changes_nothing(seen: list[tuple[float, float]]) -> None:
    statistics = one_by_one(seen)
    assert merge(statistics, EMPTY) == statistics == merge(EMPTY, statistics)


@given(pairs.filter(len), st.randoms(use_true_random=False))
def test_the_last_value_does_not_depend_on_the_order(seen: list[tuple[float, float]], rng: random.Random) -> None:
    shuffled = rng.sample(seen, len(seen))
    assert one_by_one(shuffled)[3:] == one_by_one(seen)[3:] == of(*zip(*shuffled, strict=True))[3:]


@pytest.mark.parametrize("offset", [1e6, 1e9, 1e12])
def test_a_small_variance_far_from_zero_survives(offset: float) -> None:
    noise = np.random.default_rng(0).integers(-8, 9, 10_000) / 16  # exact after the offset is added
    seen = [(offset + value, 0.0) for value in noise]
    expected = noise.var(ddof=1)
    assert one_by_one(seen).variance == pytest.approx(expected, rel=1e-4)
    assert of(*zip(*seen, strict=True)).variance == pytest.approx(expected, rel=1e-10)


def test_equal_values_have_no_variance() -> None:
    assert one_by_one([(0.1, 0.0)] * 1000).variance == 0.0
    assert of([0.1] * 1000, [0.0] * 1000).deviation < 1e-16


def test_numpy_agrees() -> None:
    drawn = np.random.default_rng(1).lognormal(5, 2, 5000)
    statistics = one_by_one([(value, 0.0) for value in drawn])
    assert statistics.mean == pytest.approx(drawn.mean(), rel=1e-12)
    assert statistics.deviation == pytest.approx(drawn.std(ddof=1), rel=1e-12)


@pytest.mark.parametrize("statistics", [EMPTY, of([3.0], [1.0])])
def test_fewer_than_two_values_have_no_variance(statistics: Statistics) -> None:
    assert math.isnan(statistics.variance) and math.isnan(statistics.deviation)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2 * MAX_VALUE])
def test_what_would_poison_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        update(EMPTY, value, 0.0)
    with pytest.raises(ValueError, match="finite"):
        of([1.0, value, 2.0], [0.0, 0.0, 0.0])
    if abs(value) != 2 * MAX_VALUE:
        with pytest.raises(ValueError, match="finite"):
            update(EMPTY, 1.0, value)
        with pytest.raises(ValueError, match="finite"):
            of([1.0, 2.0], [value, 0.0])


def test_the_largest_values_stay_finite() -> None:
    statistics = one_by_one([(MAX_VALUE, 0.0), (-MAX_VALUE, 1.0)])
    assert math.isfinite(statistics.variance)
    assert math.isfinite(merge(statistics, statistics).m2)


def test_one_time_for_each_value() -> None:
    with pytest.raises(ValueError, match="one event time"):
        of([1.0, 2.0], [0.0])
    assert of([], []) is EMPTY
