"""Accuracy within k percent: the edge belongs to it however it was computed, and what is beyond does not."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.features.batch import Floats
from leap.predictor.models.accuracy import Accuracy, accuracy, within

MEASURED = st.floats(1e-3, 1e9)
PERCENT = st.sampled_from([5, 10, 15, 20])
#: The same prediction, 20% too much or too little, as different programs would write it.
ABOVE: list[Callable[[Floats], Floats]] = [
    lambda q: q * 1.2,
    lambda q: q + 0.2 * q,
    lambda q: q * 6 / 5,
    lambda q: np.exp(np.log(q) + np.log(1.2)),
]
BELOW: list[Callable[[Floats], Floats]] = [
    lambda q: q * 0.8,
    lambda q: q - 0.2 * q,
    lambda q: q * 4 / 5,
    lambda q: np.exp(np.log(q) + np.log(0.8)),
]


@pytest.mark.parametrize("edges", [ABOVE, BELOW], ids=["above", "below"])
def test_edge_is_within_whichever_side_rounding_takes(edges: list[Callable[[Floats], Floats]]) -> None:
    measured = np.r_[np.arange(1.0, 2000.0), np.geomspace(1e-3, 1e9, 2000)]
    error = np.array([np.abs(edge(measured) / measured - 1.0) for edge in edges])
    assert (error > 0.2).any() and (error < 0.2).any(), "cases on either side of a plain comparison"
    assert all(within(edge(measured), measured, 20).all() for edge in edges)


@given(MEASURED, PERCENT, st.sampled_from([-1.0, 1.0]), st.floats(1e-9, 1.0))
def test_within_is_a_closed_interval(measured: float, percent: int, side: float, part: float) -> None:
    q = np.array([measured])
    share = percent / 100
    assert within(q * (1 + side * share), q, percent)
    assert within(q * (1 + side * share * (1 - part)), q, percent)
    assert not within(q * (1 + side * (share + part)), q, percent)


@given(st.lists(st.tuples(MEASURED, st.floats(0.5, 2.0) | st.just(np.nan)), min_size=1))
def test_scores_are_shares_of_what_is_covered(rows: list[tuple[float, float]]) -> None:
    measured, ratio = np.array(rows).T
    covered = ~np.isnan(ratio)
    scores = accuracy(measured * ratio, measured)
    if not covered.any():
        assert scores is None
        return
    assert scores is not None
    assert (scores.n, scores.coverage) == (covered.sum(), round(100 * covered.mean(), 1))
    assert scores.w5 <= scores.w10 <= scores.w20
    assert scores.w20 == round(100 * within((measured * ratio)[covered], measured[covered], 20).mean(), 1)


def test_scores_of_the_edges() -> None:
    predicted = np.array([1.0, 1.05, 1.1, 1.2, 2.0, np.nan, np.nan, np.nan])
    expected = Accuracy(n=5, w20=80.0, w10=60.0, w5=40.0, mdape=10.0, ratio=1.1, coverage=62.5)
    assert accuracy(predicted, np.ones(8)) == expected
    assert accuracy(np.full(3, np.nan), np.ones(3)) is None and accuracy(np.empty(0), np.empty(0)) is None
