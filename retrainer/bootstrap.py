"""Exploration: which few jobs to run on a hardware type that has none, so that most attempts are known there.

Those of the families with most attempts: what they reach there is then known exactly, and the model learns the rest of
the type from them. Designs that spread over configurations, or over what the model doubts, were no better.
"""

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.features.batch import HardwareTable, Indices
from leap.predictor.routing.placement import NO_MEMORY, NO_SPECIFICATION, Goal, place
from leap.retrainer.dataset.feature_table import jobs, log_target


class Pick(msgspec.Struct, frozen=True, kw_only=True):
    """One job to run on the new hardware type.

    Attributes
    ----------
    attempt_id, family, model_type
        The latest attempt of the family, whose configuration is to be run.
    num_trainers, accelerators_per_trainer, batch_size
        Of that configuration.
    attempts
        Share of the attempts that can run there, in percent, that are of this family.
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
    attempts: float
    accelerator_hours: float | None
    cost: float | None


def plan(rows: pd.DataFrame, table: HardwareTable, hardware: str, count: int, target: str) -> list[Pick]:
    """Choose `count` jobs of past attempts to run on `hardware`, those of most attempts first.

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
    everything, price = float(families["attempts"].sum()), float(table.price[position])
    return [_pick(row, everything, price) for _, row in families.head(count).iterrows()]


def candidates(rows: pd.DataFrame, table: HardwareTable, position: int, target: str) -> pd.DataFrame:
    """The latest attempt of each family that can run there and has not, with its attempts, most first, and hours."""
    rows = rows.assign(y=log_target(rows, target))
    rows = rows[rows["y"].notna()].sort_values("submitted_at", kind="stable")
    been = rows.loc[table.index(rows["hardware_type"].tolist()) == position, "family"].unique()
    rows = rows[~rows["family"].isin(been)]
    grouped = rows.groupby("family")
    latest = grouped.tail(1).set_index("family", drop=False)
    latest = latest.assign(attempts=grouped.size(), hours=grouped["accelerator_hours"].median())
    latest = latest.sort_values("attempts", ascending=False, kind="stable").reset_index(drop=True)
    described = jobs(latest)
    every: Indices = np.arange(len(latest))
    there = np.full(len(latest), position)
    reason = place(described, table, every, there, np.ones(len(latest)), [Goal()] * len(latest)).reason
    return latest[~np.isin(reason, (NO_MEMORY, NO_SPECIFICATION))].reset_index(drop=True)


def _pick(row: "pd.Series[float]", everything: float, price: float) -> Pick:
    hours = float(row["hours"])
    batch = float(row["batch_size"])
    return Pick(
        attempt_id=str(row["attempt_id"]),
        family=str(row["family"]),
        model_type=str(row["model_type"]),
        num_trainers=float(row["num_trainers"]),
        accelerators_per_trainer=float(row["accelerators_per_trainer"]),
        batch_size=None if np.isnan(batch) else batch,
        attempts=round(100 * float(row["attempts"]) / everything, 2),
        accelerator_hours=None if np.isnan(hours) else round(hours, 2),
        cost=None if np.isnan(hours * price) else round(hours * price, 2),
    )
