"""The history snapshot: what is saved is found again, and a torn one is refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.history.snapshot import HASHES_FILE, STATISTICS_FILE, Snapshot, key_hash

ROW = np.array([3.0, 5.5, 0.5, 6.0, 20000.0])


def snapshot_of(hashes: list[int]) -> Snapshot:
    return Snapshot.of(np.array(hashes, np.uint64), np.outer(np.arange(1, len(hashes) + 1), ROW).reshape(-1, 5))


@given(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=50), st.integers(0, 2**64 - 1))
def test_every_key_is_found_and_no_other(hashes: list[int], other: int) -> None:
    snapshot = snapshot_of(hashes)
    found = snapshot.lookup(np.array(hashes, np.uint64))
    assert np.array_equal(found, np.outer(np.arange(1, len(hashes) + 1), ROW).astype(np.float32).reshape(-1, 5))
    if other not in hashes:
        assert np.isnan(snapshot.lookup(np.array([other], np.uint64))).all()


def test_of_two_entries_of_a_key_the_one_with_more_observations_stays() -> None:
    rows = np.array([[2, 1, 0, 1, 1], [9, 2, 0, 1, 1], [4, 3, 0, 1, 1]], float)
    snapshot = Snapshot.of(np.array([7, 7, 7], np.uint64), rows)
    assert snapshot.lookup(np.array([7], np.uint64))[0, :2].tolist() == [9.0, 2.0]


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    hashes = {key_hash("family_hardware", *parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("", "abc"))}
    assert len(hashes) == 4
    assert key_hash("family", "x") != key_hash("model_type", "x")


def test_saved_and_memory_mapped(tmp_path: Path) -> None:
    snapshot = snapshot_of([5, 1, 2**63])
    snapshot.save(tmp_path)
    loaded = Snapshot.load(tmp_path)
    assert isinstance(loaded.statistics.base, np.memmap)
    assert np.array_equal(loaded.hashes, snapshot.hashes)
    assert np.array_equal(loaded.statistics, snapshot.statistics)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        (HASHES_FILE, np.array([3, 2, 1], np.uint64)),
        (HASHES_FILE, np.array([1, 1, 2], np.uint64)),
        (HASHES_FILE, np.array([1, 2, 3], np.int64)),
        (HASHES_FILE, np.array([[1, 2, 3]], np.uint64)),
        (STATISTICS_FILE, np.zeros((2, 5), np.float32)),
        (STATISTICS_FILE, np.zeros((3, 4), np.float32)),
        (STATISTICS_FILE, np.zeros((3, 5), np.float64)),
        (STATISTICS_FILE, np.array([{"a": 1}], object)),
    ],
)
def test_a_wrong_array_is_refused(tmp_path: Path, name: str, array: np.ndarray) -> None:
    snapshot_of([1, 2, 3]).save(tmp_path)
    np.save(tmp_path / name, array, allow_pickle=True)
    with pytest.raises(ValueError, match=r"history_|Python objects"):
        Snapshot.load(tmp_path)


def test_a_header_that_promises_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    snapshot_of([1, 2, 3]).save(tmp_path)
    whole = (tmp_path / HASHES_FILE).read_bytes()
    (tmp_path / HASHES_FILE).write_bytes(whole[:-8])
    with pytest.raises(ValueError, match=r"mmap length|file size"):
        Snapshot.load(tmp_path)
