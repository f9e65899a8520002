"""What was once said of a model stands for later attempts of its type."""

from datetime import timedelta

import numpy as np
import pytest

from leap.predictor.features.architecture import NAMES, summary
from leap.predictor.features.batch import JobBatch
from leap.predictor.history import definitions
from leap.predictor.history.definitions import Definitions
from leap.schemas.launch import ModelDefinition, ModelTotals
from tests.builders import MIDNIGHT, MODEL, submission

SMALL = ModelDefinition(totals=ModelTotals(flops=1e9, parameters=1e6))
FLOPS = NAMES.index("flops")


def test_the_newest_definition_of_a_type_fills_in_and_a_stated_one_stays() -> None:
    stated = [
        submission(model_type="a", model=SMALL, at=MIDNIGHT + timedelta(days=1)),
        submission(model_type="a", model=MODEL),
        submission(model_type="b", model=MODEL),
    ]
    known = Definitions().updated(JobBatch.from_events(stated))
    assert list(known.by_type) == ["b", "a"], "stated longest ago first"
    again = Definitions.from_json(known.to_json())
    jobs = JobBatch.from_events([submission(model_type=name) for name in "abc"] + [stated[1]])
    filled = again.filled(jobs).architecture
    for row, expected in enumerate((SMALL, MODEL, None, MODEL)):
        values = summary(expected) if expected else {}
        np.testing.assert_array_equal(filled[row], [values.get(name, np.nan) for name in NAMES])
    assert again.filled(jobs.take(np.array([2, 3]))).architecture[1, FLOPS] == summary(MODEL)["flops"]


def test_the_oldest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "MAX_TYPES", 2)
    jobs = [submission(model_type=str(day), model=SMALL, at=MIDNIGHT + timedelta(days=day)) for day in range(4)]
    assert list(Definitions().updated(JobBatch.from_events(jobs)).by_type) == ["2", "3"]


MANY = b'{"a": {' + b",".join(b'"x%d": 1' % number for number in range(200)) + b"}}"
LONG = b" " * (definitions.MAX_BYTES + 1)


@pytest.mark.parametrize(
    "data",
    [b"[]", b'{"a": {"flops": -1}}', b'{"a": {"flops": null}}', b'{"": {}}', b"\xff", b"{" * 10_000, MANY, LONG],
    ids=range(8),
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=definitions.FILE):
        Definitions.from_json(data)
