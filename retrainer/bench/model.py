"""A model of the size of production, over a simulated fleet, for the benchmarks of the launch path."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pandas as pd

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.manifest import Manifest
from leap.predictor.artifacts.store import Pointer
from leap.predictor.features import matrix
from leap.predictor.features.batch import HardwareTable
from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.conformal import NOMINAL, Interval
from leap.retrainer.dataset.feature_table import log_target, normalise
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.training_set import build_training_set, imputed_of, ranges_of, vocabulary_of
from leap.retrainer.night.recipes import RECIPES, Trees
from leap.schemas.events import THROUGHPUT, JobSubmitted
from leap.schemas.hardware import Catalog
from leap.streams.simulator.events import attempt_columns, day_events
from leap.streams.simulator.fleet import Fleet, FleetConfig

DAYS = 12
ATTEMPTS_A_DAY = 2500
CANDIDATES = 20

Estimator = BoostedTrees | BinnedCascade

#: What makes trees as many as a night over 750,000 rows does, on these few rows: the boosted recipe never stops
#: early there, and 3,640 trees are what the paper's ended with. Nothing is said of accuracy.
FULL_SIZE: dict[str, dict[str, float]] = {
    "boosted": {"validation_fraction": 0},
    "paper": {"validation_fraction": 0, "max_iter": 140, "n_iter_no_change": 140, "rounds": 0, "min_samples_leaf": 5},
}


@dataclass(frozen=True)
class Trained:
    """What the benchmarks measure with.

    Attributes
    ----------
    store
        Has the artifact in production.
    estimator
        The trees in their training form; none where the recipe has none.
    submissions
        A day of the fleet after those it was trained on, each with 20 candidates.
    """

    store: LocalStore
    estimator: Estimator | None
    submissions: list[JobSubmitted]


def train(recipe: str, folder: Path) -> Trained:
    """Train on some days of a fleet and put the artifact into production under `folder`."""
    fleet = Fleet(FleetConfig(days=DAYS, attempts_per_day=ATTEMPTS_A_DAY))
    rows = normalise(pd.concat([pd.DataFrame(attempt_columns(fleet.day(day))) for day in range(DAYS - 1)]))
    statistics = PointInTimeStatistics(rows, log_target(rows, THROUGHPUT))
    data = build_training_set(rows, HardwareTable(fleet.catalog), statistics, THROUGHPUT)
    vocabulary, imputed = vocabulary_of(data), imputed_of(data)
    features, names = data.matrix(vocabulary, imputed), matrix.names(vocabulary)
    training = RECIPES[recipe](1)
    estimator = training.estimator if isinstance(training, Trees) else None
    if estimator is not None:
        estimator.set_params(**FULL_SIZE[recipe])
    training.fit(data, features)
    manifest = Manifest(
        version="",
        target=THROUGHPUT,
        created_at=datetime.now(UTC).replace(microsecond=0),
        window_from=fleet.day(0).date.isoformat(),
        window_to=fleet.day(DAYS - 2).date.isoformat(),
        rows=len(data),
        recipe=recipe,
        features=names,
        features_digest=matrix.digest(names),
        vocabulary=vocabulary,
        imputed=imputed,
        ranges=ranges_of(features, names),
        interval=Interval(level=NOMINAL, overall=0.2, groups={}),
        metrics={},
        catalog_digest=fleet.catalog.digest,
        libraries={},
        files={},
    )

    def write_files(draft: Path) -> None:
        training.save(draft)
        statistics.snapshot(int(data.submitted_day.max())).save(draft)

    store = LocalStore(folder)
    version = artifacts.write(folder / THROUGHPUT, manifest, fleet.catalog, write_files).name
    pointer = store.pointer(THROUGHPUT)
    moved = Pointer(version=version, reason="benchmark", moved_at=datetime.now(UTC))
    store.move(THROUGHPUT, moved, pointer)
    return Trained(store, estimator, submissions(fleet))


def submissions(fleet: Fleet) -> list[JobSubmitted]:
    """The submissions of the fleet's last day, each asking for the same 20 hardware types."""
    types = _twenty(fleet.catalog, fleet.hardware)
    events = (event for _, _, event in day_events(fleet.day(fleet.config.days - 1)))
    return [msgspec.structs.replace(event, candidates=types) for event in events if isinstance(event, JobSubmitted)]


def _twenty(catalog: Catalog, of_fleet: tuple[str, ...]) -> tuple[str, ...]:
    """Hardware types with a price, those of the fleet first."""
    priced = [name for name in catalog if catalog[name].price_per_hour is not None]
    return tuple(sorted(priced, key=lambda name: (name not in of_fleet, name))[:CANDIDATES])
