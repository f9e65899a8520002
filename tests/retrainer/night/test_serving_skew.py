"""Served features against recomputed: equal when serving saw what the night sees, and named when it did not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from leap.predictor.features import history
from leap.predictor.features.batch import HardwareTable
from leap.predictor.features.history import FEATURES, Imputation
from leap.retrainer.dataset.feature_table import SERVED, frame, log_target
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.training_set import TrainingSet, build_training_set
from leap.retrainer.night.serving_skew import skew
from tests.artifacts import past
from tests.builders import CATALOG


@pytest.fixture
def data() -> TrainingSet:
    """Attempts whose served features are those that an artifact with other imputed values would have served."""
    rows = frame(past())
    made = build_training_set(
        rows, HardwareTable(CATALOG), PointInTimeStatistics(rows, log_target(rows, "throughput")), "throughput"
    )
    served = history.features(made.pairs.history, made.pairs.jobs.submitted_at, Imputation(mean=3.0, deviation=9.0))
    columns = pd.DataFrame(served.astype(np.float32).astype(float), columns=list(SERVED))
    return replace(made, table=made.table.drop(columns=list(SERVED)).join(columns))


def test_what_serving_saw_is_what_the_night_recomputes(data: TrainingSet) -> None:
    found = skew(data)
    assert set(found) == set(FEATURES)
    assert {name: one.differing for name, one in found.items() if one.differing} == {}
    assert found["family_cold"].n == len(data)
    assert found["family_mean"].n == int((data.table["served_family_cold"] == 0).sum()) < len(data)


def test_a_feature_that_was_served_otherwise_is_named(data: TrainingSet) -> None:
    shifted = data.table.assign(served_family_mean=data.table["served_family_mean"] + 0.5)
    found = skew(replace(data, table=shifted))
    assert {name for name, one in found.items() if one.differing} == {"family_mean"}
    assert found["family_mean"].differing == 100.0
    assert found["family_mean"].mean == pytest.approx(found["family_mean"].recomputed + 0.5, abs=1e-3)


def test_a_family_that_serving_did_not_know_is_a_skew_of_its_flag_and_count(data: TrainingSet) -> None:
    row = int(np.flatnonzero(data.table["served_family_cold"] == 0)[0])
    rows = data.table.copy()
    rows.loc[row, ["served_family_cold", "served_family_count"]] = [1.0, 0.0]
    found = skew(replace(data, table=rows))
    assert {name for name, one in found.items() if one.differing} == {"family_cold", "family_count"}


def test_without_served_features_there_is_no_skew(data: TrainingSet) -> None:
    assert skew(replace(data, table=data.table.assign(**dict.fromkeys(SERVED, np.nan)))) == {}
