"""All that the results of a folder say, in one piece."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from leap.retrainer.ablation import leave_group_out as removal
from leap.retrainer.ablation import results_table as table
from leap.retrainer.ablation.leave_group_out import Loss
from leap.retrainer.ablation.results_table import Line
from leap.retrainer.ablation.run import Result


class Comparison(msgspec.Struct, frozen=True):
    """What `leap ablate` answers.

    Attributes
    ----------
    families
        One line a family.
    taken_away
        What is lost on hardware types and model types that never ran, where some were taken away.
    importance
        Family to category or input to points of w20 lost when attempts exchange it, mean over seeds, if asked for.
    """

    families: list[Line]
    taken_away: list[Loss]
    importance: dict[str, dict[str, float]] = {}


def compare(results: Sequence[Result], folder: Path) -> Comparison:
    """Sum up results whose predictions are in `folder`."""
    names = dict.fromkeys(result.name for result in results)
    return Comparison(
        families=table.lines(results, folder),
        taken_away=removal.losses(results, folder),
        importance={name: _mean(losses) for name in names if (losses := _asked(results, name))},
    )


def as_text(comparison: Comparison) -> str:
    """Tables for the terminal, of what there is."""
    parts = [table.as_text(comparison.families)]
    parts += [removal.as_text(comparison.taken_away)] if comparison.taken_away else []
    for name, lost in comparison.importance.items():
        ranked = ", ".join(f"{what} {points:.1f}" for what, points in lost.items())
        parts.append(f"{name}: points of w20 lost when attempts exchange\n{ranked}")
    return "\n\n".join(parts)


def _asked(results: Sequence[Result], name: str) -> list[dict[str, float]]:
    return [result.importance for result in results if result.name == name and result.importance]


def _mean(several: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each key, the greatest first; what a seed does not have lost nothing there."""
    keys = dict.fromkeys(key for losses in several for key in losses)
    means = {key: round(sum(losses.get(key, 0.0) for losses in several) / len(several), 1) for key in keys}
    return dict(sorted(means.items(), key=lambda item: -item[1]))
