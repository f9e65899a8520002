"""The tables of a report: scores by group, the lookup table beside Leap, and the worst families with why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from leap.predictor.features.batch import Floats, Names
from leap.predictor.features.history import STATISTICS
from leap.predictor.models.accuracy import Accuracy, accuracy, share_interval, within
from leap.retrainer.evaluation.definitions import by_definition
from leap.retrainer.report.first_choice import choices
from leap.retrainer.report.subject import Subject, observations

SHOWN = 25
WORST = 12
#: Attempts from which a share is given in percent.
COUNTED = 10
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
    if subject.report and subject.report.definitions and subject.report.definitions.missing:
        yield Table(
            "Model types without a definition, the most frequent",
            ("model type", "share of all attempts"),
            [(name, f"{share:g}%") for name, share in subject.report.definitions.missing.items()],
        )
        beside = [(name, *_pooled(scores)) for name, scores in by_definition(subject.report.definitions) if scores]
        yield Table("Held-out attempts with and without a definition", ("", *SCORES), beside)
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
        if len(part):
            yield name, *_scored(part, column), f"{100 * len(part) / len(rows):.1f}%"
    if subject.learned is not None and len(subject.learned):
        yield "no prediction: had finished before the artifact was made", *_scored(subject.learned), ""


def _recipes(subject: Subject) -> Iterator[tuple[str, ...]]:
    assert subject.report is not None
    for row in subject.report.recipes:
        name = row.recipe + (" (champion)" if row.recipe == subject.report.champion else "")
        cells = _pooled(row.all) if row.all else (row.error or "failed", *[""] * (len(SCORES) - 1))
        yield name, *cells, f"{row.seconds:.0f}"


def _grouped(caption: str, rows: pd.DataFrame, column: str) -> Table:
    groups = sorted(rows.groupby(column), key=lambda item: (-len(item[1]), str(item[0])))[:SHOWN]
    return Table(caption, (column.replace("_", " "), *SCORES), [(str(name), *_scored(group)) for name, group in groups])


def _worst(subject: Subject) -> Iterator[tuple[str, ...]]:
    rows = subject.rows.assign(error=np.abs(subject.rows["predicted"] / subject.rows["measured"] - 1))
    grouped = rows.groupby("family")["error"].agg(["size", "median"])
    for family in grouped.nlargest(WORST, "median").index:
        positions = np.flatnonzero(rows["family"] == family)
        scores = accuracy(*_numbers(rows.iloc[positions], "predicted"))
        assert scores is not None
        yield str(family), f"{scores.n:,}", f"{scores.mdape:.1f}", f"{scores.ratio:.2f}", _why(subject, positions)


def _why(subject: Subject, positions: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> str:
    """The plainest reasons that hold for most of these rows."""
    rows = subject.rows.iloc[positions]
    reasons = ["one attempt: may be chance"] if len(rows) == 1 else []
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
            if float(pd.Series(past[:, STATISTICS.index("deviation")]).median()) > WIDE:
                reasons.append("its history is wide")
            shift = float(np.median(subject.held_out.y[positions] - past[:, STATISTICS.index("mean")]))
            if abs(shift) > 0.2 and spread < WIDE:
                reasons.append(f"changed: now {np.exp(shift):.2f} times its mean")
    if spread > WIDE:
        reasons.append(f"its own attempts spread (deviation {spread:.2f} in ln)")
    configurations = rows["hardware_type"].nunique()
    if configurations > 1:
        reasons.append(f"{configurations} hardware types")
    return "; ".join(reasons) or "no plain reason"


def _scored(rows: pd.DataFrame, column: str = "predicted") -> tuple[str, ...]:
    """Cells of `SCORES`: shares with their 95% interval, of few attempts as numbers of them."""
    predicted, measured = _numbers(rows, column)
    scores = accuracy(predicted, measured)
    if scores is None:
        return f"{len(rows):,}", *[""] * (len(SCORES) - 1)
    family = rows["family"].to_numpy()[~np.isnan(predicted)]
    predicted, measured = predicted[~np.isnan(predicted)], measured[~np.isnan(predicted)]
    shares = [_share(within(predicted, measured, percent), family) for percent in (20, 10, 5)]
    return f"{scores.n:,}", *shares, f"{scores.mdape:.1f}", f"{scores.ratio:.3f}"


def _share(inside: "np.ndarray[tuple[int], np.dtype[np.bool_]]", family: Names) -> str:
    if len(inside) < COUNTED:
        return f"{inside.sum()} of {len(inside)}"
    low, high = share_interval(inside, family)
    return f"{100 * inside.mean():.1f} ({low:.0f} to {high:.0f})"


def _numbers(rows: pd.DataFrame, column: str) -> tuple[Floats, Floats]:
    return rows[column].to_numpy(dtype=np.float64), rows["measured"].to_numpy(dtype=np.float64)


def _pooled(scores: Accuracy) -> tuple[str, ...]:
    """Cells of scores whose attempts are not at hand."""
    numbers = (scores.w20, scores.w10, scores.w5, scores.mdape)
    return f"{scores.n:,}", *(f"{value:.1f}" for value in numbers), f"{scores.ratio:.3f}"
