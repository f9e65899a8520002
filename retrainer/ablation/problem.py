"""What every family is given: attempts in time order, cut into rows to learn from and later ones to be judged on.

A source is a few words that make a problem, the same in every process.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.features.batch import Floats, HardwareTable
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.retrainer.dataset.feature_table import ARCHITECTURE, attempt_of, frame, log_target, normalise
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.training_set import TrainingSet, build_training_set
from leap.retrainer.evaluation.backtest import Span, seen, starts_of
from leap.retrainer.evaluation.groups import Mask, folds, removed
from leap.retrainer.evaluation.holdout import kept_and_asked
from leap.retrainer.report.permutation_importance import CATEGORIES
from leap.schemas.backfill.mapping import load_mapping
from leap.schemas.events import THROUGHPUT
from leap.schemas.hardware import Catalog, load_catalog
from leap.schemas.launch import ModelDefinition
from leap.streams.backfill.sender import read_table
from leap.streams.simulator.ceilings import Known
from leap.streams.simulator.events import attempt_columns
from leap.streams.simulator.events import joined as joined_rows
from leap.streams.simulator.fleet import Fleet, FleetConfig

#: Category of inputs to its columns of the feature table; history is found by the family.
INPUTS = CATEGORIES | {"architecture": ARCHITECTURE}


@dataclass(frozen=True)
class Problem:
    """Attempts, and what is learned from which and judged on which.

    Attributes
    ----------
    data
        All attempts, in the order of submission, each with the history that was known at its launch.
    spans
        Of each fit two (n,) masks: attempts that it sees, and attempts that it is judged on.
    by_group
        Whether groups are held out, of whatever time: then a fit's history is of what it sees alone.
    ceilings
        Name to (held out,) ln throughput: the best that could be predicted.
    models
        Model type to its definition, where the source has them: operators and edges, of which the feature table
        has the summary only.
    """

    data: TrainingSet
    spans: tuple[Span, ...]
    by_group: bool = False
    ceilings: Mapping[str, Floats] = field(default_factory=dict)
    models: Mapping[str, ModelDefinition] = field(default_factory=dict)

    def folds(self) -> Iterator[tuple[TrainingSet, TrainingSet]]:
        """Attempts to learn from and attempts to predict, fit by fit."""
        for past, asked in self.spans:
            if self.by_group:
                yield kept_and_asked(self.data, ~past, asked)
            else:
                yield self.data.where(past), self.data.where(asked)

    @cached_property
    def judged(self) -> Mask:
        """(n,) attempts that are predicted by some fit."""
        return np.asarray(np.any([asked for _, asked in self.spans], axis=0))

    @cached_property
    def held_out(self) -> TrainingSet:
        """The attempts that are predicted, of all fits, in the order of submission."""
        return self.data.where(self.judged)

    @cached_property
    def splits(self) -> dict[str, Mask]:
        """Name to (held out,) mask: all, and by whether the family, and the model on this hardware at this scale, had
        been there before.
        """
        masks = {"all": np.ones(len(self.data), dtype=bool)}
        if not self.by_group:
            known, been = ~np.isnan(self.data.pairs.history["family"][:, 0]), seen(self.data.rows)
            masks |= {"known": known, "first_seen": ~known, "seen": been, "unseen": ~been}
        return {name: mask[self.judged] for name, mask in masks.items()}


class FleetSource(msgspec.Struct, frozen=True, tag="fleet"):
    """Days of a simulated fleet to learn from; the next day is held out."""

    days: int = 30
    per_day: int = 3000
    rows: int = 0

    def problem(self, seed: int, without: str = "") -> Problem:
        """The problem of a seed."""
        fleet = Fleet(FleetConfig(seed=seed, days=self.days + 1, attempts_per_day=self.per_day))
        known, parts = Known(fleet), []
        for day in range(self.days + 1):
            batch = fleet.day(day)
            rows = np.flatnonzero(joined_rows(batch))
            if day == self.days:
                noise_free = fleet.expected(batch, rows, batch.hardware[rows]) * np.exp(fleet.today(batch)[rows])
                ceilings = {"noise": np.log(noise_free), "reachable": np.log(known.reachable(batch, rows))}
            known.learn(batch, rows)
            parts.append(pd.DataFrame(attempt_columns(batch)))
        start = fleet.midnight(self.days) // 1000 // int(SECONDS_PER_DAY)
        models = dict(zip(fleet.types.names, fleet.types.definitions, strict=True))
        table = normalise(pd.concat(parts, ignore_index=True))
        return make(table, fleet.catalog, (start,), self.rows, without, ceilings, models)


class TableSource(msgspec.Struct, frozen=True, tag="table"):
    """A table of past jobs: held out from the end of the warm-up on, fitted anew every few days; or by groups."""

    file: str
    mapping: str
    every: int = 60
    warm_up: int = 45
    rows: int = 0
    hold: str = ""
    catalog: str = ""

    def problem(self, seed: int, without: str = "") -> Problem:
        """The problem; seeds differ in the fits alone."""
        catalog = load_catalog(self.catalog)
        jobs = read_table(Path(self.file), load_mapping(self.mapping), catalog).jobs
        rows = frame(map(attempt_of, jobs))
        if self.hold:
            attempts, kept = attempts_without(rows, catalog, without)
            split = folds(attempts.rows, self.hold)
            return Problem(attempts, tuple((kept & ~fold.held_out, fold.judged) for fold in split), by_group=True)
        day = np.unique(np.floor(rows["submitted_at"].to_numpy(float) / SECONDS_PER_DAY).astype(int))
        starts = tuple(map(int, starts_of(day[day >= day[0] + self.warm_up].tolist(), self.every)))
        if not starts:
            raise ValueError(f"{self.file}: its attempts span less than {self.warm_up} days; shorten --warm-up")
        return make(rows, catalog, starts, self.rows, without)


Source = FleetSource | TableSource


def make(
    rows: pd.DataFrame,
    catalog: Catalog,
    starts: tuple[int, ...],
    most: int = 0,
    without: str = "",
    ceilings: Mapping[str, Floats] | None = None,
    models: Mapping[str, ModelDefinition] | None = None,
) -> Problem:
    """A problem in time order over rows of the feature table.

    Parameters
    ----------
    starts
        Days (since the epoch) from which attempts are held out, each until the next; the last until the end.
        What is fitted at a start sees the attempts that had finished by then.
    most
        Learn from at most so many, the latest; 0 is all.
    without
        See `attempts_without`.
    """
    attempts, kept = attempts_without(rows, catalog, without)
    day, finished = attempts.submitted_day, attempts.table["finished_at"].to_numpy(float) / SECONDS_PER_DAY
    spans = []
    for start, end in pairwise((*starts, np.inf)):
        past = np.flatnonzero(kept & (finished < start))[-most:]
        spans.append((np.isin(np.arange(len(day)), past), (day >= start) & (day < end)))
    return Problem(attempts, tuple(spans), ceilings=ceilings or {}, models=models or {})


def attempts_without(rows: pd.DataFrame, catalog: Catalog, without: str) -> tuple[TrainingSet, Mask]:
    """Attempts, and the (n,) of them that may be learned from, when something is taken away.

    Parameters
    ----------
    without
        A category of `INPUTS`, which no row then states; or ``column=pattern``, whose attempts are then neither learned
        from nor in any history.

    Raises
    ------
    ValueError
        If `without` is neither.
    """
    if without in INPUTS:
        blank = {name: "" if name in ("hardware_type", "family", "model_type") else None for name in INPUTS[without]}
        rows = normalise(rows.assign(**blank))
    elif without and "=" not in without:
        raise ValueError(f"cannot take away {without!r}: name one of {', '.join(INPUTS)}, or COLUMN=PATTERN")
    pattern = without if "=" in without else ""
    past = rows[~removed(rows, pattern)]
    if without == "history":
        past = past.iloc[:0]
    statistics = PointInTimeStatistics(past, log_target(past, THROUGHPUT))
    hardware = HardwareTable(catalog.with_siblings(rows["hardware_type"].unique()))
    attempts = build_training_set(rows, hardware, statistics, THROUGHPUT)
    return attempts, ~removed(attempts.table, pattern)
