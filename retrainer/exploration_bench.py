"""Accuracy on a hardware type that never ran, against the number of jobs run there first: planned, and at random."""

import msgspec
import numpy as np
import pandas as pd

from predictor.boosted import BoostedTrees
from predictor.features.history import SECONDS_PER_DAY
from predictor.jobs import HardwareTable
from retrainer.evaluate import scores
from retrainer.exploration import candidates, choose, describe
from retrainer.table import log_target, normalise
from retrainer.training import imputed_of, prepare, vocabulary_of
from retrainer.twin import Twin
from schemas.events import THROUGHPUT
from streams.fleet.events import joined
from streams.fleet.generate import DayBatch, Fleet, FleetConfig

DAYS = 10
HARDWARE = "MI300X"


class Point(msgspec.Struct, frozen=True):
    """Scores on the new type, of the jobs of the last day that may use it, against their noise-free truth."""

    jobs: int
    chosen: str
    w20: float
    mdape: float


def bench(counts: tuple[int, ...], attempts_per_day: int, seeds: int) -> list[Point]:
    """Means over `seeds` fleets for each number of jobs; `none` is without any."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        fleet = Fleet(FleetConfig(seed=seed, days=DAYS + 1, attempts_per_day=attempts_per_day))
        for key, result in _on_fleet(fleet, counts).items():
            found.setdefault(key, []).append(result)
    means = {key: np.mean(results, axis=0).round(1).tolist() for key, results in found.items()}
    return [Point(count, how, w20, mdape) for (count, how), (w20, mdape) in means.items()]


def _on_fleet(fleet: Fleet, counts: tuple[int, ...]) -> dict[tuple[int, str], tuple[float, float]]:
    table = HardwareTable(fleet.catalog)
    place = fleet.hardware.index(HARDWARE)
    batches = [fleet.day(day) for day in range(DAYS)]
    rows = normalise(pd.concat([pd.DataFrame(batch.attempts()) for batch in batches], ignore_index=True))
    past = rows[rows["hardware_type"] != HARDWARE].reset_index(drop=True)
    truth = {name: value for batch in batches for name, value in _truth(fleet, batch, place).items()}
    families = candidates(past, table, int(table.index([HARDWARE])[0]), THROUGHPUT)
    families = families[families["attempt_id"].isin(truth)].reset_index(drop=True)
    described, weight = describe(families, THROUGHPUT), families["attempts"].to_numpy(float)
    planned, _ = choose(described, weight, min(max(counts), len(families)))
    drawn = np.random.default_rng(fleet.config.seed).choice(len(families), len(planned), replace=False)
    found = {(0, "none"): _score(fleet, past, families.iloc[:0], truth, table, place)}
    for count in counts:
        for how, order in (("planned", planned), ("at random", drawn.tolist())):
            found[count, how] = _score(fleet, past, families.iloc[order[:count]], truth, table, place)
    return found


def _truth(fleet: Fleet, batch: DayBatch, place: int) -> dict[str, float]:
    """Attempt id to noise-free samples/s on the new type, of the attempts that may use it."""
    values = fleet.truth(batch)[joined(batch), place]
    ids = batch.attempts()["attempt_id"]
    return {name: value for name, value in zip(ids, values.tolist(), strict=True) if not np.isnan(value)}


def _score(
    fleet: Fleet, past: pd.DataFrame, runs: pd.DataFrame, truth: dict[str, float], table: HardwareTable, place: int
) -> tuple[float, float]:
    """Learn from the past and the runs on the new type, made on the evening before; score the next day there."""
    evening = fleet.midnight(DAYS) / 1000 - 3600
    measured = [truth[name] for name in runs["attempt_id"]]
    ran = runs.assign(
        hardware_type=HARDWARE, submitted_at=evening - SECONDS_PER_DAY / 8, finished_at=evening,
        attempt_id=runs["attempt_id"] + "-again", measured_throughput=measured,
    )  # fmt: skip
    rows = normalise(pd.concat([past, ran[past.columns.intersection(ran.columns)]], ignore_index=True))
    twin = Twin(rows, log_target(rows, THROUGHPUT))
    training = prepare(rows, table, twin, THROUGHPUT)
    vocabulary, imputed = vocabulary_of(training), imputed_of(training)
    model = BoostedTrees(max_leaf_nodes=31, max_iter=200, max_features=0.4, learning_rate=0.08)
    model.fit(training.matrix(vocabulary, imputed), training.y)
    batch = fleet.day(DAYS)
    values = fleet.truth(batch)[joined(batch), place]
    asked = normalise(pd.DataFrame(batch.attempts())).assign(hardware_type=HARDWARE)
    asked = asked.assign(measured_throughput=values)[~np.isnan(values)].reset_index(drop=True)
    test = prepare(asked, table, twin, THROUGHPUT)
    found = scores(np.exp(model.predict(test.matrix(vocabulary, imputed))), np.exp(test.y))
    assert found is not None
    return found.w20, found.mdape
