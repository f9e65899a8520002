"""Keys of attempts: what makes them equal, what keeps them apart, and where they are found."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.features.batch import JobBatch
from leap.predictor.history.hash_index import COLUMNS, Keys, column_hashes, configurations
from tests.builders import submission

ROWS: dict[str, Any] = {
    "family": np.array(["a", "b", "", ""], dtype=object),
    "model_type": np.array(["m", "m", "m", "n"], dtype=object),
    "hardware_type": np.array(["a", "b", "a", "a"], dtype=object),
    "accelerators": np.array([8.0, 8.0, 8.0, 16.0]),
    "batch_size": np.array([8.0, 8.0, 8.0, 8.0]),
}
names = st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4, unique=True).map(tuple)


@given(st.lists(names, max_size=8))
def test_a_key_does_not_depend_on_the_keys_asked_for_before(asked: list[tuple[str, ...]]) -> None:
    keys, together = Keys.from_rows(ROWS), Keys(column_hashes(ROWS), tuple(asked))
    for one in asked:
        np.testing.assert_array_equal(keys.of(one), Keys.from_rows(ROWS).of(one))
        np.testing.assert_array_equal(keys.of(one), together.of(one))


def test_rows_have_one_key_if_they_agree_in_its_columns_and_none_without_a_family() -> None:
    keys = Keys.from_rows(ROWS)
    model = keys.of(("model_type", "accelerators"))
    assert model[0] == model[1] == model[2] != model[3]
    of_family = keys.of(("family", "accelerators"))
    assert of_family[0] != of_family[1] and of_family[2:].tolist() == [0, 0]
    assert len({keys.of(one)[0] for one in (("family",), ("hardware_type",), ("family", "hardware_type"))}) == 2
    assert keys.of(("model_type", "hardware_type"))[0] != keys.of(("hardware_type", "model_type"))[0]


def test_jobs_of_equal_numbers_and_names_have_one_configuration() -> None:
    first = submission("a-1", trainers=2, batch_size=64.0)
    again = submission("a-2", "other", "bert", trainers=2, batch_size=64.0)
    extra = msgspec.structs.replace(first, config=msgspec.structs.replace(first.config, extra={"run": "x"}))
    changed = [
        msgspec.structs.replace(first, config=msgspec.structs.replace(first.config, **change))
        for change in (
            {"num_trainers": 8, "accelerators_per_trainer": 2},  # the same numbers, in other places
            {"num_trainers": 8},
            {"accelerators_per_trainer": 2},
            {"batch_size": 32.0, "data_readers": 64.0},
            {"batch_size": None},
            {"precision": "fp16"},
            {"precision": None},
        )
    ]
    found = configurations(JobBatch.from_events([first, again, extra, *changed])).tolist()
    assert found[0] == found[1] == found[2] and len(set(found[2:])) == 1 + len(changed)
    assert configurations(JobBatch.from_events([changed[0]]))[0] == found[3], "alone or among others"
