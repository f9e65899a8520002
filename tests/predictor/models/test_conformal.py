"""Interval: quantiles by hand, coverage on data whose noise is known."""

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from leap.predictor.models.conformal import Floats, Interval, calibrate


def test_the_quantile_is_that_of_a_finite_sample() -> None:
    # Nine errors 1..9: ceil(10 * .8) = 8 of 9, where the plain quantile would take the 7.4th.
    errors = np.array([3.0, 1, 9, 2, 5, 4, 8, 6, 7])
    interval = calibrate(errors, np.zeros(9), None, np.full(9, "known"))
    assert interval == Interval(0.8, overall=8.0, groups={})


def test_errors_are_measured_in_spreads() -> None:
    spread = np.array([1.0, 2, 4, 8])
    interval = calibrate(10 + spread * [1, -1, 3, -2], np.full(4, 10.0), spread, np.full(4, "a"), level=0.6)
    assert interval.overall == 2.0
    lower, upper = interval.bounds(np.array([1.0]), np.array([0.5]), np.array(["a"]))
    assert (lower.tolist(), upper.tolist()) == ([0.0], [2.0])


def test_small_groups_share_the_overall_width() -> None:
    y = np.r_[np.full(60, 1.0), np.full(49, 3.0)]
    interval = calibrate(y, np.zeros(109), None, np.repeat(["known", "new"], [60, 49]))
    assert interval.groups == {"known": 1.0}
    assert interval.overall == 3.0
    lower, _ = interval.bounds(np.zeros(3), None, np.array(["known", "new", "never seen"]))
    assert lower.tolist() == [-1.0, -3.0, -3.0]


@pytest.mark.parametrize("seed", range(3))
def test_covers_what_it_promises_in_every_group_whatever_the_noise(seed: int) -> None:
    random = np.random.default_rng(seed)

    def day() -> tuple[Floats, Floats, Floats, NDArray[np.str_]]:
        group = random.choice(["known", "new"], size=20_000, p=[0.8, 0.2])
        spread = random.lognormal(-2, 0.5, size=20_000)
        wrong = np.where(group == "new", 3.0, 0.7)
        y = 7 + wrong * spread * random.standard_t(3, size=20_000)
        return y, np.full(20_000, 7.0), spread, group

    interval = calibrate(*day())
    y, mean, spread, group = day()
    lower, upper = interval.bounds(mean, spread, group)
    for name in ("known", "new"):
        covered = ((lower <= y) & (y <= upper))[group == name].mean()
        assert covered == pytest.approx(0.8, abs=0.02)
    narrow, wide = spread < np.quantile(spread, 0.2), spread > np.quantile(spread, 0.8)
    for rows in (narrow, wide):
        assert ((lower <= y) & (y <= upper))[rows].mean() == pytest.approx(0.8, abs=0.03)


def test_without_a_spread_the_share_holds_over_all_rows() -> None:
    random = np.random.default_rng(9)
    y = random.normal(size=(2, 10_000)) * random.lognormal(size=(2, 10_000))
    group = np.full(10_000, "known")
    lower, upper = calibrate(y[0], np.zeros(10_000), None, group).bounds(np.zeros(10_000), None, group)
    assert ((lower <= y[1]) & (y[1] <= upper)).mean() == pytest.approx(0.8, abs=0.02)


def test_is_a_few_numbers_in_json() -> None:
    interval = Interval(0.8, overall=0.3, groups={"family history": 0.2})
    assert msgspec.json.decode(msgspec.json.encode(interval), type=Interval) == interval


def test_says_what_is_wrong() -> None:
    one = np.ones(1)
    with pytest.raises(ValueError, match="1 held-out rows are too few for an interval of 80%"):
        calibrate(one, one, None, np.array(["a"]))
    with pytest.raises(ValueError, match="spread is zero, negative or missing"):
        calibrate(np.ones(9), np.ones(9), np.r_[np.ones(8), np.nan], np.full(9, "a"))
