"""The promotion gate: whether production moves to what a nightly run trained, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.store import Pointer
from leap.predictor.features.batch import Floats
from leap.predictor.models.accuracy import within
from leap.retrainer.night.model_selection import Comparison
from leap.retrainer.night.window import Window

#: z of a one-sided 5% test: standard errors by which a difference must exceed the margin.
Z_95_ONE_SIDED = 1.645


@dataclass(frozen=True)
class Decision:
    """What becomes of production, and why.

    Attributes
    ----------
    promote
        Production moves to the new model.
    renew
        Production keeps its model and gets the history of this run.
    """

    promote: bool
    reason: str
    renew: bool = False


def choose(
    comparison: Comparison,
    serving: Floats,
    measured: Floats,
    pointer: Pointer | None,
    margin: float,
    doubts: Sequence[str] = (),
) -> tuple[Comparison, Decision]:
    """The best recipe that `decide` promotes, and why; where it promotes none, the champion, and why not."""
    refused: list[tuple[Comparison, Decision]] = []
    for led in (comparison, *comparison.runners_up):
        decision = decide(led, serving, measured, pointer, margin, doubts)
        if decision.promote:
            better = [
                f"{other.champion.recipe}, better on all, was refused: {why.reason.partition(';')[0]}"
                for other, why in refused
            ]
            return led, replace(decision, reason="; ".join([decision.reason, *better]))
        refused.append((led, decision))
    return refused[0]


def decide(
    comparison: Comparison,
    serving: Floats,
    measured: Floats,
    pointer: Pointer | None,
    margin: float,
    doubts: Sequence[str] = (),
) -> Decision:
    """Decide on the recipe that leads a comparison.

    Parameters
    ----------
    serving
        (n,) samples/s that the model in production predicts of the held-out attempts; NaN where it cannot be asked.
    measured
        (n,) samples/s.
    margin
        Points of w20 that the new model may be worse by.
    doubts
        Why production should stay where it is, whatever the scores.
    """
    if pointer and pointer.pinned:
        return Decision(False, f"production is pinned to {pointer.version}")
    if doubts:
        return Decision(False, "; ".join(doubts))
    ours, theirs, sure = difference(comparison.predicted, serving, measured)
    if sure < -margin:
        reason = f"w20 {ours:.1f} is worse than production's {theirs:.1f} by more than {margin:g}, beyond chance"
        return Decision(False, f"{reason}; production's model goes on with new history", renew=True)
    for name, answered in (("lookup table", comparison.looked_up), ("chain of medians", comparison.chained)):
        beaten, baseline, sure = difference(comparison.predicted, answered, measured)
        if sure < -margin:
            return Decision(False, f"w20 {beaten:.1f} is worse than the {name}'s {baseline:.1f} where it answers")
    scores = comparison.champion.all
    assert scores is not None
    beside = "there is none to compare with" if np.isnan(theirs) else f"production's is {theirs:.1f}"
    return Decision(True, f"w20 {scores.w20} on {scores.n} held-out attempts; {beside}")


def difference(ours: Floats, theirs: Floats, measured: Floats) -> tuple[float, float, float]:
    """w20 of two predictions where both answer, and the greatest difference that chance leaves likely, in points.

    The attempts are the same, so their differences are what varies: on 25,000 attempts of which the two are right
    about different 5% each, chance is 0.3 points; on 200 it is 3.7.

    Examples
    --------
    >>> measured = np.full(400, 100.0)
    >>> ours, theirs = measured.copy(), measured.copy()
    >>> ours[:40], theirs[:20] = 130.0, 130.0
    >>> [round(value, 2) for value in difference(ours, theirs, measured)]
    [90.0, 95.0, -3.21]
    """
    both = ~np.isnan(ours) & ~np.isnan(theirs)
    if not both.any():
        return np.nan, np.nan, np.inf
    right, other = (within(part[both], measured[both], 20) for part in (ours, theirs))
    apart = right.astype(float) - other
    sure = apart.mean() + Z_95_ONE_SIDED * apart.std() / np.sqrt(len(apart))
    return 100.0 * float(right.mean()), 100.0 * float(other.mean()), 100.0 * float(sure)


def is_stale_night(serving: Artifact | None, window: Window) -> list[str]:
    """Why a run for a past date must not move production."""
    if serving is None or serving.manifest.window_to <= window.last.isoformat():
        return []
    return [f"production was made of attempts up to {serving.manifest.window_to}, later than {window.last}"]
