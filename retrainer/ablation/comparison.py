"""All that the results of a folder say, in one piece."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from retrainer.ablation import handover, removal, table
from retrainer.ablation.handover import Handover
from retrainer.ablation.measure import Result
from retrainer.ablation.removal import Loss
from retrainer.ablation.table import Line

#: The family that hands new graphs over.
OURS = "structured"


class Comparison(msgspec.Struct, frozen=True):
    """What `leap ablate` answers.

    Attributes
    ----------
    families
        One line a family.
    taken_away
        What is lost on hardware types and model types that never ran, where some were taken away.
    handed_over
        What jobs with a new graph gain in other families.
    """

    families: list[Line]
    taken_away: list[Loss]
    handed_over: list[Handover]


def compare(results: Sequence[Result], folder: Path) -> Comparison:
    """Sum up results whose predictions are in `folder`."""
    return Comparison(
        families=table.lines(results, folder),
        taken_away=removal.losses(results, folder),
        handed_over=handover.handovers(results, folder, OURS),
    )


def as_text(found: Comparison) -> str:
    """Tables for the terminal, of what there is."""
    parts = [table.as_text(found.families)]
    parts += [removal.as_text(found.taken_away)] if found.taken_away else []
    parts += [handover.as_text(found.handed_over)] if found.handed_over else []
    return "\n\n".join(parts)
