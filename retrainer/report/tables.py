"""The tables of a report: scores by group, the lookup table beside Leap, and the worst families with why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from leap.predictor.features.history import STATISTICS
from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.retrainer.report.first_choice import choices
from leap.retrainer.report.subject import Subject, observations

SHOWN = 25
WORST = 12
#: Attempts that a family needs to be among the worst: one slow run is chance.
LEAST = 4
#: Standard deviation of ln throughput above which a history is wide: half of the runs miss by more than 20%.
WIDE = 0.3
SCORES = ("attempts", "w20", "w10", "w5", "MdAPE", "ratio")


@dataclass(frozen=True)
class Table:
    """Caption, heads and cells; the first column names its row."""

    caption: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def tables(subject: Subject) -> Iterator[Table]:
    """All tables that the subject has data for."""
    rows = subject.rows
    yield Table("Leap and the lookup table", ("", *SCORES, "coverage"), list(_beside(subject)))
    if subject.report:
        yield Table("Recipes, on the same attempts", ("recipe", *SCORES, "seconds"), list(_recipes(subject)))
    chosen = [
        (
            f"same {name}",
            f"{choice.jobs:,}",
            f"{choice.types:.1f}",
            f"{choice.tau:.2f}",
            *(f"{lost:.1f}" for lost in (choice.regret, choice.cheapest, choice.at_random)),
        )
        for name, choice in choices(subject)
    ]
    if chosen:
        yield Table(
            "The choice, on jobs that ran on several hardware types: throughput per cost lost against the best, %",
            ("job", "jobs", "types each", "rank correlation", "Leap's first choice", "the cheapest", "any"),
            chosen,
        )
    yield _grouped("By hardware type", rows, "hardware_type")
    yield _grouped("By model type, the most frequent", rows, "model_type")
    yield Table(
        "Families that are predicted worst, and why",
        ("family", "attempts", "MdAPE", "ratio", "why"),
        list(_worst(subject)),
    )
    if subject.report and subject.report.skew:
        skews = [
            (name, f"{skew.n:,}", f"{skew.differing:g}", f"{skew.mean:g}", f"{skew.recomputed:g}")
            for name, skew in subject.report.skew.items()
        ]
        yield Table(
            "Skew: history as served and recomputed", ("feature", "served", "differing, %", "mean", "recomputed"), skews
        )
    if subject.summary:
        for side in subject.summary.sides:
            outcomes = [
                (name, f"{count:,}", f"{count / side.submissions:.1%}") for name, count in side.outcomes.items()
            ]
            yield Table(f"Lists of {side.artifact}", ("outcome", "lists", "share"), outcomes)


def _beside(subject: Subject) -> Iterator[tuple[str, ...]]:
    rows = subject.rows
    covered = rows[rows["table"].notna()]
    for name, part, column in (
        ("Leap, all attempts", rows, "predicted"),
        ("Leap, where the table has the key", covered, "predicted"),
        ("lookup table, where it has the key", covered, "table"),
    ):
        scores = _scores(part, column)
        if scores:
            share = 100 * len(part) / len(rows)
            yield name, *_cells(scores), f"{share:.1f}%"


def _recipes(subject: Subject) -> Iterator[tuple[str, ...]]:
    assert subject.report is not None
    for row in subject.report.recipes:
        name = row.recipe + (" (champion)" if row.recipe == subject.report.champion else "")
        cells = _cells(row.all) if row.all else (row.error or "failed", *[""] * (len(SCORES) - 1))
        yield name, *cells, f"{row.seconds:.0f}"


def _grouped(caption: str, rows: pd.DataFrame, column: str) -> Table:
    groups = sorted(rows.groupby(column), key=lambda item: (-len(item[1]), str(item[0])))[:SHOWN]
    scored = [(str(name), _scores(group, "predicted")) for name, group in groups]
    cells = [(name, *_cells(scores)) for name, scores in scored if scores]
    return Table(caption, (column.replace("_", " "), *SCORES), cells)


def _worst(subject: Subject) -> Iterator[tuple[str, ...]]:
    rows = subject.rows.assign(error=np.abs(subject.rows["predicted"] / subject.rows["measured"] - 1))
    grouped = rows.groupby("family")["error"].agg(["size", "median"])
    for family in grouped[grouped["size"] >= LEAST].nlargest(WORST, "median").index:
        positions = np.flatnonzero(rows["family"] == family)
        scores = _scores(rows.iloc[positions], "predicted")
        assert scores is not None
        yield str(family), f"{scores.n:,}", f"{scores.mdape:.1f}", f"{scores.ratio:.2f}", _why(subject, positions)


def _why(subject: Subject, positions: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> str:
    """The plainest reasons that hold for most of these rows."""
    rows = subject.rows.iloc[positions]
    reasons = []
    spread = float(np.log(rows["measured"]).std())
    if subject.held_out is None:
        if (rows["basis"] != "family history").mean() > 0.5:
            reasons.append("no history of the family")
    else:
        known, here = (observations(subject.held_out, kind)[positions] for kind in ("family", "family_hardware"))
        past = subject.held_out.pairs.history["family_hardware"][positions]
        if np.median(known) == 0:
            reasons.append("first seen: no history")
        elif np.median(known) < 3:
            reasons.append(f"short history: {np.median(known):.0f} attempts")
        elif np.median(here) == 0:
            reasons.append("never ran on this hardware type before")
        else:
            if float(np.nanmedian(past[:, STATISTICS.index("deviation")])) > WIDE:
                reasons.append("its history is wide")
            shift = float(np.nanmedian(subject.held_out.y[positions] - past[:, STATISTICS.index("mean")]))
            if abs(shift) > 0.2 and spread < WIDE:
                reasons.append(f"changed: now {np.exp(shift):.2f} times its mean")
    if spread > WIDE:
        reasons.append(f"its own attempts spread (deviation {spread:.2f} in ln)")
    configurations = rows["hardware_type"].nunique()
    if configurations > 1:
        reasons.append(f"{configurations} hardware types")
    return "; ".join(reasons) or "no plain reason"


def _scores(rows: pd.DataFrame, column: str) -> Accuracy | None:
    return accuracy(rows[column].to_numpy(dtype=np.float64), rows["measured"].to_numpy(dtype=np.float64))


def _cells(scores: Accuracy) -> tuple[str, ...]:
    numbers = (scores.w20, scores.w10, scores.w5, scores.mdape)
    return f"{scores.n:,}", *(f"{value:.1f}" for value in numbers), f"{scores.ratio:.3f}"
