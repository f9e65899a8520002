"""Statistics of many keys: merged as one by one, cut to the most recent families, compared key by key."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.history.snapshot import key_hash
from leap.predictor.history.welford import EMPTY, Statistics, update
from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.statistics_array import (
    STATISTICS_DTYPE,
    Records,
    cumulative_merge,
    difference,
    hashes,
    merged,
    observed,
    snapshot,
)

OBSERVATION = st.tuples(st.integers(1, 4), st.floats(-20, 20), st.integers(0, 5))


def records_of(seen: list[tuple[int, float, int]]) -> Records:
    key, y, at = (np.array(column) for column in zip(*seen, strict=True))
    return observed(key.astype(np.uint64), key.astype(np.uint64), y.astype(float), at.astype(float))


@given(st.lists(OBSERVATION, min_size=1, max_size=40), st.integers(0, 39), st.integers(0, 39))
def test_any_cut_merges_to_what_updates_one_by_one_give(seen: list[tuple[int, float, int]], a: int, b: int) -> None:
    first, second = sorted((a, b))
    parts = [records_of(part) for part in (seen[:first], seen[first:second], seen[second:]) if part]
    found = merged([merged(parts[:2]), *parts[2:]])
    expected: dict[int, Statistics] = {}
    for key, y, at in seen:
        expected[key] = update(expected.get(key, EMPTY), y, at)
    assert found["key"].tolist() == sorted(expected)
    for record in found:
        one = expected[int(record["key"])]
        assert (record["n"], record["last"], record["last_at"]) == (one.n, one.last, one.last_at)
        assert record["mean"] == pytest.approx(one.mean, abs=1e-9)
        assert record["m2"] == pytest.approx(one.m2, rel=1e-9, abs=1e-9)


def test_running_statistics_go_by_time_within_a_key() -> None:
    found, last = cumulative_merge(records_of([(2, 1.0, 9), (1, 4.0, 5), (1, 2.0, 3), (1, 9.0, 7)]))
    assert found["key"].tolist() == [1, 1, 1, 2]
    assert found["mean"].tolist() == [2.0, 3.0, 5.0, 1.0]
    assert found["m2"].tolist() == [0.0, 2.0, 26.0, 0.0]
    assert last.tolist() == [False, False, True, True]


def test_a_small_deviation_beside_a_large_mean_and_many_other_keys_is_kept() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(0, 8, 200_000)
    y[:1000] = 13.0 + rng.normal(0, 1e-4, 1000)
    key = np.r_[np.ones(1000), rng.integers(2, 5000, 199_000)].astype(np.uint64)
    found = merged([observed(key, key, y, np.arange(200_000.0))])
    assert found["m2"][0] == pytest.approx(float(np.var(y[:1000]) * 1000), rel=1e-4)


def test_nothing_merges_to_nothing() -> None:
    assert len(merged([])) == len(merged([statistics_array.NONE, statistics_array.NONE])) == 0
    assert len(snapshot(statistics_array.NONE)) == 0


def record(key: int, family: int, last_at: float, n: float = 1.0) -> tuple[float, ...]:
    return key, family, n, 5.0, 0.0, 5.0, last_at


def test_a_snapshot_keeps_the_most_recent_families_with_their_hardware_and_every_model_type() -> None:
    families = [record(10, 10, 1.0), record(20, 20, 3.0), record(30, 30, 2.0)]
    pairs = [record(11, 10, 1.0), record(21, 20, 3.0), record(22, 20, 0.5), record(31, 30, 2.0)]
    records = np.array([*families, *pairs, record(99, 0, 0.1)], STATISTICS_DTYPE)
    assert snapshot(records).hashes.tolist() == [10, 11, 20, 21, 22, 30, 31, 99]
    assert snapshot(records, max_families=2).hashes.tolist() == [20, 21, 22, 30, 31, 99]
    assert snapshot(records, max_families=1).hashes.tolist() == [20, 21, 22, 99]


@pytest.mark.parametrize(("max_keys", "families"), [(8, 3), (7, 2), (6, 2), (5, 1), (4, 1), (3, 0)])
def test_a_snapshot_is_never_larger_than_serving_loads(max_keys: int, families: int) -> None:
    recent_first = [(20, 2), (30, 1), (10, 1)]
    keys = [
        record(family + place, family, 100.0 - family % 20)
        for family, pairs in recent_first
        for place in range(pairs + 1)
    ]
    found = snapshot(np.array([*keys, record(99, 0, 0.1)], STATISTICS_DTYPE), max_keys=max_keys)
    assert len(found) <= max_keys
    assert sum(int(key) % 10 == 0 for key in found.hashes) == families


def test_the_difference_counts_keys_and_observations() -> None:
    store = np.array(
        [record(1, 1, 1.0), record(2, 2, 1.0, n=5.0), record(3, 3, 1.0), record(5, 5, 1.0)], STATISTICS_DTYPE
    )
    partitions = np.array(
        [record(1, 1, 1.0), record(2, 2, 1.0, n=3.0), record(4, 4, 1.0), record(5, 5, 1.0)], STATISTICS_DTYPE
    )
    partitions["mean"][3] += 0.25
    found = difference(store, partitions)
    assert (found.keys, found.equal, found.ahead, found.behind, found.unequal) == (5, 1, 3, 1, 1)
    assert found.largest == 0.25


def test_hashes_of_columns_are_those_of_single_keys() -> None:
    family, hardware = pd.Series(["b", "a", "b", "b"]), pd.Series(["x", "y", "x", "y"])
    assert hashes("family", family).tolist() == [key_hash("family", name) for name in family]
    assert hashes("family_hardware", family, hardware).tolist() == [
        key_hash("family_hardware", *pair) for pair in zip(family, hardware, strict=True)
    ]
    assert len(hashes("family", family[:0])) == 0
