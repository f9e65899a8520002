"""Backtest: an estimator walked forward over a table of past attempts, fitted on earlier days only every few days."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Rows, strings, take
from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.predictor.models.structured.model import rows_of
from leap.predictor.models.structured.replicates import group_codes
from leap.retrainer.dataset.feature_table import jobs as jobs_of
from leap.retrainer.dataset.feature_table import log_target
from leap.retrainer.evaluation.median_chain import SEEN_KEY
from leap.schemas.events import THROUGHPUT


class RowEstimator(Protocol):
    """What learns ln throughput from rows."""

    def fit(self, rows: Rows, y: Floats) -> Any:
        """Learn from (n,) ln throughput; every call has the rows of the one before and newer."""

    def predict(self, rows: Rows) -> Floats:
        """(n,) ln throughput."""


class Backtest(msgspec.Struct, frozen=True):
    """Scores over all scored attempts, those whose model, hardware and scale had an earlier day, and the others."""

    all: Accuracy | None
    seen: Accuracy | None
    unseen: Accuracy | None


class Beside(msgspec.Struct, frozen=True):
    """Scores of a part of the attempts, by the recipe and by the chain of medians."""

    recipe: Accuracy | None
    chain: Accuracy | None


def rows_of_table(table: pd.DataFrame, extra: Sequence[str] = ()) -> tuple[Rows, Floats]:
    """Rows and (n,) ln throughput of the feature table, in the order of submission; without a throughput they are left
    out. `extra` names further values of the launcher to take along as strings.
    """
    table = table[~np.isnan(log_target(table, THROUGHPUT))].sort_values("submitted_at", kind="stable")
    jobs, ran_on = jobs_of(table), table["hardware_type"].to_numpy(dtype=object)
    further = {name: strings([str(values.get(name, "")) for values in jobs.extra]) for name in extra}
    return {**rows_of(jobs, np.arange(len(table)), ran_on), **further}, log_target(table, THROUGHPUT)


def walk(
    rows: Rows, y: Floats, estimator: RowEstimator, every_days: int = 1, warm_up_days: float = 45.0, n_jobs: int = 1
) -> Floats:
    """(n,) predicted ln throughput, each from attempts submitted on earlier days; NaN in the warm-up.

    Parameters
    ----------
    rows
        Columns of attempts in any order; `day` is a number of days from any origin.
    every_days
        Days that one fit serves: within them it does not see what has finished since.
    n_jobs
        Runs of consecutive fits side by side, each with all rows in memory. An estimator that goes on from its last fit
        begins anew with each run, so more of them are not exactly one.
    """
    day = np.floor(np.asarray(rows["day"], dtype=float))
    nights = list(_nights(day, every_days, day.min() + warm_up_days))
    runs = [[nights[number] for number in run] for run in np.array_split(np.arange(len(nights)), n_jobs) if len(run)]
    predicted = np.full(len(y), np.nan)
    for fits in Parallel(n_jobs)(delayed(_run)(rows, y, estimator, day, run) for run in runs):
        for now, values in fits:
            predicted[now] = values
    return predicted


def _run(
    rows: Rows, y: Floats, estimator: RowEstimator, day: Floats, nights: Sequence[tuple[float, float]]
) -> list[tuple[NDArray[np.intp], Floats]]:
    """Positions and what was predicted of them, by fit."""
    fits = []
    for start, end in nights:
        past, now = np.flatnonzero(day < start), np.flatnonzero((day >= start) & (day < end))
        estimator.fit(take(rows, past), y[past])
        fits.append((now, estimator.predict(take(rows, now))))
    return fits


def summary(rows: Rows, y: Floats, predicted: Floats) -> Backtest:
    """Scores of what `walk` predicted."""
    scored, known = ~np.isnan(predicted), seen(rows)

    def of(kept: NDArray[np.bool_]) -> Accuracy | None:
        return accuracy(np.exp(predicted[kept]), np.exp(y[kept]))

    return Backtest(all=of(scored), seen=of(scored & known), unseen=of(scored & ~known))


def beside(part: NDArray[Any], y: Floats, predicted: Floats, chained: Floats) -> dict[str, Beside]:
    """Scores of what `walk` predicted, by the name of each attempt's part, in the order of the names."""
    measured = np.exp(y)

    def of(values: Floats, kept: NDArray[np.bool_]) -> Accuracy | None:
        return accuracy(np.exp(values[kept]), measured[kept])

    parts = {str(name): (part == name) & ~np.isnan(predicted) for name in np.unique(np.asarray(part, dtype=str))}
    return {name: Beside(of(predicted, kept), of(chained, kept)) for name, kept in parts.items() if kept.any()}


def seen(rows: Rows) -> NDArray[np.bool_]:
    """(n,) whether an earlier day has the same `SEEN_KEY`."""
    day = np.floor(np.asarray(rows["day"], dtype=float))
    key = group_codes(*(rows[name] for name in SEEN_KEY))
    first = np.full(key.max(initial=-1) + 1, np.inf)
    np.minimum.at(first, key, day)
    return np.asarray(day > first[key])


def _nights(day: Floats, every_days: int, first: float) -> Iterator[tuple[float, float]]:
    """Start and end of what each fit serves; days without attempts are passed over."""
    end = -np.inf
    for start in np.unique(day[day >= first]).tolist():
        if start >= end:
            end = start + every_days
            yield start, end
