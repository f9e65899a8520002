"""What every family is given: attempts in time order, cut into rows to learn from and later ones to be judged on.

A source is a few words that make a problem, the same in every process.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, HardwareTable
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.retrainer.dataset.feature_table import ARCHITECTURE, attempt_of, frame, log_target, normalise
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.training_set import TrainingSet, build_training_set
from leap.retrainer.evaluation.backtest import seen
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

Mask = NDArray[np.bool_]

#: Category of inputs to its columns of the feature table; history is found by the family.
INPUTS = CATEGORIES | {"architecture": ARCHITECTURE}


@dataclass(frozen=True)
class Problem:
    """Attempts and the days from which they are held out.

    Attributes
    ----------
    data
        All attempts, in the order of submission, each with the history that was known at its launch.
    starts
        Days (since the epoch) from which attempts are held out, each until the next; the last until the end.
        What is fitted at a start sees the attempts that had finished by then.
    rows
        Learn from at most so many, the latest.
    kept
        (n,) attempts of `data` that may be learned from.
    ceilings
        Name to (held out,) ln throughput: the best that could be predicted.
    models
        Model type to its definition, where the source has them: operators and edges, of which the feature table
        has the summary only.
    """

    data: TrainingSet
    starts: tuple[int, ...]
    kept: Mask
    rows: int = 0
    ceilings: Mapping[str, Floats] = field(default_factory=dict)
    models: Mapping[str, ModelDefinition] = field(default_factory=dict)

    def folds(self) -> Iterator[tuple[TrainingSet, TrainingSet]]:
        """Rows to learn from and rows to predict, start by start."""
        day = self.data.submitted_day
        for start, end in zip(self.starts, (*self.starts[1:], np.inf), strict=True):
            past = np.flatnonzero(self._learned(start))[-self.rows :]
            yield self.data.where(np.isin(np.arange(len(day)), past)), self.data.where((day >= start) & (day < end))

    @cached_property
    def held_out(self) -> TrainingSet:
        """The rows that are predicted, of all starts."""
        return self.data.where(self.data.submitted_day >= self.starts[0])

    @cached_property
    def splits(self) -> dict[str, Mask]:
        """Name to (held out,) mask: by whether the family, the model on this hardware at this scale, and the model's
        summary had been there before.
        """
        held_out, day = self.data.submitted_day >= self.starts[0], self.data.submitted_day
        known = ~np.isnan(self.data.pairs.history["family"][:, 0])
        been, definitions = seen(self.data.rows), self.data.pairs.jobs.architecture
        summary = np.asarray(pd.util.hash_pandas_object(pd.DataFrame(definitions), index=False))
        described = np.asarray(~np.isnan(definitions).all(axis=1))
        new = np.zeros(len(day), dtype=bool)
        for start, end in zip(self.starts, (*self.starts[1:], np.inf), strict=True):
            span = (day >= start) & (day < end)
            new[span] = described[span] & ~np.isin(summary[span], summary[self._learned(start)])
        masks = {
            "all": np.ones(len(day), dtype=bool),
            "known": known,
            "first_seen": ~known,
            "seen": been,
            "unseen": ~been,
            "new_graph": new,
        }
        return {name: mask[held_out] for name, mask in masks.items()}

    def _learned(self, start: int) -> Mask:
        finished = self.data.table["finished_at"].to_numpy(float) < start * SECONDS_PER_DAY
        return finished & self.kept


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
    """A table of past jobs, held out from the end of the warm-up on; fitted anew every few days."""

    file: str
    mapping: str
    every: int = 60
    warm_up: int = 45
    rows: int = 0

    def problem(self, seed: int, without: str = "") -> Problem:
        """The problem; seeds differ in the fits alone."""
        catalog = load_catalog()
        jobs = read_table(Path(self.file), load_mapping(self.mapping), catalog).jobs
        rows = frame(map(attempt_of, jobs))
        day = np.unique(np.floor(rows["submitted_at"].to_numpy(float) / SECONDS_PER_DAY).astype(int))
        starts: list[int] = []
        for candidate in day[day >= day[0] + self.warm_up].tolist():
            if not starts or candidate >= starts[-1] + self.every:
                starts.append(candidate)
        if not starts:
            raise ValueError(f"{self.file}: its attempts span less than {self.warm_up} days; shorten --warm-up")
        return make(rows, catalog, tuple(starts), self.rows, without)


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
    """A problem over rows of the feature table.

    Parameters
    ----------
    without
        What is taken away: a category of `INPUTS`, which no row then states; or ``column=pattern``, whose attempts
        are then neither learned from nor in any history.

    Raises
    ------
    ValueError
        If `without` is neither.
    """
    away = removed(rows, without)
    table = HardwareTable(catalog)
    if without in INPUTS:
        blank = {name: "" if name in ("hardware_type", "family", "model_type") else None for name in INPUTS[without]}
        rows = normalise(rows.assign(**blank))
    past = rows[~away]
    if without == "history":
        past = past.iloc[:0]
    attempts = build_training_set(rows, table, PointInTimeStatistics(past, log_target(past, THROUGHPUT)), THROUGHPUT)
    kept = ~removed(attempts.table, without)
    return Problem(attempts, starts, kept, most, ceilings or {}, models or {})


def removed(rows: pd.DataFrame, without: str) -> Mask:
    """(n,) attempts that ``column=pattern`` names.

    >>> removed(pd.DataFrame({"model_type": ["dlrm-s", "t5"]}), "model_type=dlrm-*").tolist()
    [True, False]
    """
    column, _, pattern = without.partition("=")
    if not without or (without in INPUTS and not pattern):
        return np.zeros(len(rows), dtype=bool)
    if column not in ("model_type", "hardware_type", "family") or not pattern:
        raise ValueError(
            f"cannot take away {without!r}: name one of {', '.join(INPUTS)}, or model_type=PATTERN, "
            "hardware_type=PATTERN or family=PATTERN"
        )
    named = {name: fnmatchcase(name, pattern) for name in rows[column].unique()}
    return np.asarray(rows[column].map(named).to_numpy(dtype=bool))
