"""What the steps of a nightly run hand on."""

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np

from leap.predictor.features.batch import Floats
from leap.predictor.history.snapshot import Snapshot
from leap.predictor.models.accuracy import accuracy
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.statistics_array import Difference, StatisticsSnapshot
from leap.retrainer.evaluation.definitions import definedness
from leap.retrainer.night.model_selection import Comparison
from leap.retrainer.night.plan import Plan, Report
from leap.retrainer.night.promotion_gate import Decision
from leap.retrainer.night.publish import Production
from leap.retrainer.night.serving_skew import Skew
from leap.retrainer.night.window import Window


@dataclass
class NightState:
    """What the steps of one run hand on; each field is set by one step, before which there is none.

    Attributes
    ----------
    folder
        For what is not published yet.
    partitions
        What is learned from; in a trial, what is written to it stays in memory.
    window
        Set by ``window``.
    comparison
        Set by ``train``; ``evaluate`` puts a runner-up in front where the gate refuses the champion and promotes that.
    production, served, skew, decision
        Set by ``evaluate``: production before the run; (n,) samples/s that it predicts of the held-out attempts, NaN
        where it cannot be asked; how history was served; and what becomes of production.
    statistics, store_difference, snapshot
        Set by ``snapshot``: the statistics to publish, how those of the store differ from the partitions', and their
        form in the artifact.
    artifact, renewed
        Set by ``publish``: versions of the champion, and of production's model with new history if it was renewed.
    unlearned, pruned
        Set by ``prune``: days before the window that no run has learned from, and those that were removed.
    report
        Set by ``report``.
    seconds
        Step to wall clock, of the steps that have ended.
    """

    plan: Plan
    folder: Path
    partitions: Partitions
    window: Window = field(init=False)
    comparison: Comparison = field(init=False)
    production: Production = field(init=False)
    served: Floats = field(init=False)
    skew: dict[str, Skew] = field(init=False)
    decision: Decision = field(init=False)
    statistics: StatisticsSnapshot = field(init=False)
    store_difference: Difference | None = field(init=False)
    snapshot: Snapshot = field(init=False)
    artifact: str = field(init=False)
    renewed: str | None = field(init=False)
    unlearned: list[date] = field(default_factory=list)
    pruned: list[date] = field(default_factory=list)
    report: Report = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def promoted(self) -> bool:
        """Whether production moves to the champion."""
        return self.decision.promote and self.plan.promote

    @property
    def reason(self) -> str:
        """Why it moves or does not."""
        return self.decision.reason if self.plan.promote else f"trial run; otherwise: {self.decision.reason}"

    def to_report(self) -> Report:
        """The report, once all steps before it have run."""
        plan, window, comparison = self.plan, self.window, self.comparison
        return Report(
            night=plan.night.isoformat(),
            target=plan.target,
            window_from=window.first.isoformat(),
            window_to=window.last.isoformat(),
            missing_days=tuple(day.isoformat() for day in window.missing),
            doubts=window.anomalies,
            trained_on=len(window.training),
            held_out=len(window.held_out),
            recipes=comparison.table,
            champion=comparison.champion.recipe,
            lookup=comparison.lookup,
            champion_on_lookup=comparison.champion_on_lookup,
            production=accuracy(self.served, np.exp(window.held_out.y)),
            skew=self.skew,
            store=self.store_difference,
            fences=self.statistics.fences,
            artifact=self.artifact,
            promoted=self.promoted,
            reason=self.reason,
            renewed=self.renewed,
            definitions=definedness(window.training, window.held_out, comparison.predicted),
            unlearned=tuple(map(str, self.unlearned)),
            pruned=tuple(map(str, self.pruned)),
            keys=len(self.snapshot),
            seconds=dict(self.seconds),
        )
