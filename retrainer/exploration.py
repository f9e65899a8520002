"""Exploration: which few jobs to run on a hardware type that has none, so that they tell most about the others.

Greedy facility location: of n jobs, choose those whose nearest chosen job is, weighed by attempts, most similar to
each of the n. The sum is submodular, so greedy reaches 63% of the best (Nemhauser, Wolsey and Fisher 1978).
"""

import msgspec
import numpy as np
import pandas as pd

from predictor.features import configuration, ratios
from predictor.jobs import Floats, HardwareTable, Indices
from predictor.placement import NO_MEMORY, NO_SPECIFICATION, Goal, place
from retrainer.table import jobs, log_target

#: Families looked at, those with most attempts: similarity is computed between all of them.
MOST_FAMILIES = 3000


class Pick(msgspec.Struct, frozen=True, kw_only=True):
    """One job to run on the new hardware type.

    Attributes
    ----------
    attempt_id, family, model_type
        The latest attempt of the family, whose configuration is to be run.
    num_trainers, accelerators_per_trainer, batch_size
        Of that configuration.
    stands_for
        Share of the fleet's attempts, in percent, that it is the most similar pick of.
    accelerator_hours
        Median of the family's attempts, about what the run will take; None if none tells.
    cost
        USD of those at the new type's price; None if it has none.
    """

    attempt_id: str
    family: str
    model_type: str
    num_trainers: float
    accelerators_per_trainer: float
    batch_size: float | None
    stands_for: float
    accelerator_hours: float | None
    cost: float | None


def plan(rows: pd.DataFrame, table: HardwareTable, hardware: str, count: int, target: str) -> list[Pick]:
    """Choose `count` jobs of past attempts to run on `hardware`, the most telling first.

    Parameters
    ----------
    rows
        Attempts of a window, in any order.

    Raises
    ------
    ValueError
        If the catalog does not have the hardware type, or no job can run there.
    """
    position = int(table.index([hardware])[0])
    if position == table.unlisted:
        raise ValueError(f"{hardware} is not in the catalog; add a row for it")
    families = candidates(rows, table, position, target)
    if families.empty:
        raise ValueError(f"no past attempt fits {hardware}, or all families have run there")
    weight = families["attempts"].to_numpy(float)
    chosen, nearest = choose(describe(families, target), weight, min(count, len(families)))
    price = float(table.price[position])
    return [
        _pick(families.iloc[row], float(weight[nearest == order].sum() / weight.sum()), price)
        for order, row in enumerate(chosen)
    ]


def candidates(rows: pd.DataFrame, table: HardwareTable, position: int, target: str) -> pd.DataFrame:
    """The latest attempt of each family that can run there and has not, with its attempts and median hours."""
    rows = rows.assign(y=log_target(rows, target))
    rows = rows[rows["y"].notna()].sort_values("submitted_at", kind="stable")
    been = rows.loc[table.index(rows["hardware_type"].tolist()) == position, "family"].unique()
    rows = rows[~rows["family"].isin(been)]
    grouped = rows.groupby("family")
    latest = grouped.tail(1).set_index("family", drop=False)
    latest = latest.assign(attempts=grouped.size(), hours=grouped["accelerator_hours"].median())
    latest = latest.nlargest(MOST_FAMILIES, "attempts").reset_index(drop=True)
    described = jobs(latest)
    every: Indices = np.arange(len(latest))
    there = np.full(len(latest), position)
    reason = place(described, table, every, there, np.ones(len(latest)), [Goal()] * len(latest)).reason
    return latest[~np.isin(reason, (NO_MEMORY, NO_SPECIFICATION))].reset_index(drop=True)


def describe(families: pd.DataFrame, target: str) -> Floats:
    """(n, features) what makes jobs alike: configuration, architecture and how fast they are, on one scale each."""
    described = jobs(families)
    with np.errstate(all="ignore"):
        columns = np.column_stack(
            (configuration.features(described), ratios.features(described), described.architecture)
        )
        columns = np.column_stack((np.sign(columns) * np.log1p(np.abs(columns)), families["y"].to_numpy(float)))
        columns[~np.isfinite(columns)] = np.nan
        columns = columns[:, ~np.isnan(columns).all(axis=0)]
        deviation = np.nanstd(columns, axis=0)
        scaled = (columns - np.nanmean(columns, axis=0)) / np.where(deviation > 0, deviation, 1.0)
    found: Floats = np.nan_to_num(scaled)
    return found


def choose(described: Floats, weight: Floats, count: int) -> tuple[list[int], Indices]:
    """Positions of `count` rows, the most telling first, and (n,) which of them is most similar to each row.

    Similarity falls from 1 to 1/e at the median distance of two rows.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [2.0], [9.0], [9.5]])
    >>> chosen, nearest = choose(rows, np.array([1.0, 1.0, 1.0, 1.0, 5.0]), 2)
    >>> chosen, nearest.tolist()
    ([3, 1], [1, 1, 1, 0, 0])
    """
    squares = (described**2).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares - 2 * described @ described.T, 0.0)
    middle = float(np.median(distance[~np.eye(len(distance), dtype=bool)])) if len(distance) > 1 else 1.0
    similar = np.exp(-distance / (middle or 1.0))
    reached = np.zeros(len(described))
    chosen: list[int] = []
    for _ in range(count):
        gain = weight @ np.maximum(similar - reached[:, None], 0.0)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
        reached = np.maximum(reached, similar[:, chosen[-1]])
    return chosen, similar[:, chosen].argmax(axis=1)


def _pick(row: "pd.Series[float]", share: float, price: float) -> Pick:
    hours = float(row["hours"])
    batch = float(row["batch_size"])
    return Pick(
        attempt_id=str(row["attempt_id"]),
        family=str(row["family"]),
        model_type=str(row["model_type"]),
        num_trainers=float(row["num_trainers"]),
        accelerators_per_trainer=float(row["accelerators_per_trainer"]),
        batch_size=None if np.isnan(batch) else batch,
        stands_for=round(100 * share, 2),
        accelerator_hours=None if np.isnan(hours) else round(hours, 2),
        cost=None if np.isnan(hours * price) else round(hours * price, 2),
    )
