"""What a training run did, in words: for `leap retrain`, `leap learn` and the demo."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leap.retrainer.night.plan import Report


def summary(report: "Report") -> str:
    """What a night did, in a few lines."""
    from leap.retrainer.evaluation.definitions import in_words

    lines = [f"night {report.night}: {report.trained_on} attempts trained on, {report.held_out} held out"]
    if report.missing_days:
        named = report.missing_days[:3] + ("…",) * (len(report.missing_days) > 3)
        lines.append(f"  {len(report.missing_days)} days have no attempts: {', '.join(named)}")
    if report.unlearned:
        days = (date.fromisoformat(report.night) - date.fromisoformat(report.unlearned[0])).days
        lines.append(f"  {_days(report.unlearned)} before the window, not learned from yet: --window {days} does so")
    if report.pruned:
        lines.append(f"  {_days(report.pruned)} removed; --keep-days says how many are kept")
    for row in report.recipes:
        scores = row.all
        result = f"w20 {scores.w20:5} w5 {scores.w5:5} MdAPE {scores.mdape:5}" if scores else f"failed: {row.error}"
        lines.append(f"  {row.recipe:20} {result}  {row.seconds:7.1f} s")
    for name, scores in (("lookup table", report.lookup), (f"{report.champion} there", report.champion_on_lookup)):
        if scores:
            lines.append(f"  {name:20} w20 {scores.w20:5} w5 {scores.w5:5} of the attempts that the table covers")
    if report.store:
        lines.append(
            f"  store: {report.store.equal:,} of {report.store.keys:,} keys as in the partitions, "
            f"{report.store.ahead:,} observations ahead, {report.store.behind:,} behind, {report.store.unequal} unequal"
        )
        if not report.fences:
            lines.append("  the store lacks too much: the artifact has the statistics of the partitions")
    skewed = [f"{name} {skew.differing}%" for name, skew in report.skew.items() if skew.differing]
    if skewed:
        lines.append(f"  served otherwise than recomputed: {', '.join(skewed)}")
    if report.definitions:
        lines += [f"  {line}" for line in in_words(report.definitions)]
    lines.append(f"{report.artifact}: {'promoted' if report.promoted else 'kept, not promoted'}: {report.reason}")
    return "\n".join(lines)


def _days(days: Sequence[str]) -> str:
    return f"{len(days)} days, {days[0]} to {days[-1]}"
