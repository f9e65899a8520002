"""What is as usual raises no doubt; a day with far fewer or far different rows does."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

from leap.predictor.features.history import SECONDS_PER_DAY
from leap.retrainer.dataset.feature_table import log_target
from leap.retrainer.dataset.partitions import day_number
from leap.retrainer.night.anomaly_checks import window_anomalies
from leap.streams.simulator.events import attempt_columns
from leap.streams.simulator.fleet import Fleet, FleetConfig

LAST = date(2026, 3, 10)
A_DAY = 400


def table(days: int = 8) -> tuple[pd.DataFrame, "np.ndarray[tuple[int], np.dtype[np.float64]]"]:
    """Rows of days up to `LAST`, `A_DAY` on each, the last day's at the end; and y."""
    rng = np.random.default_rng(0)
    day = np.repeat(day_number(LAST) - np.arange(days)[::-1], A_DAY)
    rows = pd.DataFrame(
        {
            "finished_at": (day + 0.5) * SECONDS_PER_DAY,
            "hardware_type": rng.choice(["a", "b", "c"], len(day)),
            "model_type": rng.choice(["x", "y"], len(day)),
        }
    )
    return rows, rng.normal(5.0, 2.0, len(day))


def test_a_usual_window_raises_no_doubt() -> None:
    assert window_anomalies(*table(), [], 10) == ()


@pytest.mark.parametrize(("left", "suspicious"), [(99, True), (100, False), (1, True)])
def test_a_day_with_far_fewer_attempts(left: int, suspicious: bool) -> None:
    rows, y = table()
    kept = len(rows) - A_DAY + left
    found = window_anomalies(rows[:kept], y[:kept], [], 10)
    assert bool(found) is suspicious
    if suspicious:
        assert found == (f"2026-03-10 has {left} attempts with the target, where a day has 400",)


def test_a_day_on_which_the_target_was_hardly_measured() -> None:
    rows, y = table()
    y[-A_DAY:-3] = np.nan
    assert window_anomalies(rows, y, [], 10) == ("2026-03-10 has 3 attempts with the target, where a day has 400",)


def test_a_day_in_another_unit() -> None:
    rows, y = table()
    y[-A_DAY:] += np.log(1000.0)
    [found] = window_anomalies(rows, y, [], 10)
    assert found.startswith("the median of 2026-03-10 is ")


@pytest.mark.parametrize("column", ["hardware_type", "model_type"])
def test_a_day_of_other_work(column: str) -> None:
    rows, y = table()
    rows.loc[rows.index[-A_DAY:], column] = ["new"] * 300 + ["a"] * 100
    [found] = window_anomalies(rows, y, [], 10)
    assert found.endswith(f"have another {column} than is usual")


def test_some_missing_days_are_tolerated() -> None:
    gaps = [LAST - timedelta(days=number) for number in range(7, 1, -1)]
    assert window_anomalies(*table(), gaps, 6) == ()
    [found] = window_anomalies(*table(), gaps, 5)
    assert found == "6 days are missing (2026-03-03, 2026-03-04, 2026-03-05, 2026-03-06, 2026-03-07, …), more than 5"
    rows, y = table()
    assert len(window_anomalies(rows[:0], y[:0], gaps, 5)) == 1


def test_the_first_days_of_a_fleet_are_not_doubted() -> None:
    rows, y = table(days=3)
    assert window_anomalies(rows[: 2 * A_DAY + 1], y[: 2 * A_DAY + 1], [], 10) == ()


def test_no_day_of_the_simulated_fleet_is_doubted() -> None:
    fleet = Fleet(FleetConfig(days=20, attempts_per_day=400))
    rows = pd.concat([pd.DataFrame(attempt_columns(fleet.day(day))) for day in range(20)], ignore_index=True)
    for day in range(4, 20):
        last = fleet.config.start + timedelta(days=day)
        known = rows[rows["finished_at"] < (day_number(last) + 1) * SECONDS_PER_DAY]
        assert window_anomalies(known, log_target(known, "throughput"), [], 0) == (), last
