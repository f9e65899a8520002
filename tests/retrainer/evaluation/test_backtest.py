"""The walk forward: what it lets a recipe see, what it scores, and the public runs in time order."""

from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from leap.predictor.features.batch import Floats, JobBatch, Rows, strings
from leap.predictor.models.structured.model import rows_of
from leap.retrainer.dataset.feature_table import attempt_of, frame
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.evaluation.backtest import Backtest, rows_of_table, seen, summary, walk
from leap.retrainer.evaluation.median_chain import ChainOfMedians
from leap.schemas.events import THROUGHPUT, JobAllocated
from tests.artifacts import past
from tests.builders import MIDNIGHT
from tests.commands import invoke


def rows_on(days: list[float], **columns: list[float] | list[str]) -> Rows:
    count = len(days)
    given = {name: np.array(values) for name, values in columns.items()}
    return {
        "model_type": np.full(count, "m"),
        "hardware_type": np.full(count, "A"),
        "accelerators": np.full(count, 8.0),
        "batch_size": np.full(count, 64.0),
        **given,
        "day": np.array(days),
    }


class Witness:
    """Predicts the number of rows that it was fitted on, and keeps the latest day of each fit."""

    def __init__(self) -> None:
        self.latest: list[float] = []
        self.count = 0

    def fit(self, rows: Rows, y: Floats) -> None:
        self.latest.append(float(rows["day"].max()))
        self.count = len(y)

    def predict(self, rows: Rows) -> Floats:
        return np.full(len(rows["day"]), float(self.count))


@pytest.mark.parametrize(("every_days", "expected"), [(1, [3, 3, 5, 6]), (2, [3, 3, 3, 6]), (9, [3, 3, 3, 3])])
def test_a_fit_sees_earlier_days_only(every_days: int, expected: list[float]) -> None:
    rows = rows_on([0.0, 0.9, 1.0, 5.1, 5.8, 6.0, 7.5])
    witness = Witness()
    predicted = walk(rows, np.zeros(7), witness, every_days, warm_up_days=2)
    np.testing.assert_array_equal(predicted, [np.nan, np.nan, np.nan, *expected])
    assert witness.latest[0] == 1.0


def test_runs_side_by_side_see_what_one_after_the_other_does() -> None:
    rng = np.random.default_rng(0)
    rows = rows_on(np.sort(rng.uniform(0, 30, 200)).tolist(), accelerators=rng.choice([8.0, 16.0], 200).tolist())
    y = rng.normal(5, 1, 200)
    alone, two = (walk(rows, y, ChainOfMedians(), 2, 10, jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(alone, two)
    assert np.isfinite(alone).sum() == (rows["day"] >= 10).sum()


def test_rows_of_the_feature_table_are_those_of_the_events() -> None:
    attempts = sorted(past(3, 20), key=lambda one: one.submitted.submitted_at)
    given = JobAllocated(attempt_id="a", hardware_type="fast", hosts=1, accelerators=8, allocated_at=MIDNIGHT)
    jobs = [(one.submitted, given, one.completed) for one in attempts]
    rows, y = rows_of_table(frame(map(attempt_of, jobs)))
    events = JobBatch.from_events([one.submitted for one in attempts])
    expected = rows_of(events, np.arange(60), strings([one.completed.hardware_type for one in attempts]))
    expected_y = np.log([one.completed.measurements[THROUGHPUT] for one in attempts])
    np.testing.assert_array_equal(y, expected_y)
    for name, column in expected.items():
        np.testing.assert_array_equal(rows[name], column)


def test_the_command_over_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAP_PARTITIONS", str(tmp_path))
    arguments = ["--recipe", "chain", "--warm-up", "3", "--json"]
    nothing = invoke("backtest", *arguments)
    assert (nothing.exit_code, "has no attempts" in nothing.output) == (1, True)
    Partitions(tmp_path).ingest(past())
    found = msgspec.json.decode(invoke("backtest", *arguments).output, type=Backtest)
    assert found.all is not None and found.all.n == 420
    unmapped = invoke("backtest", str(Path(__file__)), *arguments)
    assert unmapped.exit_code == 1 and "--mapping" in unmapped.output


def test_seen_means_model_hardware_and_scale_on_an_earlier_day() -> None:
    rows = rows_on(
        [0.0, 0.5, 1.0, 1.0, 2.0], accelerators=[8.0, 8.0, 8.0, 16.0, 8.0], batch_size=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    assert seen(rows).tolist() == [False, False, True, False, True]


def test_summary_scores_seen_and_unseen_apart() -> None:
    rows = rows_on([0.0, 1.0, 1.0], accelerators=[8.0, 8.0, 16.0])
    result = summary(rows, np.log([100.0, 100.0, 100.0]), np.log([np.nan, 104.0, 150.0]))
    assert result.all is not None and result.seen is not None and result.unseen is not None
    assert (result.all.n, result.seen.w5, result.unseen.w20) == (2, 100.0, 0.0)


def test_chain_falls_back_to_the_more_general_key() -> None:
    past = rows_on([0.0] * 3, accelerators=[8.0, 8.0, 16.0], batch_size=[64.0, 32.0, 64.0])
    chain = ChainOfMedians().fit(past, np.log([10.0, 30.0, 80.0]))
    asked = rows_on(
        [1.0] * 5,
        accelerators=[8.0, 8.0, 32.0, 32.0, 1.0],
        batch_size=[64.0, 1.0, 1.0, 1.0, 1.0],
        hardware_type=["A", "A", "A", "B", "A"],
        model_type=["m", "m", "m", "m", "new"],
    )
    per_accelerator = np.median([10.0 / 8, 30.0 / 8, 80.0 / 16])
    expected = [10.0, np.sqrt(10.0 * 30.0), 32 * per_accelerator, 32 * per_accelerator, 1.0]
    np.testing.assert_allclose(np.exp(chain.predict(asked)), expected)


def test_chain_on_the_public_runs_is_the_reference(shared_data: Path) -> None:
    table = pd.read_csv(shared_data / "mlperf-training" / "runs.csv", low_memory=False)
    table = table[(table.status == "success") & (table.throughput > 0) & ~table.resubmission & table.suspect.isna()]
    times = pd.to_datetime(table.start_time, utc=True).dt.floor("D")
    rows = {
        "model_type": table.model_type.to_numpy(dtype=str),
        "hardware_type": table.hardware_type.to_numpy(dtype=str),
        "accelerators": table.num_gpus.fillna(1).clip(lower=1).to_numpy(dtype=float),
        "batch_size": table.batch_size.to_numpy(dtype=float),
        "day": ((times - times.min()) / pd.Timedelta(days=1)).to_numpy(dtype=float),
    }
    y = np.log(table.throughput.to_numpy(dtype=float))
    result = summary(rows, y, walk(rows, y, ChainOfMedians()))
    assert result.all is not None and result.seen is not None and result.unseen is not None
    # Published with the data, where a median of an even number is taken before the logarithm.
    assert (result.all.n, result.seen.n, result.unseen.n) == (16_455, 12_485, 3_970)
    assert abs(result.all.w20 - 80.3) < 0.6 and abs(result.seen.w20 - 94.0) < 0.6
