"""Several kinds of keys in one table."""

import numpy as np
import pytest

from leap.predictor.history.key_table import KeyTable

ABSENT = np.array([4, 9, 0], dtype=np.uint64)


def table() -> KeyTable:
    first = np.array([3, 7], dtype=np.uint64), np.array([[1.5, 2.0], [2.5, 3.0]])
    return KeyTable.of([first, (np.array([7], dtype=np.uint64), np.array([[8.0]]))])


def test_a_key_has_the_values_of_its_kind() -> None:
    asked = np.array([7, 3], dtype=np.uint64)
    np.testing.assert_array_equal(
        table().find([asked, asked], missing=np.nan), [[[2.5, 3.0], [1.5, 2.0]], [[8.0, 0.0], [np.nan, np.nan]]]
    )


def test_a_key_that_is_not_there_is_missing() -> None:
    found = table().find([ABSENT, ABSENT], missing=-1.0)
    assert found.shape == (2, 3, 2) and found.dtype == np.float64 and (found == -1.0).all()
    empty = KeyTable.of([(ABSENT[:0], np.zeros((0, 2)))] * 2)
    assert np.isnan(empty.find([ABSENT, ABSENT], missing=np.nan)).all()


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    stored = table()
    assert len(KeyTable.from_arrays(stored.hashes, stored.values, 2)) == 3
    for hashes, values in ((stored.hashes[1:], stored.values), (stored.hashes.astype(float), stored.values)):
        with pytest.raises(ValueError, match="hashes with 2 values each expected"):
            KeyTable.from_arrays(hashes, values, 2)
