"""Jobs whose model definition differs from all that was learned from, and what handing them to another family gains."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from leap.retrainer.ablation.run import Result


class Handover(msgspec.Struct, frozen=True):
    """One family that hands the jobs that it has never seen the like of to another; mean over seeds.

    Attributes
    ----------
    attempts
        Held-out attempts with a new definition, of all seeds.
    share
        Percent of the held-out attempts.
    w20_new, w20_new_by_other
        On these, of the family itself and of the other.
    gain
        Points of w20 over all held-out attempts.
    """

    name: str
    other: str
    without: str
    attempts: int
    share: float
    w20_new: float
    w20_new_by_other: float
    gain: float


def handovers(results: Sequence[Result], folder: Path, name: str) -> list[Handover]:
    """What `name` gains by each other family, where both were run with the same taken away."""
    done = {(result.name, result.run.seed, result.run.without): result for result in results if not result.error}
    table = []
    for other, without in dict.fromkeys((other, without) for other, _, without in done if other != name):
        seeds = [seed for *family, seed, away in done if (*family, away) == (other, without)]
        both = [seed for seed in seeds if (name, seed, without) in done]
        judgements = [_judge(done[name, seed, without], done[other, seed, without], folder) for seed in both]
        judgements = [judged for judged in judgements if judged[0]]
        if judgements:
            attempts, share, own, others = np.array(judgements).T
            table.append(
                Handover(
                    name=name,
                    other=other,
                    without=without,
                    attempts=int(attempts.sum()),
                    share=round(float(share.mean()), 2),
                    w20_new=round(float(own.mean()), 1),
                    w20_new_by_other=round(float(others.mean()), 1),
                    gain=round(float(np.mean(share * (others - own)) / 100), 2),
                )
            )
    return table


def as_text(table: Sequence[Handover]) -> str:
    """A table for the terminal."""
    lines = [f"{'new graphs of':14}{'to':14}{'taken away':24}{'attempts':>9}{'%':>6}{'own':>6}{'other':>7}{'gain':>7}"]
    lines += [
        f"{handover.name:14}{handover.other:14}{handover.without:24}{handover.attempts:9}{handover.share:6.2f}{handover.w20_new:6.1f}"
        f"{handover.w20_new_by_other:7.1f}{handover.gain:7.2f}"
        for handover in table
    ]
    return "\n".join(lines)


def _judge(own: Result, other: Result, folder: Path) -> tuple[int, float, float, float]:
    """New attempts, their percent of all, and w20 on them of both."""
    predicted, truth = own.predicted(folder), own.truth(folder)
    new = predicted["new_graph"]
    if not new.any():
        return 0, 0.0, 0.0, 0.0
    means = (predicted["mean"], other.predicted(folder)["mean"])
    w20 = [100 * float(truth.within_20(mean)[new].mean()) for mean in means]
    return int(new.sum()), 100 * float(new.mean()), w20[0], w20[1]
