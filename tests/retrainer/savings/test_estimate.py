"""The saving: cases worked out by hand, and what it must not depend on."""

from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.features.batch import Floats
from leap.predictor.routing.router import Router
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.replay.lines import predictions
from leap.retrainer.savings.estimate import habits, saving
from leap.retrainer.savings.inputs import saving_since
from tests.artifacts import SPEED, night_over, past
from tests.builders import CATALOG, MIDNIGHT, attempt, submission

TYPES = ("cheap", "dear", "other")
PRICE = np.array([1.0, 4.0, np.nan])


def attempts(*rows: tuple[str, str, float, float], model_type: str = "m") -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["family", "hardware_type", "accelerator_hours", "measured"])
    return frame.assign(model_type=model_type)


BEFORE = attempts(("f", "dear", 10.0, 100.0), ("f", "dear", 10.0, 100.0), ("g", "cheap", 5.0, 50.0))
RIGHT = BEFORE["measured"].to_numpy()


def offered(rows: int, *speeds: float) -> Floats:
    return np.tile(np.array(speeds), (rows, 1))


def test_by_hand() -> None:
    routed = attempts(("f", "cheap", 20.0, 80.0))
    found = saving(BEFORE, RIGHT, routed, offered(1, 80.0, 100.0, np.nan), TYPES, PRICE)
    # 20 h x 80 samples/s = 16 h at 100 samples/s, at 4 USD: 64 USD where 20 were spent.
    assert (found.attempts, found.spent, found.without, found.kappa) == (1, 20.0, 64.0, 1.0)
    assert found.share == pytest.approx(68.75)
    assert found.low == found.high == found.share  # predictions were right, and one family was routed


def test_slow_runs_before_routing_are_expected_without_it() -> None:
    slow = BEFORE.assign(measured=RIGHT / 2)
    routed = attempts(("f", "cheap", 20.0, 80.0))
    found = saving(slow, RIGHT, routed, offered(1, 80.0, 100.0, np.nan), TYPES, PRICE)
    assert (found.kappa, found.without) == (2.0, 128.0)


def test_no_routing_saves_nothing() -> None:
    """Routed as by habit, with predictions that are right on average: the interval holds zero."""
    rng = np.random.default_rng(0)
    names = [f"f{number % 40}" for number in range(800)]
    hardware = np.where(rng.random(800) < 0.5, "cheap", "dear")
    truth = {"cheap": 60.0, "dear": 200.0}
    measured = np.array([truth[name] for name in hardware]) * np.exp(rng.normal(0, 0.2, 800))
    rows = attempts(*zip(names, hardware, rng.lognormal(0, 1, 800), measured, strict=True))
    before, routed = rows[:400], rows[400:].reset_index(drop=True)
    predicted = np.array([truth[name] for name in before["hardware_type"]])
    found = saving(before, predicted, routed, offered(400, 60.0, 200.0, np.nan), TYPES, PRICE)
    assert found.low < 0.0 < found.high
    assert found.high - found.low < 30.0


def test_habits_of_the_family_then_its_model_type_then_the_fleet() -> None:
    before = pd.concat([BEFORE, attempts(("h", "cheap", 1.0, 1.0), model_type="n")])
    routed = pd.concat(
        [
            attempts(("f", "cheap", 1.0, 1.0), ("new", "cheap", 1.0, 1.0)),
            attempts(("new", "cheap", 1.0, 1.0), model_type="unheard"),
            attempts(("f", "cheap", 1.0, 1.0)),
        ]
    )
    possible = np.array([[True, True, False]] * 3 + [[True, False, False]])
    shares = habits(before, routed, possible, TYPES)
    assert shares.tolist() == [
        [0.0, 1.0, 0.0],
        pytest.approx([1 / 3, 2 / 3, 0.0]),
        [0.5, 0.5, 0.0],
        pytest.approx([1.0, 0.0, 0.0]),  # its habit is no candidate now
    ]


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="0 attempts before routing"):
        saving(BEFORE, np.full(3, np.nan), BEFORE, offered(3, 1.0, 1.0, 1.0), TYPES, PRICE)
    with pytest.raises(ValueError, match="3 attempts before routing and 0 routed"):  # on the day that it begins
        saving(BEFORE, RIGHT, BEFORE[:0], offered(0, 1.0, 1.0, 1.0), TYPES, PRICE)
    with pytest.raises(ValueError, match="0 attempts before routing and 0 routed"):
        saving(BEFORE[:0], RIGHT[:0], BEFORE[:0], offered(0, 1.0, 1.0, 1.0), TYPES, PRICE)


def test_from_partitions_as_served(tmp_path: Path) -> None:
    """Jobs that used to run on the dear type are routed to the cheap one; rows keep what was served."""
    store, report = night_over(tmp_path, past())
    router = Router(store)
    router.refresh()
    served = []
    for number in range(120):
        at = MIDNIGHT + timedelta(days=11 + number / 40)
        job = submission(f"s-{number}", job_name=f"team/job-{number % 12}x", model_type=f"model-{number % 4}", at=at)
        [answer] = router.rank_many([job])
        hardware = "basic" if number >= 80 else "newest"
        speed = predictions(answer)[hardware]
        made = attempt(job, hardware, speed)
        completed = msgspec.structs.replace(made.completed, accelerator_hours=16.0)
        family = answer.family
        row = msgspec.structs.replace(
            made, family=family, completed=completed, predicted=speed, artifact=report.artifact
        )
        served.append(row)
    partitions = Partitions(tmp_path / "served")
    partitions.ingest(served)
    since, until = (MIDNIGHT + timedelta(days=13)).date(), (MIDNIGHT + timedelta(days=20)).date()
    found = saving_since(partitions, store, CATALOG, since, until)
    assert found.attempts == 40
    assert found.kappa == pytest.approx(1.0)
    per_hour = np.array([[predictions(router.rank_many([row.submitted])[0])[name] for name in SPEED] for row in served])
    basic, _, newest = per_hour[80:].T
    assert found.spent == pytest.approx(40 * 16.0 * 1.0)
    assert found.without == pytest.approx(float((16.0 * basic / newest * 10.0).sum()), rel=1e-3)
    with pytest.raises(ValueError, match="nothing to compare"):
        saving_since(partitions, LocalStore(tmp_path / "nothing"), CATALOG, since, until)
