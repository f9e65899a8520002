"""Arrays of a model: what is written is read, and what is not as it must be is refused with its file's name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from leap.predictor.models.arrays import ArraySpec, load_arrays, save_arrays

SPECS = {
    "a/names": ArraySpec("U", ("rows",), increasing=True),
    "a/values": ArraySpec("f8", ("rows+1", 2), low=0.0, high=9.0),
    "a/gaps": ArraySpec("f4", ("rows",), missing=True),
    "a/keys": ArraySpec("u8", ("keys",), increasing=True, optional=True),
}
WHOLE: dict[str, NDArray[Any]] = {
    "a/names": np.array(["x", "yz"]),
    "a/values": np.arange(6.0).reshape(3, 2),
    "a/gaps": np.array([1, np.nan], np.float32),
    "a/keys": np.array([3, 2**63], np.uint64),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    save_arrays(tmp_path, "some", WHOLE)
    read = load_arrays(tmp_path, "some", SPECS)
    assert read.keys() == WHOLE.keys()
    for name, array in WHOLE.items():
        np.testing.assert_array_equal(read[name], array)
    save_arrays(tmp_path, "some", {name: array for name, array in WHOLE.items() if name != "a/keys"})
    assert "a/keys" not in load_arrays(tmp_path, "some", SPECS)


OTHERS: dict[str, tuple[str, Any, str]] = {
    "type": (
        "a/values",
        np.arange(6).reshape(3, 2),
        r"some_1.npy \(a/values\): int64 \(3, 2\) where f8 \(rows",
    ),
    "byte order": ("a/values", WHOLE["a/values"].astype(">f8"), "some_1.npy .*: >f8 .* where f8"),
    "dimensions": ("a/values", np.zeros(6), r"some_1.npy .*: float64 \(6,\) where"),
    "size": ("a/gaps", np.zeros(3, np.float32), r"some_2.npy .*: float32 \(3,\) where f4 \(rows=2\)"),
    "too few": ("a/values", np.zeros((0, 2)), r"some_1.npy .*: float64 \(0, 2\) where"),
    "range": ("a/values", WHOLE["a/values"] + 5, "some_1.npy .*: values that are not from 0 to 9"),
    "missing": ("a/values", np.full((3, 2), np.nan), "some_1.npy .*: values that are not from 0 to 9"),
    "infinite": ("a/gaps", np.array([np.nan, np.inf], np.float32), "some_2.npy .*: values that are not from"),
    "order": ("a/names", np.array(["yz", "x"]), "some_0.npy .*: entries that do not increase"),
    "order of keys": ("a/keys", np.array([2**63, 3], np.uint64), "some_3.npy .*: entries that do not increase"),
    "twice": ("a/names", np.array(["x", "x"]), "some_0.npy .*: entries that do not increase"),
    "no characters": ("a/names", np.array([7, 0x110000], np.uint32).view("<U1"), "some_0.npy .*: text with what is"),
    "text of another order": ("a/names", np.array(["x", "yz"], ">U2"), "some_0.npy .*: text as >U2"),
}


@pytest.mark.parametrize(("name", "array", "match"), OTHERS.values(), ids=OTHERS)
def test_an_array_that_is_not_as_it_must_be_is_refused(
    tmp_path: Path, name: str, array: NDArray[Any], match: str
) -> None:
    save_arrays(tmp_path, "some", WHOLE | {name: array})
    with pytest.raises(ValueError, match=match):
        load_arrays(tmp_path, "some", SPECS)


@pytest.mark.parametrize(
    ("head", "match"),
    [
        ('["a/names", "a/values"]', r"other arrays than this version reads: \['a/gaps'\]; retrain or upgrade"),
        ('["a/names", "a/values", "a/gaps", "a/more"]', r"\['a/more'\]"),
        ('["a/names", "a/values", "a/gaps", "a/gaps"]', "some twice"),
        ('["../names"]', "up to 96 names"),
        ("[1]", "Expected `str`"),
        ("[" * 5000, "some.json"),
        ("\x00", "some.json"),
    ],
)
def test_a_head_that_names_other_arrays_is_refused(tmp_path: Path, head: str, match: str) -> None:
    save_arrays(tmp_path, "some", WHOLE)
    (tmp_path / "some.json").write_text(head)
    with pytest.raises(ValueError, match=match):
        load_arrays(tmp_path, "some", SPECS)
