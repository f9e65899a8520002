"""The verdict on top of a report: does it pay, where is it wrong, how sure is it, since when, what to do next."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from leap.predictor.models.accuracy import share_interval, within
from leap.retrainer.report.subject import Subject
from leap.retrainer.savings.estimate import Saving
from leap.retrainer.savings.hindsight import Hindsight, hindsight

#: Attempts of one group below which it is not called wrong.
LEAST = 5
NOMINAL = 80.0

Answer = tuple[str, str]


def verdict(subject: Subject) -> list[Answer]:
    """Five questions, each with its answer in a sentence or two."""
    seen_from_behind = hindsight(subject.rows)
    return [
        ("Does it pay?", _pays(subject.saving, seen_from_behind)),
        ("Where is it wrong?", " ".join(_wrong(subject.rows))),
        ("How sure is it?", _sure(subject.rows)),
        ("Since when?", _since(subject)),
        ("What next?", " ".join(_next(subject, seen_from_behind))),
    ]


def _pays(saving: Saving | None, found: Hindsight | None) -> str:
    if saving:
        return (
            f"{_direction(saving.low, saving.high)} Routing saved {saving.share:.1f}% "
            f"(95% interval {saving.low:.1f} to {saving.high:.1f}), {saving.without - saving.spent:,.0f} USD of "
            f"{saving.without:,.0f} that {saving.attempts:,} attempts would have cost without."
        )
    if found is None:
        return "Not known: no job of these days ran on several hardware types with a price, so nothing can be compared."
    told = (
        f"{_direction(found.low, found.high)} On the {found.attempts:,} attempts of {found.families:,} families that "
        f"ran on several hardware types, taking the first choice would have saved {found.share:.1f}%"
    )
    if np.isfinite(found.low):
        told += f" (95% interval {found.low:.1f} to {found.high:.1f})"
    told += (
        f": {found.spent - found.would:,.0f} USD of {found.spent:,.0f}, in {found.would_hours:,.0f} accelerator-hours "
        f"instead of {found.hours:,.0f}."
    )
    if found.families < 2:
        return told + " One family tells nothing of others."
    if needed := found.families_needed:
        return told + f" To be sure takes about {needed:,} such families."
    return told


def _direction(low: float, high: float) -> str:
    return "Yes." if low > 0 else "No." if high < 0 else "Not known yet."


def _wrong(rows: pd.DataFrame) -> Iterator[str]:
    """The group of each kind that adds most misses beyond its share."""
    if rows.empty:
        yield "Nothing has been measured."
        return
    inside = _inside(rows)
    whole, found = float(inside.mean()), False
    for column, name in (("hardware_type", "hardware type"), ("model_type", "model type"), ("basis", "basis")):
        grouped = pd.DataFrame({"group": rows[column], "inside": inside}).groupby("group")["inside"]
        misses = (grouped.size() * whole - grouped.sum())[grouped.size() >= LEAST]
        if misses.empty or misses.max() < 1:
            continue
        worst = misses.idxmax()
        part = (rows[column] == worst).to_numpy()
        low, high = share_interval(inside[part], rows["family"].to_numpy()[part])
        if high < 100 * whole:
            found = True
            yield (
                f"{name.capitalize()} {worst}: {inside[part].sum():,} of {part.sum():,} attempts within 20% "
                f"(95% interval {low:.0f} to {high:.0f}%)."
            )
    if not found:
        yield f"No hardware type, model type or basis is worse than the whole ({100 * whole:.0f}%) beyond chance."


def _sure(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "Nothing has been measured."
    inside, family = _inside(rows), rows["family"].to_numpy()
    low, high = share_interval(inside, family)
    told = f"{100 * inside.mean():.1f}% of {len(rows):,} attempts within 20% (95% interval {low:.1f} to {high:.1f})"
    bounded = rows["lower"].notna().to_numpy()
    if not bounded.any():
        return told + "."
    covered = _covered(rows[bounded])
    low, high = share_interval(covered, family[bounded])
    held = f"{100 * covered.mean():.0f}% ({low:.0f} to {high:.0f})"
    return f"{told}; {held} inside an interval that is to hold {NOMINAL:.0f}%."


def _since(subject: Subject) -> str:
    if subject.report is None:
        learned = 0 if subject.learned is None else len(subject.learned)
        apart = f" {learned:,} more had finished before it was made and are shown apart." if learned else ""
        return f"All attempts of this range that the artifact had not learned from.{apart}"
    report = subject.report
    scores = [
        row.all.w20 for night in subject.nights for row in night.recipes if row.recipe == night.champion and row.all
    ]
    trend = ""
    if len(scores) > 1:
        trend = f" Over {len(scores)} nights w20 was {min(scores):.1f} to {max(scores):.1f}, tonight {scores[-1]:.1f}."
    return f"Learned from {report.window_from} to {report.window_to}, {report.trained_on:,} attempts.{trend}"


def _next(subject: Subject, found: Hindsight | None) -> Iterator[str]:
    """What to do, the most urgent first."""
    report, rows = subject.report, subject.rows
    if report and report.doubts:
        yield f"Look at the window before anything else: {report.doubts[0]}."
    elif report and not report.promoted:
        yield f"This night was not promoted ({report.reason}): production goes on with the artifact before."
    if rows.empty:
        yield "Wait until attempts have finished, and ask again."
        return
    bounded = rows[rows["lower"].notna()]
    if len(bounded):
        _, high = share_interval(_covered(bounded), bounded["family"].to_numpy())
        if high < NOMINAL:
            yield "Do not lean on the intervals: they are too narrow here; the next night calibrates them again."
    if found is None or found.low <= 0:
        yield "Run some jobs on a second hardware type: `leap bootstrap plan --hardware TYPE` names them."
    elif subject.saving is None:
        yield "Route some model types (`leap switch`), then ask what it saved: `leap report --routed-since DAY`."
    else:
        yield "Go on; widen the routed share with `leap switch`, and keep a share in shadow."


def _inside(rows: pd.DataFrame) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return within(rows["predicted"].to_numpy(float), rows["measured"].to_numpy(float), 20)


def _covered(rows: pd.DataFrame) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return rows["measured"].between(rows["lower"], rows["upper"]).to_numpy()
