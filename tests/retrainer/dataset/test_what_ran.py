"""Rows of attempts that ran in another shape than they asked for, and the statistics beside them."""

import random
from datetime import timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.features.history import STATISTICS, pooled
from leap.predictor.history.welford import EMPTY, Statistics, merge, of
from leap.retrainer.dataset.feature_table import ASKED, MEASURED, frame
from leap.schemas.events import THROUGHPUT, JobAllocated, Shape
from leap.streams.joining.attempt import Part
from tests.streams.joining.attempt_parts import HARDWARE, START, completion, preference, row_of, submission

AS_ASKED = (2.0, 8.0, 64.0)
FOUR = Shape(hosts=4, accelerators=32)
MEASURED_FOUR = Shape(hosts=4, accelerators=32, batch_size=128.0, measurements={THROUGHPUT: 3000.0})


def allocated(hosts: int, accelerators: int, minutes: float = -1, hardware_type: str = HARDWARE) -> JobAllocated:
    at = START + timedelta(minutes=minutes)
    return JobAllocated(
        attempt_id="a-1", hardware_type=hardware_type, hosts=hosts, accelerators=accelerators, allocated_at=at
    )


def parts(allocations: list[JobAllocated], shapes: tuple[Shape, ...]) -> list[Part]:
    config = msgspec.structs.replace(submission().config, batch_size=64.0)
    return [submission(config=config), *allocations, completion(shapes=shapes), preference()]


@pytest.mark.parametrize(
    ("allocations", "shapes", "ran", "measured", "stated"),
    [
        ([], (), AS_ASKED, 801.0, None),
        ([allocated(2, 16)], (), AS_ASKED, 801.0, None),
        ([allocated(1, 8)], (), (1.0, 8.0, 64.0), 801.0, None),  # fewer
        ([allocated(4, 32)], (), (4.0, 8.0, 64.0), 801.0, None),  # more
        ([allocated(5, 12)], (), (5.0, 2.4, 64.0), 801.0, None),  # hosts that do not divide them
        ([allocated(1, 8, -5), allocated(4, 32, -1)], (), (4.0, 8.0, 64.0), 801.0, None),  # corrected before the start
        ([allocated(4, 32, hardware_type="A30")], (), AS_ASKED, 801.0, None),  # not of this run
        ([allocated(2, 16, 30)], (), AS_ASKED, 801.0, None),  # told late
        ([allocated(4, 32, 30)], (), (4.0, 8.0, 64.0), np.nan, None),  # another from the middle on
        ([], (FOUR,), (4.0, 8.0, 64.0), 801.0, 32.0),  # the completion alone
        ([allocated(1, 8)], (FOUR,), (4.0, 8.0, 64.0), 801.0, 32.0),  # it knows better
        ([allocated(4, 32, 30)], (FOUR,), (4.0, 8.0, 64.0), 801.0, 32.0),
        ([], (Shape(hosts=2, accelerators=16, batch_size=32.0),), (2.0, 8.0, 32.0), 801.0, 16.0),  # another batch
        ([], (Shape(hosts=1, accelerators=8), FOUR), (4.0, 8.0, 64.0), np.nan, 32.0),  # changed, throughput not stated
        ([], (Shape(hosts=1, accelerators=8), MEASURED_FOUR), (4.0, 8.0, 128.0), 3000.0, 32.0),
    ],
)
def test_row_has_the_shape_that_ran(
    allocations: list[JobAllocated],
    shapes: tuple[Shape, ...],
    ran: tuple[float, ...],
    measured: float,
    stated: float | None,
) -> None:
    (row,) = frame([row_of(parts(allocations, shapes))]).to_dict("records")
    assert tuple(row[name.removeprefix("asked_")] for name in ASKED) == ran
    np.testing.assert_equal(row.get(MEASURED + THROUGHPUT, np.nan), measured)
    np.testing.assert_equal(row["stated_accelerators"], np.nan if stated is None else stated)
    asked = tuple(row[name] for name in ASKED)
    np.testing.assert_equal(asked, (np.nan,) * 3 if ran == AS_ASKED else AS_ASKED)
    np.testing.assert_equal(row["predicted"], 790.0 if ran == AS_ASKED else np.nan)
    changed = len(shapes) > 1 or np.isnan(measured)
    assert row["resized"] == changed


COUNT = st.integers(1, 64)


@given(
    st.lists(st.tuples(COUNT, COUNT, st.integers(-60, 60)), max_size=4),
    st.lists(st.builds(Shape, hosts=COUNT, accelerators=COUNT), max_size=2),
    st.randoms(use_true_random=False),
)
def test_what_ran_wins_whatever_the_order_and_repetition(
    told: list[tuple[int, int, int]], shapes: list[Shape], rng: random.Random
) -> None:
    everything = parts([allocated(*one) for one in told], tuple(shapes))
    row = frame([row_of(everything)])
    again = everything + rng.choices(everything, k=3)
    rng.shuffle(again)
    assert frame([row_of(again)]).equals(row)
    if shapes:
        accelerators = row["num_trainers"] * row["accelerators_per_trainer"]
        assert accelerators[0] == pytest.approx(shapes[-1].accelerators)


@given(
    st.lists(st.tuples(st.floats(-5, 15, width=32), st.integers(20_000, 20_400)), max_size=6),
    st.lists(st.tuples(st.floats(-5, 15, width=32), st.integers(20_000, 20_400)), max_size=6),
    st.integers(1, 4096),
)
def test_pooled_statistics_are_those_of_all_attempts(
    whole: list[tuple[float, int]], each: list[tuple[float, int]], accelerators: int
) -> None:
    def statistics(values: list[tuple[float, int]], shift: float = 0.0) -> Statistics:
        return of([value + shift for value, _ in values], [day for _, day in values]) if values else EMPTY

    def row(known: Statistics) -> np.ndarray:
        told = (known.n, known.mean, known.deviation, known.last, known.last_at)
        return np.array([told if known.n else (np.nan,) * len(STATISTICS)], np.float32)

    expected = row(merge(statistics(whole), statistics(each, np.log(accelerators))))
    found = pooled(row(statistics(whole)), row(statistics(each)), np.array([float(accelerators)]))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
