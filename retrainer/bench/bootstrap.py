"""Accuracy on a hardware type that never ran, against the number of jobs run there first, and how they are chosen."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.features.batch import Floats, HardwareTable, Rows
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.models.accuracy import accuracy
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.predictor.models.structured.exact_history import ExactHistory
from leap.predictor.models.structured.family_effects_estimator import posterior
from leap.predictor.models.structured.gp_prior_estimator import StructuredPrior
from leap.predictor.models.structured.model import EXTRAS, Structured
from leap.retrainer.bootstrap import candidates
from leap.retrainer.dataset.feature_table import normalise
from leap.retrainer.dataset.training_set import attempts_of
from leap.schemas.events import THROUGHPUT
from leap.streams.simulator.day_batch import DayBatch
from leap.streams.simulator.events import attempt_columns, joined
from leap.streams.simulator.fleet import Fleet, FleetConfig

DAYS = 10
HARDWARE = ("MI300X", "H100-SXM-80GB", "TPU-v5e", "Gaudi2")
#: Draws of jobs at random, of which the mean is taken.
DRAWS = 3


class Point(msgspec.Struct, frozen=True):
    """Scores on the new type, of the jobs of the last day that may use it, against their noise-free truth."""

    jobs: int
    chosen: str
    w20: float
    mdape: float


def bench(counts: tuple[int, ...], attempts_per_day: int, seeds: int) -> list[Point]:
    """Means over `seeds` fleets and `HARDWARE` for each number of jobs; `none` is without any."""
    scores: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        fleet = Fleet(FleetConfig(seed=seed, days=DAYS + 1, attempts_per_day=attempts_per_day))
        for hardware in HARDWARE:
            for key, result in _Hidden(fleet, hardware).scores(counts).items():
                scores.setdefault(key, []).append(result)
    means = {key: np.mean(results, axis=0).round(1).tolist() for key, results in scores.items()}
    return [Point(count, how, w20, mdape) for (count, how), (w20, mdape) in means.items()]


class _Hidden:
    """A fleet whose attempts on one hardware type are not known."""

    def __init__(self, fleet: Fleet, hardware: str) -> None:
        self._hardware, self._evening = hardware, fleet.midnight(DAYS) / 1000 - 3600
        self._place, self._table = fleet.hardware.index(hardware), HardwareTable(fleet.catalog)
        batches = [fleet.day(day) for day in range(DAYS)]
        rows = normalise(pd.concat([pd.DataFrame(attempt_columns(batch)) for batch in batches], ignore_index=True))
        self._past = rows[rows["hardware_type"] != hardware].reset_index(drop=True)
        self._truth = {name: value for batch in batches for name, value in self._true(fleet, batch).items()}
        families = candidates(self._past, self._table, int(self._table.index([hardware])[0]), THROUGHPUT)
        self._families = families[families["attempt_id"].isin(self._truth)].reset_index(drop=True)
        day = fleet.day(DAYS)
        asked = pd.DataFrame(attempt_columns(day)).assign(hardware_type=hardware, measured_throughput=np.nan)
        asked["measured_throughput"] = asked["attempt_id"].map(self._true(fleet, day))
        self._asked, self._asked_y = self._rows(normalise(asked))
        self._recipe = StructuredRecipe(self._table, EXTRAS).fit(*self._rows(self._past))

    def scores(self, counts: Sequence[int]) -> dict[tuple[int, str], tuple[float, float]]:
        """Number of jobs and how they were chosen to w20 and MdAPE."""
        families, rng = len(self._families), np.random.default_rng(0)
        designs = {
            "planned": [list(range(families))],
            "at random": [rng.permutation(families).tolist() for _ in range(DRAWS)],
        }
        scores = {(0, "none"): self._score([])}
        for how, orders in designs.items():
            for count in counts:
                w20, mdape = np.mean([self._score(order[:count]) for order in orders], axis=0)
                scores[count, how] = float(w20), float(mdape)
        return scores

    def _score(self, chosen: list[int]) -> tuple[float, float]:
        """Condition on the past and the runs on the new type, made the evening before; score the next day there."""
        runs = self._families.iloc[chosen]
        ran = runs.assign(
            hardware_type=self._hardware, submitted_at=self._evening - SECONDS_PER_DAY / 8, finished_at=self._evening,
            attempt_id=runs["attempt_id"] + "-again",
            measured_throughput=[self._truth[name] for name in runs["attempt_id"]],
        )  # fmt: skip
        known = [self._past, ran[self._past.columns]] if chosen else [self._past]
        (rows, y), recipe = self._rows(normalise(pd.concat(known, ignore_index=True))), self._recipe
        prior = StructuredPrior(
            self._table,
            EXTRAS,
            variances=recipe.variances_,
            form=recipe.form_,
            calibration=recipe.calibration_,
            steps=0,
        ).fit(rows, y)
        process = posterior(rows, y - prior.predict(rows), recipe.family_variances_)
        model = Structured(prior.prior_, process, ExactHistory.of(rows, y), recipe.gate_)
        predicted = model.estimate(self._asked).combined.mean
        scores = accuracy(np.exp(predicted), np.exp(self._asked_y))
        assert scores is not None
        return scores.w20, scores.mdape

    def _rows(self, table: pd.DataFrame) -> tuple[Rows, Floats]:
        attempts = attempts_of(table, self._table)
        return attempts.rows, attempts.y

    def _true(self, fleet: Fleet, batch: DayBatch) -> dict[str, float]:
        """Attempt id to noise-free samples/s on the new type, of the attempts that may use it."""
        values = fleet.truth(batch)[joined(batch), self._place]
        ids = attempt_columns(batch)["attempt_id"]
        return {name: value for name, value in zip(ids, values.tolist(), strict=True) if not np.isnan(value)}
