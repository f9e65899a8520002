"""What a nightly training run is told to do, and what it reports."""

from dataclasses import dataclass
from datetime import date

import msgspec

from leap.predictor.models.accuracy import Accuracy
from leap.retrainer.dataset.statistics_array import Difference
from leap.retrainer.evaluation.definitions import Definedness
from leap.retrainer.night.model_selection import RecipeResult
from leap.retrainer.night.serving_skew import Skew
from leap.schemas.events import THROUGHPUT

DEFAULT_RECIPES: tuple[str, ...] = ("structured", "boosted")


@dataclass(frozen=True)
class Plan:
    """What one nightly run is to do.

    Attributes
    ----------
    night
        Date of the run; the window is the days before it.
    window_days, max_missing
        Days of the window, and those without attempts above which nothing is promoted; none follow from the partitions,
        see :func:`leap.retrainer.night.window.open_window`.
    margin
        Points of w20 by which the new model may be worse than production's, beyond chance.
    keep_days, keep_artifacts
        Retention of partitions, and how many artifacts stay beside the one in production. Without `keep_days` a
        partition goes after 90 days, if it has left the window and a run has learned from it.
    accept_anomalies
        Whether a window that is not as usual may be promoted from all the same: a table has the days that it has.
    promote
        False keeps the artifact without moving production (trial runs).
    """

    night: date
    target: str = THROUGHPUT
    window_days: int | None = None
    recipes: tuple[str, ...] = DEFAULT_RECIPES
    margin: float = 1.0
    max_missing: int | None = None
    accept_anomalies: bool = False
    keep_days: int | None = None
    keep_artifacts: int = 30
    promote: bool = True
    n_jobs: int = 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a nightly run did; kept as JSON beside the partitions.

    Attributes
    ----------
    missing_days, doubts
        Days without a partition, and why the window is not as usual: with a doubt nothing is promoted.
    skew
        History feature to how it was served on the held-out attempts and what it is recomputed; of throughput alone.
    store
        The statistics in the store against those of the partitions; none if no store was asked.
    fences
        Source (topic id/partition) to the offset that the statistics in the artifact reach to; none if they are
        those of the partitions.
    renewed
        Where the new model was worse: production's with the history of this night, to which production moved.
    definitions
        Model types without a definition, and the scores of those with one beside them.
    unlearned, pruned
        Days before the window that no run has learned from, and those whose partitions were removed.
    keys
        Keys in the artifact's snapshot.
    seconds
        Step to wall clock.
    """

    night: str
    target: str
    window_from: str
    window_to: str
    missing_days: tuple[str, ...]
    doubts: tuple[str, ...]
    trained_on: int
    held_out: int
    recipes: list[RecipeResult]
    champion: str
    lookup: Accuracy | None
    champion_on_lookup: Accuracy | None
    production: Accuracy | None
    skew: dict[str, Skew]
    store: Difference | None
    fences: dict[str, int]
    artifact: str
    promoted: bool
    reason: str
    renewed: str | None = None
    definitions: Definedness | None = None
    unlearned: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    keys: int
    seconds: dict[str, float]


def report_name(target: str, night: date, *, trial: bool = False) -> str:
    """Name of the report of a night, beside the partitions; a trial does not stand for the night."""
    return f"reports/{'trials/' if trial else ''}{target}-{night.isoformat()}.json"
