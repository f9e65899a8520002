"""Holdout: what recipes and rules say of groups of attempts that were left out, against what those reached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Protocol

import msgspec
import numpy as np
from joblib import Parallel, delayed

from leap.predictor.features.batch import Floats, Indices
from leap.predictor.models.accuracy import accuracy
from leap.predictor.models.conformal import Interval
from leap.predictor.routing.provenance import basis
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.training_set import TrainingSet, build_training_set
from leap.retrainer.evaluation.contexts import SAME, Contexts, Rankings, mean_ranking
from leap.retrainer.evaluation.groups import Fold, Mask
from leap.retrainer.evaluation.rules import Estimator, specification_orders
from leap.schemas.events import THROUGHPUT


class Calibrated(Estimator, Protocol):
    """An estimator that states an interval, which it calibrated on what it was fitted on."""

    interval: Interval | None


class Scores(msgspec.Struct, frozen=True):
    """How one recipe or rule did on the judged attempts; None is what it does not say.

    Attributes
    ----------
    n
        Attempts judged; the same for all.
    answered
        Percent of them that it has an answer for. The others count as misses.
    w20, w10
        Percent of them within 20 and 10%.
    mdape
        Median of |predicted / measured - 1| in percent, 100 where there is no answer.
    covered
        Percent of them inside the 80% interval, of a recipe that states one.
    contexts
        Contexts that were ranked.
    tau, regret
        Over these: mean of Kendall's rank correlation, and mean loss by the first choice in percent.
    seconds
        CPU seconds of the fits and predictions of all folds.
    """

    n: int
    answered: float | None = None
    w20: float | None = None
    w10: float | None = None
    mdape: float | None = None
    covered: float | None = None
    contexts: int = 0
    tau: float | None = None
    regret: float | None = None
    seconds: float | None = None


@dataclass
class _Said:
    """What one estimator said of judged attempts, over all folds."""

    row: list[Indices] = field(default_factory=list)
    mean: list[Floats] = field(default_factory=list)
    covered: list[Mask] = field(default_factory=list)
    rankings: list[Rankings] = field(default_factory=list)
    seconds: float = 0.0

    def plus(self, other: "_Said") -> None:
        self.row += other.row
        self.mean += other.mean
        self.covered += other.covered
        self.rankings += other.rankings
        self.seconds += other.seconds


def hold_out(
    attempts: TrainingSet,
    split: Sequence[Fold],
    estimators: Mapping[str, Callable[[], Estimator]],
    same: Sequence[str] = SAME,
    n_jobs: int = 1,
    on_fold: Callable[[int], None] = lambda folds: None,
) -> dict[str, Scores]:
    """Name of an estimator, or of a specification that hardware types are sorted by, to its scores.

    Parameters
    ----------
    attempts
        In the order of submission; its history is not used.
    split
        What is held out of a fit: see `leap.retrainer.evaluation.groups.folds`.
    estimators
        Name to what makes one anew for each fold.
    n_jobs
        Folds fitted side by side, each with all attempts in memory.
    """
    contexts = Contexts.of(attempts.rows, attempts.y, same)
    fits = (delayed(_fold)(attempts, fold, contexts, estimators) for fold in split)
    said: dict[str, _Said] = {name: _Said() for name in estimators}
    for parts in Parallel(n_jobs, return_as="generator")(fits):
        for name, part in parts.items():
            said[name].plus(part)
        on_fold(1)
    judged = np.any([fold.judged for fold in split], axis=0)
    ranked = np.flatnonzero(contexts.around(judged))
    orders = specification_orders(attempts.pairs.table, attempts.pairs.hardware_type[ranked].tolist())
    sorted_by = {name: _ranked(int(judged.sum()), [contexts.rank(ranked, order)]) for name, order in orders.items()}
    return {name: _scores(attempts.y, part) for name, part in said.items()} | sorted_by


def kept_and_asked(attempts: TrainingSet, held_out: Mask, asked: Mask) -> tuple[TrainingSet, TrainingSet]:
    """What may be learned from, and what is asked, all history being that of the attempts which are not held out.

    What is asked knows all of it, of whatever time.
    """
    table = attempts.table[~held_out]
    statistics = PointInTimeStatistics(table, attempts.y[~held_out])
    kept, others = build_training_set(table, attempts.pairs.table, statistics, THROUGHPUT), attempts.where(asked)
    known = statistics.at_the_end(others.table)
    return kept, replace(others, pairs=replace(others.pairs, history=known))


def _fold(
    attempts: TrainingSet, fold: Fold, contexts: Contexts, estimators: Mapping[str, Callable[[], Estimator]]
) -> dict[str, _Said]:
    asked = np.flatnonzero(fold.judged | contexts.around(fold.judged))
    mask = np.zeros(len(attempts), dtype=bool)
    mask[asked] = True
    kept, others = kept_and_asked(attempts, fold.held_out, mask)
    judged, found = fold.judged[asked], {}
    for name, make in estimators.items():
        started, estimator = process_time(), make()
        estimator.fit(kept)
        prediction = estimator.predict(others)
        said = _Said([asked[judged]], [prediction.mean[judged]], seconds=process_time() - started)
        interval: Interval | None = getattr(estimator, "interval", None)
        if interval is not None:
            lower, upper = interval.bounds(prediction.mean, prediction.spread, basis(others.pairs))
            said.covered.append(((others.y >= lower) & (others.y <= upper))[judged])
        said.rankings.append(contexts.rank(asked, prediction.mean))
        found[name] = said
    return found


def _scores(y: Floats, said: _Said) -> Scores:
    row, mean = np.concatenate(said.row), np.concatenate(said.mean)
    scores = accuracy(np.exp(np.nan_to_num(mean, nan=-np.inf)), np.exp(y[row]))
    assert scores is not None
    return msgspec.structs.replace(
        _ranked(len(row), said.rankings),
        answered=_percent(~np.isnan(mean)),
        w20=scores.w20,
        w10=scores.w10,
        mdape=scores.mdape,
        covered=_percent(np.concatenate(said.covered)) if said.covered else None,
        seconds=round(said.seconds, 1),
    )


def _ranked(n: int, rankings: Sequence[Rankings]) -> Scores:
    found = mean_ranking(rankings)
    if found is None:
        return Scores(n)
    contexts = len({number for part in rankings for number in part})
    return Scores(n, contexts=contexts, tau=round(found[0], 3), regret=round(100.0 * found[1], 1))


def _percent(hit: Mask) -> float:
    return round(100.0 * float(hit.mean()), 1)
