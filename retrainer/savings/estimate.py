"""What routing saved: the cost of the attempts that were routed beside what they would have cost without.

The counterfactual, as every report states it (`ASSUMPTIONS`): each attempt does the same samples with as many
accelerators, on the hardware types that its family used before routing, as often as it used them; how fast it would
have been there is what Leap predicted at launch, corrected by how the predictions of the period before routing erred.
That period is one in shadow: lists were made and not acted on, so where an attempt ran does not depend on them.

For one attempt: saved cost = kappa · work · Σ_c share_c · price_c / predicted_c - hours · price of where it ran,
where work = accelerator-hours · measured throughput, and kappa = measured cost / predicted cost before routing.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats

Flags = NDArray[np.bool_]
Grouped = tuple[NDArray[np.object_], Floats, Floats]

ASSUMPTIONS: tuple[str, ...] = (
    "Without routing a family would have used the hardware types of before, as often as before.",
    "An attempt would have done the same samples, with as many accelerators.",
    "Its throughput elsewhere is what was predicted at launch, corrected by the mean error before routing.",
    "Prices per accelerator-hour are those of the catalog; waiting costs nothing.",
)
RESAMPLES = 1000
LEVEL = 0.95
COLUMNS: tuple[str, ...] = ("family", "model_type", "hardware_type", "accelerator_hours", "measured")


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The saving on the attempts that were routed.

    Attributes
    ----------
    spent, without
        USD that they cost, and would have cost.
    share
        1 - spent / without, in percent.
    low, high
        Its bootstrap interval (95%); families are drawn, because errors of one family's attempts go together.
    kappa
        Measured over predicted cost before routing: what the predictions leave out, such as slow runs.
    """

    attempts: int
    spent: float
    without: float
    share: float
    low: float
    high: float
    kappa: float
    assumptions: tuple[str, ...] = ASSUMPTIONS


def saving(
    before: pd.DataFrame,
    predicted_before: Floats,
    routed: pd.DataFrame,
    predicted: Floats,
    hardware_types: Sequence[str],
    price: Floats,
    seed: int = 0,
) -> Saving:
    """Estimate the saving.

    Parameters
    ----------
    before, routed
        Finished attempts before and under routing: frames with `COLUMNS`.
    predicted_before
        (n_before,) samples/s predicted at launch for the hardware type that each ran on; NaN where it was not.
    predicted
        (n_routed, types) samples/s predicted at launch; NaN where the type was no candidate.
    hardware_types, price
        Names of the types, and USD per accelerator-hour of each; NaN is unknown, and such a type is left out.

    Raises
    ------
    ValueError
        If there is no attempt to learn from, or none that was routed.
    """
    price_of = dict(zip(hardware_types, price, strict=True))
    past = _costs_before(before, predicted_before, price_of)
    shares = habits(before, routed, np.isfinite(predicted) & np.isfinite(price), hardware_types)
    work = _column(routed, "accelerator_hours") * _column(routed, "measured")
    without = work * np.nansum(shares * price / predicted, axis=1)
    spent = _column(routed, "accelerator_hours") * routed["hardware_type"].map(price_of).to_numpy(float)
    known = np.isfinite(spent) & (without > 0)
    if not len(past[0]) or not known.any():
        raise ValueError(
            f"{len(past[0])} attempts before routing and {int(known.sum())} routed have a prediction and a price: "
            "nothing to compare"
        )
    now = routed["family"].to_numpy()[known], spent[known], without[known]
    (kappa, share), (low, high) = _figures(*past[1:], *now[1:]), _interval(past, now, np.random.default_rng(seed))
    return Saving(
        attempts=int(known.sum()),
        spent=round(float(spent[known].sum()), 2),
        without=round(float(kappa * without[known].sum()), 2),
        share=round(100 * share, 2),
        low=round(100 * low, 2),
        high=round(100 * high, 2),
        kappa=round(kappa, 4),
    )


def habits(before: pd.DataFrame, routed: pd.DataFrame, possible: Flags, hardware_types: Sequence[str]) -> Floats:
    """(n_routed, types) share of each type among those possible, from what ran before; rows sum to 1.

    A family's own placements decide; those of its model type, and of the fleet, only where it has none.
    """
    names = list(hardware_types)
    overall = before["hardware_type"].value_counts().reindex(names, fill_value=0).to_numpy(float)
    shares: Floats = np.where(possible, overall, 0.0)
    for key in ("model_type", "family"):
        counts = pd.crosstab(before[key], before["hardware_type"]).reindex(columns=names, fill_value=0)
        own = np.where(possible, counts.reindex(routed[key], fill_value=0).to_numpy(float), 0.0)
        shares = np.where(own.sum(axis=1, keepdims=True) > 0, own, shares)
    total = shares.sum(axis=1, keepdims=True)
    shares = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
    return shares


def _costs_before(before: pd.DataFrame, predicted: Floats, price_of: Mapping[str, float]) -> Grouped:
    """Family, measured cost and predicted cost of the attempts before routing that have a prediction and a price."""
    price = before["hardware_type"].map(price_of).to_numpy(float)
    usable = np.isfinite(price) & (predicted > 0)
    cost = (_column(before, "accelerator_hours") * price)[usable]
    return before["family"].to_numpy()[usable], cost, cost * _column(before, "measured")[usable] / predicted[usable]


def _column(rows: pd.DataFrame, name: str) -> Floats:
    return rows[name].to_numpy(float)


def _figures(measured: Floats, predicted: Floats, spent: Floats, without: Floats) -> tuple[float, float]:
    kappa = float(measured.sum() / predicted.sum())
    return kappa, 1.0 - float(spent.sum() / (kappa * without.sum()))


def _interval(before: Grouped, routed: Grouped, rng: np.random.Generator) -> tuple[float, float]:
    """Percentiles over resamples of families; a family of both periods is drawn for both (Efron and Tibshirani)."""
    names, code = np.unique(np.concatenate([before[0], routed[0]]).astype(str), return_inverse=True)
    split = len(before[0])
    sums = [
        np.bincount(part, values, minlength=len(names))
        for part, values in (
            (code[:split], before[1]), (code[:split], before[2]), (code[split:], routed[1]), (code[split:], routed[2]),
        )
    ]  # fmt: skip
    shares = []
    for _ in range(RESAMPLES):
        times = np.bincount(rng.integers(0, len(names), len(names)), minlength=len(names))
        measured, predicted, spent, without = (float(times @ values) for values in sums)
        if predicted > 0 and without > 0 and measured > 0:
            shares.append(1.0 - spent * predicted / (measured * without))
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(shares, [tail, 100 - tail])
    return float(low), float(high)
