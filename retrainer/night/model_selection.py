"""Train every configured recipe on the same rows, judge each on the same held-out rows, name the champion."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import structlog

from leap.predictor.artifacts.manifest import Range
from leap.predictor.features import matrix
from leap.predictor.features.batch import Floats
from leap.predictor.features.history import Imputation
from leap.predictor.features.matrix import Matrix
from leap.predictor.features.target_encoding import TargetEncoder
from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.predictor.models.cascade import BinnedCascade
from leap.predictor.models.conformal import Interval, calibrate
from leap.predictor.models.serving import load as load_model
from leap.predictor.routing.provenance import basis
from leap.retrainer.dataset.training_set import TrainingSet, imputed_of, ranges_of, vocabulary_of
from leap.retrainer.evaluation.lookup_table import LookupTable
from leap.retrainer.evaluation.median_chain import ChainOfMedians
from leap.retrainer.night.recipes import RECIPES, Recipe, Trees

#: (n,) samples/s of the held-out attempts, and the interval calibrated on them.
Judged = tuple[Floats, Interval]

log = structlog.get_logger(__name__)


class RecipeResult(msgspec.Struct, frozen=True):
    """One recipe in the comparison.

    Attributes
    ----------
    all, known, first_seen
        Scores over the held-out attempts; of families with and without an earlier attempt, if there are any.
    seconds
        Time to fit, wall clock.
    error
        Why it could not be trained or judged, if it could not.
    moved
        Of a cascade: share of the rows that moved to another bin, by round.
    """

    recipe: str
    seconds: float
    all: Accuracy | None = None
    known: Accuracy | None = None
    first_seen: Accuracy | None = None
    error: str | None = None
    moved: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Comparison:
    """Result of training.

    Attributes
    ----------
    champion
        Recipe with the best w20, then w5; its model lies in `folder`.
    lookup
        The lookup table on the held-out attempts, over those that it covers; none if it covers none.
    champion_on_lookup
        The champion on those same attempts.
    predicted, looked_up, chained
        (n,) samples/s of the held-out attempts, by the champion, by the lookup table and by the chain of medians; NaN
        where one has no key.
    runners_up
        The same, as led by each other recipe that could be judged, best first.
    """

    vocabulary: TargetEncoder
    imputed: Imputation
    table: list[RecipeResult]
    champion: RecipeResult
    folder: Path
    interval: Interval
    ranges: dict[str, Range]
    lookup: Accuracy | None
    champion_on_lookup: Accuracy | None
    predicted: Floats
    looked_up: Floats
    chained: Floats
    runners_up: tuple["Comparison", ...] = ()


def select_champion(
    training: TrainingSet, held_out: TrainingSet, recipes: Sequence[str], folder: Path, n_jobs: int
) -> Comparison:
    """Train and judge. The forms that are judged are those that serve, read back from `folder`.

    A recipe that fails is a row with its error; the others go on.

    Raises
    ------
    RuntimeError
        If none could be trained.
    """
    vocabulary, imputed = vocabulary_of(training), imputed_of(training)
    features, judged = training.matrix(vocabulary, imputed), held_out.matrix(vocabulary, imputed)
    measured = np.exp(held_out.y)
    table: list[RecipeResult] = []
    predictions: dict[str, Judged] = {}
    for name in recipes:
        fit = partial(_fit, training=training, features=features, held_out=held_out, judged=judged)
        row, found = _timed(name, n_jobs, fit, held_out, folder / name)
        table.append(row)
        if found is not None:
            predictions[name] = found
    if not predictions:
        raise RuntimeError(f"no recipe could be trained: {'; '.join(f'{row.recipe}: {row.error}' for row in table)}")
    looked_up = LookupTable.learn(training.table, np.exp(training.y)).predict(held_out.table)
    covered = ~np.isnan(looked_up)
    chained = np.exp(ChainOfMedians().fit(training.rows, training.y).answer(held_out.rows))
    ranges, lookup = ranges_of(features, matrix.names(vocabulary)), accuracy(looked_up, measured)

    def led_by(row: RecipeResult) -> Comparison:
        predicted, interval = predictions[row.recipe]
        return Comparison(
            vocabulary=vocabulary,
            imputed=imputed,
            table=table,
            champion=row,
            folder=folder / row.recipe,
            interval=interval,
            ranges=ranges,
            lookup=lookup,
            champion_on_lookup=accuracy(predicted[covered], measured[covered]),
            predicted=predicted,
            looked_up=looked_up,
            chained=chained,
        )

    champion, *others = map(led_by, sorted((row for row in table if row.all), key=_sort_key, reverse=True))
    return replace(champion, runners_up=tuple(others))


def _timed(
    name: str, n_jobs: int, fit: Callable[[Recipe, Path], Judged], held_out: TrainingSet, folder: Path
) -> tuple[RecipeResult, Judged | None]:
    """Fit one recipe: its row, and what it predicts unless it failed."""
    started = time.monotonic()
    try:
        recipe = RECIPES[name](n_jobs)
        judged = fit(recipe, folder)
    except Exception as error:
        log.exception("recipe failed", recipe=name)
        return RecipeResult(name, time.monotonic() - started, error=f"{type(error).__name__}: {error}"[:500]), None
    row = _scored(name, round(time.monotonic() - started, 1), recipe, judged[0], held_out)
    log.info("recipe trained", recipe=name, seconds=row.seconds, **_brief(row))
    return row, judged


def _fit(
    recipe: Recipe, folder: Path, training: TrainingSet, features: Matrix, held_out: TrainingSet, judged: Matrix
) -> Judged:
    """Fit, save and read back: (n,) samples/s of the held-out attempts, and the interval calibrated on them."""
    folder.mkdir(parents=True)
    recipe.fit(training, features)
    recipe.save(folder)
    prediction = load_model(folder, features.shape[1]).predict(held_out.pairs, judged)
    if missing := np.count_nonzero(~np.isfinite(prediction.mean)):
        raise ValueError(f"{missing} of {len(held_out)} predictions are not finite")
    interval = calibrate(held_out.y, prediction.mean, prediction.spread, basis(held_out.pairs))
    return np.exp(prediction.mean), interval


def _scored(name: str, seconds: float, recipe: Recipe, predicted: Floats, held_out: TrainingSet) -> RecipeResult:
    measured, known = np.exp(held_out.y), ~np.isnan(held_out.pairs.history["family"][:, 0])
    return RecipeResult(
        recipe=name,
        seconds=seconds,
        all=accuracy(predicted, measured),
        known=accuracy(predicted[known], measured[known]),
        first_seen=accuracy(predicted[~known], measured[~known]),
        moved=_moved(recipe),
    )


def _moved(recipe: Recipe) -> tuple[float, ...] | None:
    estimator = recipe.estimator if isinstance(recipe, Trees) else None
    return tuple(estimator.moved_) if isinstance(estimator, BinnedCascade) else None


def _sort_key(row: RecipeResult) -> tuple[float, float, float]:
    assert row.all is not None
    return row.all.w20, row.all.w5, -row.all.mdape


def _brief(row: RecipeResult) -> dict[str, float]:
    assert row.all is not None
    return {"w20": row.all.w20, "w5": row.all.w5, "mdape": row.all.mdape}
