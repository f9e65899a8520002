"""The promotion gate, and what production becomes where the new model loses."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.store import Pointer
from leap.predictor.features.batch import Floats
from leap.predictor.features.history import Imputation
from leap.predictor.features.target_encoding import TargetEncoder
from leap.predictor.models.accuracy import accuracy
from leap.predictor.models.conformal import Interval
from leap.predictor.models.serving import StructuredModel
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.night import pipeline
from leap.retrainer.night.model_selection import Comparison, RecipeResult, select_champion
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, Report
from leap.retrainer.night.promotion_gate import Decision, decide
from leap.retrainer.night.recipes import RECIPES
from leap.schemas.events import THROUGHPUT, ArtifactPublished
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG

MEASURED = np.full(1000, 100.0)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def right(share: float) -> Floats:
    """Predictions of which `share` of the first are within 20%."""
    return np.where(np.arange(len(MEASURED)) < share * len(MEASURED), 110.0, 150.0)


def decided(
    new: float,
    serving: Floats,
    lookup: Floats,
    pinned: bool = False,
    size: int = 1000,
    chain: Floats | None = None,
) -> Decision:
    predicted, kept = right(new), np.arange(len(MEASURED)) % (len(MEASURED) // size) == 0
    row = RecipeResult("boosted", 1.0, all=accuracy(predicted[kept], MEASURED[kept]))
    made = Comparison(
        vocabulary=TargetEncoder(),
        imputed=Imputation(),
        table=[row],
        champion=row,
        folder=Path(),
        interval=Interval(0.8, 0.1, {}),
        ranges={},
        lookup=None,
        champion_on_lookup=None,
        predicted=predicted[kept],
        looked_up=lookup[kept],
        chained=(NONE if chain is None else chain)[kept],
    )
    pointer = Pointer(version="v", reason="r", moved_at=AT, pinned=pinned)
    return decide(made, serving[kept], MEASURED[kept], pointer, margin=1.0)


NONE = np.full(1000, np.nan)


@pytest.mark.parametrize(
    ("serving", "lookup", "promote", "renew"),
    [
        (NONE, right(0.5), True, False),
        (right(0.81), right(0.5), True, False),
        (right(0.815), right(0.5), True, False),  # 1.5 points, of which chance may be 0.6
        (right(0.83), right(0.5), False, True),  # 3.0 points, 0.9 by chance
        (right(0.7), right(0.83), False, False),
        (right(0.7), np.where(np.arange(1000) < 500, right(0.9), np.nan), True, False),  # nothing to choose there
    ],
)
def test_the_gate(serving: Floats, lookup: Floats, promote: bool, renew: bool) -> None:
    decision = decided(0.8, serving, lookup)
    assert (decision.promote, decision.renew) == (promote, renew)
    assert decision.reason
    assert not decided(0.8, serving, lookup, pinned=True).promote


def test_a_recipe_worse_than_the_chain_of_medians_where_it_answers_is_not_promoted() -> None:
    worse = decided(0.8, NONE, NONE, chain=right(0.83))
    assert not worse.promote
    assert "chain of medians" in worse.reason
    assert decided(0.8, NONE, NONE, chain=right(0.81)).promote
    # Of the first half of the attempts, which the recipe has right, no more can be had.
    assert decided(0.8, NONE, NONE, chain=np.where(np.arange(1000) < 500, right(0.9), np.nan)).promote


def test_where_the_champion_is_refused_the_next_recipe_that_passes_is_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recipe is better on all but worse than the lookup table where that answers; the other is as good there."""
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    partitions.ingest(past(days=11, a_day=30))

    def judged(training: TrainingSet, held_out: TrainingSet, *rest: Any) -> Comparison:
        made = select_champion(training, held_out, *rest)
        measured, answers = np.exp(held_out.y), np.arange(len(held_out)) % 4 == 0
        off = {"boosted": answers, "structured": ~answers & (np.arange(len(held_out)) % 4 < 3)}

        def as_if(led: Comparison) -> Comparison:
            predicted = np.where(off[led.champion.recipe], 2.0 * measured, measured)
            row = msgspec.structs.replace(led.champion, all=accuracy(predicted, measured))
            looked_up = np.where(answers, measured, np.nan)
            return replace(led, champion=row, predicted=predicted, looked_up=looked_up, chained=looked_up)

        both = {led.champion.recipe: as_if(led) for led in (made, *made.runners_up)}
        return replace(both["boosted"], runners_up=(both["structured"],))

    monkeypatch.setattr(pipeline, "select_champion", judged)
    report = Night(partitions, store, CATALOG).run(Plan(night=NIGHT))
    assert (report.promoted, report.champion) == (True, "structured")
    assert artifacts.load(store.folder(THROUGHPUT, report.artifact)).manifest.recipe == "structured"
    assert "boosted, better on all, was refused: w20 0.0 is worse than the lookup table's 100.0" in report.reason


def test_a_few_attempts_cannot_tell_what_many_can() -> None:
    assert decided(0.8, right(0.83), NONE).renew
    assert decided(0.8, right(0.83), NONE, size=100).promote


class Blind:
    """A recipe that has learned nothing."""

    def __init__(self) -> None:
        self._trees = RECIPES["boosted"](1)

    def fit(self, data: TrainingSet, features: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
        self._trees.fit(replace(data, y=np.zeros_like(data.y)), features)

    def save(self, folder: Path) -> None:
        self._trees.save(folder)


@pytest.mark.parametrize("recipe", ["boosted", "structured"])
def test_where_the_new_model_loses_production_keeps_its_own_and_gets_new_history(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[ArtifactPublished] = []
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    attempts = past(days=11, a_day=30)
    partitions.ingest(attempts)
    nights = Night(partitions, store, CATALOG, announce=told.append)
    plan = Plan(night=NIGHT, recipes=(recipe,))
    first = nights.run(plan)
    monkeypatch.setitem(RECIPES, "blind", lambda n_jobs: Blind())
    second: Report = nights.run(replace(plan, night=NIGHT + timedelta(days=1), recipes=("blind",)))
    assert (first.promoted, second.promoted) == (True, False)
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert (pointer.version, pointer.previous) == (second.renewed, first.artifact)
    assert [(one.artifact, one.promoted) for one in told[1:]] == [(second.artifact, False), (second.renewed, True)]
    old, new = (artifacts.load(store.folder(THROUGHPUT, name)) for name in (first.artifact, pointer.version))
    assert (old.manifest.window_to, new.manifest.window_to) == ("2026-03-10", "2026-03-11")
    assert new.manifest.recipe == recipe
    count = new.snapshot.statistics[:, 0].sum() - old.snapshot.statistics[:, 0].sum()
    assert count == 3 * len([one for one in attempts if one.completed.finished_at.date() == NIGHT])
    if isinstance(old.model, StructuredModel) and isinstance(new.model, StructuredModel):
        latest = [model.structured.history.table.values[:, -1].max() for model in (old.model, new.model)]
        midnight = datetime.combine(NIGHT, time(), UTC).timestamp() / 86_400
        assert latest == [midnight - 1, midnight], "each took in the day that it was judged on"
    for _ in range(2):
        again = nights.run(replace(plan, night=NIGHT + timedelta(days=1), recipes=("blind",)))
        assert (again.promoted, again.reason, again.production) == (False, second.reason, second.production)
        moved = store.pointer(THROUGHPUT)
        assert moved is not None
        assert (moved.version, moved.previous) == (again.renewed, first.artifact)
