"""Attempts to rows and back: features of the table equal those of the events, bit for bit."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leap.predictor.features import architecture, matrix
from leap.predictor.features.batch import HardwareTable, JobBatch, strings
from leap.retrainer.dataset.feature_table import ARCHITECTURE, frame, jobs, log_target
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.training_set import build_training_set, imputed_of, vocabulary_of
from leap.schemas.events import JobAttempt
from leap.schemas.launch import LaunchConfig
from tests.builders import CATALOG, MIDNIGHT, MODEL, attempt, submission

TABLE = HardwareTable(CATALOG)


def attempts() -> list[JobAttempt]:
    rng = np.random.default_rng(3)
    made = []
    for number in range(60):
        job = submission(
            f"a-{number}",
            job_name=f"job-{number % 5}x",
            model_type=f"m{number % 4}",
            at=MIDNIGHT + timedelta(hours=number),
            trainers=1 + number % 3,
            batch_size=float(rng.integers(1, 512)) / 3.0,
            model=MODEL if number % 2 else None,
        )
        one = attempt(job, ("basic", "fast", "unheard of")[number % 3], float(rng.lognormal(5, 2)))
        summary = architecture.summary(MODEL) if number % 2 else None
        made.append(
            JobAttempt(**{name: getattr(one, name) for name in one.__struct_fields__} | {"architecture": summary})
        )
    return made


def test_columns_of_the_table_equal_columns_of_the_events(tmp_path: Path) -> None:
    made = attempts()
    partitions = Partitions(tmp_path)
    partitions.ingest(made)
    stored = partitions.read(partitions.days()).set_index("attempt_id").loc[[one.attempt_id for one in made]]
    at_night, at_launch = jobs(stored.reset_index()), JobBatch.from_events([one.submitted for one in made])
    for name in ("model_type", "family", "submitted_at", "numbers", "names", "architecture"):
        np.testing.assert_array_equal(getattr(at_night, name), getattr(at_launch, name), err_msg=name)
    assert list(at_night.extra) == list(at_launch.extra)


def test_features_at_night_equal_features_at_launch_bit_for_bit() -> None:
    made = attempts()
    rows = frame(made)
    statistics = PointInTimeStatistics(rows, log_target(rows, "throughput"))
    data = build_training_set(rows, TABLE, statistics, "throughput")
    vocabulary, imputed = vocabulary_of(data), imputed_of(data)
    at_night = data.matrix(vocabulary, imputed)
    by_id = {one.attempt_id: one for one in made}
    for row, attempt_id in enumerate(data.table["attempt_id"]):
        one = by_id[attempt_id]
        single = JobBatch.from_events([one.submitted])
        day = int(one.submitted.submitted_at.timestamp() // 86_400)
        found = statistics.snapshot(day - 1).find(single, np.zeros(1, np.intp), [one.completed.hardware_type])
        at_launch = matrix.build(
            matrix.CandidateRows(single, TABLE, np.zeros(1, np.intp), strings([one.completed.hardware_type]), found),
            vocabulary,
            imputed,
        )
        assert at_launch[0].tobytes() == at_night[row].tobytes(), attempt_id


def test_only_successes_and_the_last_row_of_an_attempt_stay() -> None:
    good = attempt(submission("a"), "basic", 5.0)
    again = attempt(submission("a"), "fast", 7.0)
    rows = frame([good, again])
    assert rows["hardware_type"].tolist() == ["fast"]
    assert frame([]).columns.tolist() == frame([good]).drop(columns="measured_throughput").columns.tolist()


def test_the_target_is_the_logarithm_of_what_is_positive() -> None:
    rows = pd.DataFrame({"measured_throughput": [np.exp(1.0), 0.0, -1.0, np.nan]})
    np.testing.assert_array_equal(log_target(rows, "throughput"), [1.0, np.nan, np.nan, np.nan])
    assert np.isnan(log_target(rows, "another")).all()


def test_free_fields_survive() -> None:
    job = submission("a")
    config = LaunchConfig(num_trainers=1, accelerators_per_trainer=1, extra={"framework": "torch", "seed": 7.0})
    job = type(job)(**{name: getattr(job, name) for name in job.__struct_fields__} | {"config": config})
    assert jobs(frame([attempt(job, "fast", 1.0)])).extra[0] == {"framework": "torch", "seed": 7.0}


@pytest.mark.parametrize("name", ARCHITECTURE)
def test_every_architecture_value_has_a_column(name: str) -> None:
    assert name in frame([]).columns
