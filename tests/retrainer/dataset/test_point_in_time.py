"""Point-in-time statistics against a replay of the log, attempt by attempt."""

from datetime import timedelta

import numpy as np
import pytest

from leap.predictor.features.batch import JobBatch
from leap.predictor.features.history import KINDS, Statistics
from leap.predictor.history.welford import EMPTY, update
from leap.retrainer.dataset.feature_table import frame, log_target
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.schemas.events import JobAttempt
from tests.builders import MIDNIGHT, attempt, submission

DAY = 86_400.0
TYPES = ("basic", "fast")


def fleet(count: int = 300, days: int = 6, seed: int = 1) -> list[JobAttempt]:
    """Attempts with a hair of noise on a large mean, where sums of squares would lose the deviation."""
    rng = np.random.default_rng(seed)
    return [
        attempt(
            submission(
                attempt_id=f"a-{number}",
                job_name=f"job-{rng.integers(7)}x",
                model_type=f"model-{rng.integers(3)}",
                at=MIDNIGHT + timedelta(days=float(rng.uniform(0, days))),
            ),
            TYPES[rng.integers(2)],
            float(np.exp(13.0 + rng.normal(0, 1e-4))),
            hours=float(rng.exponential(8.0)),
        )
        for number in range(count)
    ]


def replayed(attempts: list[JobAttempt], kind: str, of: JobAttempt, before: float) -> list[float]:
    """Statistics of one key by Welford updates over what finished before a moment."""
    found = EMPTY
    for other in attempts:
        same_family, same_type = other.family == of.family, other.completed.hardware_type == of.completed.hardware_type
        same_model = other.submitted.model_type == of.submitted.model_type
        member = {"family": same_family, "family_hardware": same_family and same_type, "model_type": same_model}[kind]
        finished = other.completed.finished_at.timestamp()
        if member and finished < before:
            found = update(found, float(np.log(other.completed.measurements["throughput"])), finished)
    if not found.n:
        return [np.nan] * 5
    return [found.n, found.mean, found.deviation, found.last, found.last_at / DAY]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_sees_what_had_finished_by_the_end_of_the_day_before(kind: str) -> None:
    attempts = fleet()
    rows = frame(attempts)
    found = PointInTimeStatistics(rows, log_target(rows, "throughput")).at_launch(rows)[kind]
    for row, one in enumerate(attempts):
        midnight = np.floor(one.submitted.submitted_at.timestamp() / DAY) * DAY
        assert_same(found[row], replayed(attempts, kind, one, midnight))


def test_the_snapshot_of_a_day_is_what_the_next_day_sees() -> None:
    attempts = fleet()
    rows = frame(attempts)
    statistics = PointInTimeStatistics(rows, log_target(rows, "throughput"))
    midnight = MIDNIGHT + timedelta(days=4)
    later = [submission(job_name=f"job-{number}x", model_type="model-1", at=midnight) for number in range(8)]
    jobs = JobBatch.from_events(later)
    snapshot = statistics.snapshot(int(midnight.timestamp() // DAY) - 1)
    found = snapshot.find(jobs, np.arange(8), ["fast"] * 8)
    for row, one in enumerate(later):
        for kind in KINDS:
            assert_same(found[kind][row], replayed(attempts, kind, attempt(one, "fast", 1.0), midnight.timestamp()))


def test_rows_without_a_target_do_not_count() -> None:
    attempts = [attempt(submission(f"a-{number}"), "fast", 0.0) for number in range(3)]
    rows = frame(attempts)
    statistics = PointInTimeStatistics(rows, log_target(rows, "throughput"))
    assert len(statistics.snapshot(30_000)) == 0
    assert np.isnan(statistics.at_launch(rows)["family"]).all()


def assert_same(found: Statistics, expected: list[float]) -> None:
    np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=2e-5, equal_nan=True)
