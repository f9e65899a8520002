"""Served features against recomputed: equal when serving saw what the night sees, and named when it did not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from predictor.features import history
from predictor.features.history import FEATURES, Imputed
from predictor.jobs import HardwareTable
from retrainer.skew import skew
from retrainer.table import SERVED, frame, log_target
from retrainer.training import Data, prepare
from retrainer.twin import Twin
from tests.artifacts import past
from tests.builders import CATALOG


@pytest.fixture
def data() -> Data:
    """Attempts whose served features are those that an artifact with other imputed values would have served."""
    rows = frame(past())
    made = prepare(rows, HardwareTable(CATALOG), Twin(rows, log_target(rows, "throughput")), "throughput")
    served = history.features(made.pairs.found, made.pairs.jobs.submitted_at, Imputed(mean=3.0, deviation=9.0))
    columns = pd.DataFrame(served.astype(np.float32).astype(float), columns=list(SERVED))
    return replace(made, rows=made.rows.drop(columns=list(SERVED)).join(columns))


def test_what_serving_saw_is_what_the_night_recomputes(data: Data) -> None:
    found = skew(data)
    assert set(found) == set(FEATURES)
    assert {name: one.differing for name, one in found.items() if one.differing} == {}
    assert found["family_cold"].n == len(data)
    assert found["family_mean"].n == int((data.rows["served_family_cold"] == 0).sum()) < len(data)


def test_a_feature_that_was_served_otherwise_is_named(data: Data) -> None:
    shifted = data.rows.assign(served_family_mean=data.rows["served_family_mean"] + 0.5)
    found = skew(replace(data, rows=shifted))
    assert {name for name, one in found.items() if one.differing} == {"family_mean"}
    assert found["family_mean"].differing == 100.0
    assert found["family_mean"].mean == pytest.approx(found["family_mean"].recomputed + 0.5, abs=1e-3)


def test_a_family_that_serving_did_not_know_is_a_skew_of_its_flag_and_count(data: Data) -> None:
    row = int(np.flatnonzero(data.rows["served_family_cold"] == 0)[0])
    rows = data.rows.copy()
    rows.loc[row, ["served_family_cold", "served_family_count"]] = [1.0, 0.0]
    found = skew(replace(data, rows=rows))
    assert {name for name, one in found.items() if one.differing} == {"family_cold", "family_count"}


def test_without_served_features_there_is_no_skew(data: Data) -> None:
    assert skew(replace(data, rows=data.rows.assign(**dict.fromkeys(SERVED, np.nan)))) == {}
