"""The estimate of the saving beside the true one, on simulated fleets whose truth is known.

A fleet runs by habit while a first night learns (`LEARN` days), then in shadow; a second night learns from all that,
and the fleet is routed: the scheduler gives each attempt the best ranked type that has room. The true saving compares
the noise-free cost of the same attempts, doing the same samples, where routing put them and where habit had put them.
"""

import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.features.batch import Floats
from leap.retrainer.dataset.feature_table import jobs, normalise
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.retrainer.savings.estimate import Saving, saving
from leap.schemas.events import THROUGHPUT
from leap.streams.simulator import constants as calibration
from leap.streams.simulator.day_batch import DayBatch
from leap.streams.simulator.events import attempt_columns, attempt_ids, joined
from leap.streams.simulator.fleet import Fleet, FleetConfig
from leap.streams.simulator.scheduler import allocate

LEARN, SHADOW, ROUTED = 12, 5, 5


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One fleet: the estimate, and the true saving in percent."""

    seed: int
    estimate: Saving
    truth: float

    @property
    def inside(self) -> bool:
        """Whether the truth lies in the interval of the estimate."""
        return self.estimate.low <= self.truth <= self.estimate.high


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All fleets.

    Attributes
    ----------
    inside
        Fleets whose true saving lies in the interval of the estimate.
    mean_error, mean_width
        Mean |estimate - truth|, and mean width of the interval, in points.
    """

    fleets: int
    inside: int
    mean_truth: float
    mean_estimate: float
    mean_error: float
    mean_width: float
    trials: list[Trial]


def bench(fleets: int, attempts_per_day: int) -> Figures:
    """Estimate and compare on fleets of different seeds."""
    trials = [trial(seed, attempts_per_day) for seed in range(fleets)]
    truth, estimate = np.array([(result.truth, result.estimate.share) for result in trials]).T
    width = [result.estimate.high - result.estimate.low for result in trials]
    return Figures(
        fleets=fleets,
        inside=sum(int(result.inside) for result in trials),
        mean_truth=round(float(truth.mean()), 2),
        mean_estimate=round(float(estimate.mean()), 2),
        mean_error=round(float(np.abs(estimate - truth).mean()), 2),
        mean_width=round(float(np.mean(width)), 2),
        trials=trials,
    )


def trial(seed: int, attempts_per_day: int) -> Trial:
    """One fleet from its first day to its saving."""
    fleet = Fleet(FleetConfig(seed=seed, days=LEARN + SHADOW + ROUTED, attempts_per_day=attempts_per_day))
    price = np.array([fleet.catalog[name].price_per_hour or np.nan for name in fleet.hardware])
    past = [_rows(fleet.day(day)) for day in range(LEARN)]
    artifact = _learn(fleet, past)
    shadow = [_shadow(fleet, artifact, day) for day in range(LEARN, LEARN + SHADOW)]
    artifact = _learn(fleet, [*past, *(part[0] for part in shadow)])
    parts = [_routed(fleet, artifact, price, day) for day in range(LEARN + SHADOW, fleet.config.days)]
    estimate = saving(
        pd.concat([part[0] for part in shadow], ignore_index=True),
        np.concatenate([part[1] for part in shadow]),
        pd.concat([part[0] for part in parts], ignore_index=True),
        np.concatenate([part[1] for part in parts]),
        fleet.hardware,
        price,
    )
    spent, without = np.array([part[2:] for part in parts], dtype=float).sum(axis=0)
    return Trial(seed=seed, estimate=estimate, truth=round(float(100 * (1 - spent / without)), 2))


def _learn(fleet: Fleet, past: list[pd.DataFrame]) -> Artifact:
    """What a night makes of the days so far."""
    with tempfile.TemporaryDirectory(prefix="leap-bench-") as name:
        partitions, store = Partitions(Path(name) / "partitions"), LocalStore(Path(name) / "artifacts")
        partitions.merge(normalise(pd.concat(past, ignore_index=True)))
        night = fleet.config.start + timedelta(days=len(past))
        report = Night(partitions, store, fleet.catalog).run(Plan(night=night, window_days=len(past)))
        return artifacts.load(store.folder(THROUGHPUT, report.artifact))


def _predicted(fleet: Fleet, artifact: Artifact, rows: pd.DataFrame) -> Floats:
    """(n, types) samples/s on every type of the fleet."""
    job = np.repeat(np.arange(len(rows)), len(fleet.hardware))
    pairs = artifact.candidate_rows(jobs(rows), job, list(fleet.hardware) * len(rows))
    mean = artifact.predict(artifact.features(pairs)).mean
    return np.asarray(np.exp(mean).reshape(len(rows), len(fleet.hardware)), dtype=np.float64)


def _rows(batch: DayBatch) -> pd.DataFrame:
    rows = normalise(pd.DataFrame(attempt_columns(batch)))
    return rows.assign(measured=rows[f"measured_{THROUGHPUT}"])


def _shadow(fleet: Fleet, artifact: Artifact, day: int) -> tuple[pd.DataFrame, Floats]:
    """Attempts of a day in shadow, and what was predicted of them for the type that they ran on."""
    batch = fleet.day(day)
    rows = _rows(batch)
    ran_on = np.array([fleet.hardware.index(name) for name in rows["hardware_type"]])
    predicted = _predicted(fleet, artifact, rows)[np.arange(len(rows)), ran_on]
    return rows.assign(accelerator_hours=_work(fleet, batch)[joined(batch)] / rows["measured"]), predicted


def _work(fleet: Fleet, batch: DayBatch) -> Floats:
    """(n,) accelerators x samples of each attempt, whatever it runs on.

    A fleet draws how long an attempt runs, also on fast hardware. Samples that followed from that would tell where
    habit had put it, which no estimate can know, so they follow from its mean speed over its candidates.
    """
    hours = (batch.finished - batch.started) / 3_600_000
    accelerators = batch.config.trainers * batch.config.accelerators
    return np.asarray(accelerators * hours * np.exp(np.nanmean(np.log(fleet.truth(batch)), axis=1)))


def _routed(fleet: Fleet, artifact: Artifact, price: Floats, day: int) -> tuple[pd.DataFrame, Floats, float, float]:
    """Attempts of a routed day, what was predicted of them, and their true cost routed and by habit."""
    habit = fleet.day(day)
    everyone = normalise(pd.DataFrame(_all_attempts(habit)))
    predicted = _predicted(fleet, artifact, everyone)
    capacity = np.array([calibration.POOLS[name].capacity for name in fleet.hardware])
    capacity = capacity / capacity.sum() * fleet.config.attempts_per_day / 24 * calibration.CAPACITY_HEADROOM
    hour = (habit.submitted - fleet.midnight(day)) // 3_600_000
    score = np.log(predicted) - np.log(np.where(np.isnan(price), np.inf, price))
    placed = allocate(habit.candidates, score, hour, capacity)
    attempts = np.arange(len(habit))
    truth = fleet.truth(habit)
    noise = habit.measured / truth[attempts, habit.hardware]
    work = _work(fleet, habit)
    measured = truth[attempts, placed] * noise
    rows = everyone.assign(
        hardware_type=[fleet.hardware[position] for position in placed],
        measured=measured,
        accelerator_hours=work / measured,
    )
    ended = joined(habit) & ~np.isnan(price[placed]) & ~np.isnan(price[habit.hardware])
    spent = (work * price[placed] / truth[attempts, placed])[ended].sum()
    without = (work * price[habit.hardware] / truth[attempts, habit.hardware])[ended].sum()
    offered = np.where(habit.candidates, predicted, np.nan)
    return rows[ended].reset_index(drop=True), offered[ended], float(spent), float(without)


def _all_attempts(batch: DayBatch) -> dict[str, object]:
    """Rows of all attempts, also of those that fail: they take room."""
    good = replace(batch, run=np.full_like(batch.run, 0.5))
    assert len(attempt_ids(good)) == int(joined(good).sum())
    return attempt_columns(good)
