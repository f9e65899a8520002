"""The figures, each with the one sentence that a reader is to take from it, worked out from the data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from leap.predictor.features.batch import Floats
from leap.predictor.models.accuracy import within
from leap.retrainer.report import svg_charts as svg
from leap.retrainer.report.permutation_importance import by_category, by_feature
from leap.retrainer.report.subject import Subject
from leap.retrainer.report.svg_charts import Drawing

#: Attempts that a group needs to be drawn.
LEAST = 20
SHOWN = 18
NOMINAL = 80.0
QUARTERS = ("narrowest", "narrower", "wider", "widest")


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows and what it says."""

    title: str
    says: str
    drawing: Drawing


def figures(subject: Subject) -> Iterator[Figure]:
    """All figures that the subject has data for."""
    for make in MAKERS:
        made = make(subject)
        if made is not None:
            yield made


def measured(subject: Subject) -> Figure | None:
    """Predicted against measured."""
    rows = subject.rows
    if rows.empty:
        return None
    predicted, actual = rows["predicted"].to_numpy(), rows["measured"].to_numpy()
    inside = 100 * float(within(predicted, actual, 20).mean())
    return Figure(
        "Predicted against measured throughput",
        f"{inside:.1f}% of {len(rows):,} attempts lie between the outer lines, within 20% of what was measured.",
        svg.density(actual, predicted, "measured, samples/s", "predicted"),
    )


def nightly(subject: Subject) -> Figure | None:
    """w20 per night, with the lookup table's."""
    dated = [(pd.Timestamp(night.night).toordinal(), night) for night in subject.nights]
    ours = [
        (float(day), row.all.w20)
        for day, night in dated
        for row in night.recipes
        if row.recipe == night.champion and row.all
    ]
    table = [(float(day), night.lookup.w20) for day, night in dated if night.lookup]
    if len(ours) < 2:
        return None
    middle = float(np.median([w20 for _, w20 in ours]))
    every = max(1, len(ours) // 6)
    names = {day: pd.Timestamp.fromordinal(int(day)).strftime("%d %b") for day, _ in ours[::every]}
    return Figure(
        "w20 per night; the lookup table's is of the attempts that it covers",
        f"Over {len(ours)} nights the champion's w20 has median {middle:.1f} and goes from "
        f"{min(w for _, w in ours):.1f} to {max(w for _, w in ours):.1f}.",
        svg.lines({"Leap": ours} | ({"lookup table": table} if len(table) > 1 else {}), names),
    )


def long_tail(subject: Subject) -> Figure | None:
    """Cumulative share of attempts by rank of the model type."""
    counts = (subject.rows if subject.window is None else subject.window)["model_type"].value_counts().to_numpy()
    if len(counts) < 3:
        return None
    share = 100 * np.cumsum(counts) / counts.sum()
    half = int(np.searchsorted(share, 50)) + 1
    rest = 100 * counts[len(counts) * 15 // 100 :].sum() / counts.sum()
    chosen = np.unique(np.linspace(0, len(counts) - 1, 60).astype(int))
    return Figure(
        "Long tail of model types",
        f"{half} of {len(counts)} model types make half of the attempts; the rarest 85% of them make {rest:.0f}%.",
        svg.lines({"share, %": [(float(rank + 1), float(share[rank])) for rank in chosen]}),
    )


def spread(subject: Subject) -> Figure | None:
    """Throughput per hardware type, 5th to 95th percentile."""
    rows = _large(subject.rows, "hardware_type")
    if rows.empty:
        return None
    quarters = [
        (str(name), np.quantile(group.to_numpy(), (0.05, 0.25, 0.5, 0.75, 0.95)).tolist())
        for name, group in rows.groupby("hardware_type")["measured"]
    ]
    ratios = sorted(five[4] / five[0] for _, five in quarters)
    return Figure(
        "Spread of measured throughput per hardware type, samples/s",
        f"One hardware type spans {ratios[0]:,.0f} to {ratios[-1]:,.0f} times from the 5th to the 95th percentile, "
        "so its name alone predicts nothing.",
        svg.ranges(sorted(quarters, key=lambda row: -row[1][2])),
    )


def calibration(subject: Subject) -> Figure | None:
    """Share within the interval by what a prediction rests on, beside the nominal level."""
    rows = subject.rows[subject.rows["lower"].notna()]
    if rows.empty:
        return None
    inside = rows["measured"].between(rows["lower"], rows["upper"])
    groups = [("all", np.ones(len(rows), dtype=bool))]
    groups += [(str(name), (rows["basis"] == name).to_numpy()) for name in sorted(rows["basis"].dropna().unique())]
    width = np.log(rows["upper"].to_numpy() / rows["lower"].to_numpy())
    quarter = 4 * np.argsort(np.argsort(width, kind="stable"), kind="stable") // len(width)
    groups += [(f"{name} quarter", quarter == number) for number, name in enumerate(QUARTERS)]
    shares = [(name, 100 * float(inside[kept].mean()), int(kept.sum())) for name, kept in groups if kept.any()]
    how = "; calibrated on these same attempts" if subject.report else ""
    return Figure(
        "Calibration of the interval: measured values inside it, %",
        f"{shares[0][1]:.1f}% lie inside where {NOMINAL:.0f}% are meant to{how}; "
        f"its median width is {float(np.exp(np.median(width))):.2f} times from end to end.",
        svg.bars([(name, share, f"{share:.0f}% of {count:,}") for name, share, count in shares], NOMINAL),
    )


def first_ranks(subject: Subject) -> Figure | None:
    """Share of first ranks per model type and hardware type."""
    if subject.first.empty:
        return None
    table = pd.crosstab(subject.first["model_type"], subject.first["hardware_type"])
    table = table.loc[table.sum(axis=1).nlargest(SHOWN).index]
    table = table[table.sum().nlargest(14).index]
    shares: Floats = (table.to_numpy().T / np.maximum(table.sum(axis=1).to_numpy(), 1)).T
    top = subject.first["hardware_type"].value_counts(normalize=True)
    return Figure(
        "First ranks: share of each model type's jobs that rank a hardware type first",
        f"{top.index[0]} is first for {top.iloc[0]:.0%} of {len(subject.first):,} jobs, each among its own candidates; "
        f"{len(top)} hardware types are first for some.",
        svg.grid([str(name) for name in table.index], [str(name) for name in table.columns], shares),
    )


def categories(subject: Subject) -> Figure | None:
    """Importance by category."""
    losses = by_category(subject)
    if not losses:
        return None
    return Figure(
        "Importance by category: points of w20 lost when attempts exchange all of it",
        f"With another attempt's {losses[0][0]} the model loses {losses[0][1]:.1f} points, more than with any other "
        "category.",
        svg.bars([(name, loss, f"{loss:.1f}") for name, loss in losses]),
    )


def importance(subject: Subject) -> Figure | None:
    """Importance by permutation, the most important features or inputs."""
    losses = by_feature(subject)[:SHOWN]
    if not losses:
        return None
    return Figure(
        "Importance by permutation: points of w20 lost when attempts exchange one thing",
        f"The most important single thing is {losses[0][0]}, worth {losses[0][1]:.1f} points.",
        svg.bars([(name, loss, f"{loss:.1f}") for name, loss in losses]),
    )


def hours(subject: Subject) -> Figure | None:
    """Accelerator-hours that got a ranking, by day of the window."""
    rows = subject.window
    if rows is None or rows["predicted"].notna().sum() == 0:
        return None
    day = pd.to_datetime(rows["submitted_at"], unit="s").dt.strftime("%d %b")
    total = rows["accelerator_hours"].groupby(day, sort=False).sum()
    ranked = rows["accelerator_hours"].where(rows["predicted"].notna(), 0.0).groupby(day, sort=False).sum()
    share = (100 * ranked / total).fillna(0.0)
    return Figure(
        "Accelerator-hours whose attempt got a ranking, %",
        f"On the last day {share.iloc[-1]:.1f}% of the accelerator-hours were ranked before they ran.",
        svg.bars([(str(name), float(value), f"{value:.0f}%") for name, value in share.items()]),
    )


def _large(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    return rows[rows.groupby(column)[column].transform("size") >= LEAST]


MAKERS: tuple[Callable[[Subject], Figure | None], ...] = (
    measured, nightly, calibration, categories, importance, first_ranks, spread, long_tail, hours,
)  # fmt: skip
