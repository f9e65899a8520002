"""100,000 rows of a simulated fleet: what a launch builds is what a night builds, and both models choose alike."""

from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd
import pytest

from leap.predictor.features import architecture, matrix
from leap.predictor.features.batch import HardwareTable, JobBatch, strings
from leap.predictor.features.job_family import family
from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.models.boosted import BoostedTrees
from leap.retrainer.dataset.feature_table import frame, jobs, log_target, normalise
from leap.retrainer.dataset.partitions import day_number
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.training_set import build_training_set, imputed_of, vocabulary_of
from leap.retrainer.night.tree_arrays import serving_form
from leap.schemas.events import THROUGHPUT, JobAttempt, JobSubmitted
from leap.streams.simulator.events import attempt_columns, day_events
from leap.streams.simulator.fleet import Fleet, FleetConfig
from tests.builders import attempt

FLEET = Fleet(FleetConfig(days=5, attempts_per_day=2600))
LEARNED, RANKED = range(3), range(3, 5)
TYPES = (*sorted(FLEET.hardware), "Ascend910", "L4", "T4", "no such type")
ROWS = 100_000


@dataclass(frozen=True)
class Fleets:
    """Rows of the last days built by a night, and one job after the other as at launch."""

    at_night: Matrix
    at_launch: Matrix
    price: np.ndarray
    trained_on: tuple[Matrix, np.ndarray]


def join(event: JobSubmitted) -> JobAttempt:
    """The row that the joiner makes of a submission."""
    return msgspec.structs.replace(
        attempt(event, TYPES[0], 1.0),
        family=family(event.job_name),
        architecture=None if event.model is None else architecture.summary(event.model),
    )


@pytest.fixture(scope="module")
def built() -> Fleets:
    table = HardwareTable(FLEET.catalog)
    past = normalise(pd.concat([pd.DataFrame(attempt_columns(FLEET.day(day))) for day in LEARNED]))
    asked = [event for day in RANKED for _, _, event in day_events(FLEET.day(day)) if isinstance(event, JobSubmitted)]
    asked = list({event.attempt_id: event for event in asked}.values())[: -(-ROWS // len(TYPES))]
    learned = build_training_set(past, table, PointInTimeStatistics(past, log_target(past, THROUGHPUT)), THROUGHPUT)
    vocabulary, imputed = vocabulary_of(learned), imputed_of(learned)
    statistics = PointInTimeStatistics(past, log_target(past, THROUGHPUT))

    joined = [join(event) for event in asked]
    rows = frame(joined)
    pairs = rows.loc[rows.index.repeat(len(TYPES))].reset_index(drop=True).assign(hardware_type=TYPES * len(rows))
    job = np.arange(len(pairs))
    kinds = pairs["hardware_type"].to_numpy(dtype=object)
    launched = CandidateRows(jobs(pairs), table, job, kinds, statistics.at_launch(pairs))
    at_night = matrix.build(launched, vocabulary, imputed)

    snapshots = {day: statistics.snapshot(day_number(FLEET.day(day).date) - 1) for day in RANKED}
    first = np.zeros(len(TYPES), np.intp)
    blocks = []
    for event in asked:
        one = JobBatch.from_events([event])
        found = snapshots[(event.submitted_at.date() - FLEET.config.start).days].find(one, first, TYPES)
        blocks.append(matrix.build(CandidateRows(one, table, first, strings(TYPES), found), vocabulary, imputed))
    return Fleets(
        at_night=at_night,
        at_launch=np.concatenate(blocks),
        price=np.tile(table.price[table.index(TYPES)], len(asked)),
        trained_on=(learned.matrix(vocabulary, imputed), learned.y),
    )


def test_features_are_equal_bit_for_bit(built: Fleets) -> None:
    assert len(built.at_launch) >= ROWS
    assert (np.isnan(built.at_launch).mean(axis=0) < 1).sum() > 100, "most features have values"
    differing = (built.at_launch.view(np.uint32) != built.at_night.view(np.uint32)).sum(axis=0)
    assert not differing.any(), f"columns {np.flatnonzero(differing)}"


def test_what_serves_chooses_what_scikit_learn_chooses(built: Fleets) -> None:
    model = BoostedTrees(max_iter=40, max_leaf_nodes=63, learning_rate=0.1).fit(*built.trained_on)
    served, trees = serving_form(model).predict(built.at_launch), model.predict(built.at_launch)
    np.testing.assert_allclose(served, trees, rtol=0, atol=1e-9)
    scores = [np.nan_to_num((y - np.log(built.price)).reshape(-1, len(TYPES)), nan=-np.inf) for y in (served, trees)]
    chosen, expected = (score.argmax(axis=1) for score in scores)
    for row in np.flatnonzero(chosen != expected):
        tied = scores[1][row, [chosen[row], expected[row]]]
        assert np.ptp(tied) < 2e-9, f"job {row}: {TYPES[chosen[row]]} for {TYPES[expected[row]]}, no tie: {tied}"
    assert (chosen == expected).mean() > 0.99
