"""Backtest: estimators walked forward over past attempts, fitted on earlier ones only, every few days or rounds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import msgspec
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, Rows
from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.predictor.models.structured.replicates import group_codes
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.evaluation.groups import Mask
from leap.retrainer.evaluation.median_chain import SEEN_KEY
from leap.retrainer.evaluation.rules import Estimator

#: What one fit may see, and what it predicts: two (n,) masks.
Span = tuple[Mask, Mask]


class Backtest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Scores of one recipe or rule; an attempt that it has no answer for is a miss.

    Attributes
    ----------
    all, seen, unseen
        Over all judged attempts, those whose model, hardware and scale had an earlier day, and the others.
    by
        Value of a column to the scores of the attempts that have it, if asked for.
    """

    all: Accuracy | None
    seen: Accuracy | None
    unseen: Accuracy | None
    by: dict[str, Accuracy | None] = {}


def spans(attempts: TrainingSet, every: int | NDArray[Any], warm_up: int = 45) -> list[Span]:
    """What each fit sees and predicts, in time order.

    Parameters
    ----------
    every
        Days that one fit serves, or an (n,) column each value of which one fit serves, from attempts of the days before
        its first.
    warm_up
        First days, which are not predicted.

    Raises
    ------
    ValueError
        If no attempt is left to predict.
    """
    day = attempts.submitted_day
    first = int(day.min()) + warm_up
    if isinstance(every, int):
        starts = [*starts_of(np.unique(day[day >= first]).tolist(), every), np.inf]
        found = [(day < start, (day >= start) & (day < end)) for start, end in pairwise(starts)]
    else:
        parts = [every == value for value in np.unique(every)]
        opening = sorted(((int(day[part].min()), part) for part in parts), key=lambda each: each[0])
        found = [((day < start) & ~part, part) for start, part in opening if start >= first]
    found = [(past, now) for past, now in found if past.any()]
    if not found:
        days = int(day.max() - day.min()) + 1
        remedy = "Shorten --warm-up, or use" if days > 1 else "Use"
        raise ValueError(
            f"nothing to predict from earlier days: the attempts span {days} day{'s' * (days > 1)}, and the first "
            f"{warm_up} are for warm-up. {remedy} `leap holdout`, which needs no time order"
        )
    return found


def walk(
    attempts: TrainingSet,
    make: Callable[[], Estimator],
    fits: Sequence[Span],
    n_jobs: int = 1,
    on_fit: Callable[[int], None] = lambda fits: None,
) -> Floats:
    """(n,) predicted ln throughput; NaN of what is not in `fits`, or has no answer.

    Parameters
    ----------
    n_jobs
        Runs of consecutive fits side by side, each with all attempts in memory. An estimator that goes on from its last
        fit begins anew with each run, so more of them are not exactly one.
    """
    runs = [[fits[number] for number in run] for run in np.array_split(np.arange(len(fits)), n_jobs) if len(run)]
    done: Iterable[tuple[Mask, Floats]] = _run(attempts, make(), fits)
    if n_jobs > 1:
        tasks = (delayed(lambda run: list(_run(attempts, make(), run)))(run) for run in runs)
        done = chain.from_iterable(Parallel(n_jobs, return_as="generator")(tasks))
    predicted = np.full(len(attempts), np.nan)
    for now, mean in done:
        predicted[now] = mean
        on_fit(1)
    return predicted


def summary(attempts: TrainingSet, judged: Mask, predicted: Floats, by: NDArray[Any] | None = None) -> Backtest:
    """Scores of what `walk` predicted of the (n,) judged attempts, also by the values of an (n,) column."""
    measured, said, known = np.exp(attempts.y), np.exp(np.nan_to_num(predicted, nan=-np.inf)), seen(attempts.rows)

    def of(mask: Mask) -> Accuracy | None:
        scores = accuracy(said[mask], measured[mask])
        answered = round(100.0 * float(np.mean(~np.isnan(predicted[mask]))), 1) if scores else 0.0
        return scores and msgspec.structs.replace(scores, coverage=answered)

    values = {} if by is None else {str(value): judged & (by == value) for value in np.unique(by[judged])}
    parts = {name: of(mask) for name, mask in values.items()}
    return Backtest(all=of(judged), seen=of(judged & known), unseen=of(judged & ~known), by=parts)


def column(attempts: TrainingSet, name: str) -> NDArray[Any]:
    """(n,) strings of a column of the feature table, or of a further value of the launcher.

    Raises
    ------
    ValueError
        If no attempt has it.
    """
    extra = attempts.pairs.jobs.extra
    if name in attempts.table:
        return attempts.table[name].to_numpy(dtype=str)
    if any(name in values for values in extra):
        return np.array([str(values.get(name, "")) for values in extra])
    there = sorted({key for values in extra for key in values})
    raise ValueError(f"{name}: attempts have {', '.join(map(str, attempts.table.columns[:5]))}, {', '.join(there)}")


def seen(rows: Rows) -> Mask:
    """(n,) whether an earlier day has the same `SEEN_KEY`."""
    day = np.floor(np.asarray(rows["day"], dtype=float))
    key = group_codes(*(rows[name] for name in SEEN_KEY))
    first = np.full(key.max(initial=-1) + 1, np.inf)
    np.minimum.at(first, key, day)
    return np.asarray(day > first[key])


def starts_of(days: Sequence[float], every: int) -> Iterator[float]:
    """First day that each fit serves; days without attempts are passed over."""
    end = -np.inf
    for day in days:
        if day >= end:
            end = day + every
            yield day


def _run(attempts: TrainingSet, estimator: Estimator, fits: Sequence[Span]) -> Iterator[tuple[Mask, Floats]]:
    for past, now in fits:
        estimator.fit(attempts.where(past))
        yield now, estimator.predict(attempts.where(now)).mean
