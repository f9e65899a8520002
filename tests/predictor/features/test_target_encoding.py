"""Codes of names: what recurs has one, what an attempt alone has does not."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from leap.predictor.features import architecture
from leap.predictor.features.batch import NAMES, NUMBERS, Floats, HardwareTable, JobBatch, strings
from leap.predictor.features.target_encoding import MAX_CODES, MIN_ROWS, TargetEncoder, fit
from tests.builders import CATALOG

TABLE = HardwareTable(CATALOG)
ROWS = 1000


def jobs_of(
    count: int,
    extra: Sequence[Mapping[str, float | str]] | None = None,
    optimizer: Sequence[str | None] | None = None,
    model_type: list[str] | None = None,
) -> JobBatch:
    names = np.full((count, len(NAMES)), None, dtype=object)
    names[:, NAMES.index("optimizer")] = optimizer
    return JobBatch(
        model_type=strings(model_type or ["m"] * count),
        family=strings(["f"] * count),
        submitted_at=np.zeros(count),
        numbers=np.full((count, len(NUMBERS)), np.nan),
        names=names,
        architecture=np.full((count, len(architecture.NAMES)), np.nan),
        extra=extra or [{}] * count,
    )


def learned(jobs: JobBatch, y: Floats | None = None) -> TargetEncoder:
    y = np.arange(len(jobs), dtype=float) if y is None else y
    return fit(jobs, TABLE, np.zeros(len(jobs), np.intp), y)


def test_a_run_id_is_no_feature_and_takes_no_place() -> None:
    ids: dict[str, str] = {f"id{number}": "" for number in range(40)}
    extra = [{name: f"{name}-{row}" for name in ids} | {"team": f"t{row % 4}"} for row in range(ROWS)]
    vocabulary = learned(jobs_of(ROWS, extra))
    assert vocabulary.extra_names == ("team",)
    assert vocabulary.codes["extra_team"] == {f"t{code}": code for code in range(4)}
    assert vocabulary.codes.keys() == {"model_type", "hardware_type", "vendor", *NAMES, "extra_team"}


def test_a_rare_string_is_as_good_as_unseen() -> None:
    """Ranked by itself it would carry the throughput of the one row that has it."""
    optimizer = [f"mine-{row}" if row < 100 else ("adam", "sgd")[row % 2] for row in range(ROWS)]
    optimizer[-MIN_ROWS - 1 : -1] = ["lion"] * MIN_ROWS
    vocabulary = learned(jobs_of(ROWS, [{"by": name} for name in optimizer], optimizer))
    for field in ("optimizer", "extra_by"):
        assert vocabulary.codes[field] == {"adam": 0, "sgd": 1, "lion": 2}
        encoded = vocabulary.encode_field(field, strings(["mine-3", "never", "sgd", None]))
        np.testing.assert_array_equal(encoded, [[np.nan, 1], [np.nan, 1], [1, 0], [np.nan, 0]])


@pytest.mark.parametrize(("rows", "least"), [(20, 2), (100, 5), (400, 20), (ROWS, 20)])
def test_a_small_window_asks_for_fewer_rows(rows: int, least: int) -> None:
    optimizer = ["enough"] * least + ["few"] * (least - 1) + ["adam"] * (rows - 2 * least + 1)
    assert learned(jobs_of(rows, optimizer=optimizer)).codes["optimizer"].keys() == {"enough", "adam"}


def test_every_model_type_keeps_its_code() -> None:
    """One row is enough: a model type is not an attempt's own, and trees split on more than 255 by rank."""
    model_type = [f"m{row:03}" for row in range(700)]
    vocabulary = learned(jobs_of(700, model_type=model_type))
    assert vocabulary.codes["model_type"] == {name: code for code, name in enumerate(model_type)}


def test_codes_are_bounded() -> None:
    model_type = ["often", "often", *(f"m{row}" for row in range(3 * MAX_CODES))]
    codes = learned(jobs_of(len(model_type), model_type=model_type)).codes["model_type"]
    assert len(codes) == MAX_CODES
    assert "often" in codes
