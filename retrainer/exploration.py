"""Exploration: which few jobs to run on a hardware type that has none, so that they tell most about the others.

A structured model knows how doubtful it is of each job there, and how a run of one would lessen its doubt of others:
of one model type, of one shape, of its own family. Greedy: the next job is the one whose run leaves the least
variance over all attempts (Krause, Singh and Guestrin 2008, Near-Optimal Sensor Placements in Gaussian Processes).
"""

import msgspec
import numpy as np
import pandas as pd

from predictor.jobs import Floats, HardwareTable, Indices, strings
from predictor.kernel import UNSEEN
from predictor.keys import hashed
from predictor.placement import NO_MEMORY, NO_SPECIFICATION, Goal, place
from predictor.structured import Structured, rows_of
from retrainer.table import jobs, log_target

#: Families looked at, those with most attempts: the covariance is one of all with all.
MOST_FAMILIES = 3000


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
    doubt_left
        What is left of the model's doubt of all attempts there once this and the jobs before it have run, in percent.
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
    doubt_left: float
    accelerator_hours: float | None
    cost: float | None


def plan(
    rows: pd.DataFrame, table: HardwareTable, hardware: str, count: int, target: str, model: Structured | None = None
) -> list[Pick]:
    """Choose `count` jobs of past attempts to run on `hardware`, the most telling first.

    Parameters
    ----------
    rows
        Attempts of a window, in any order.
    model
        The structured model in production; without one, the families with most attempts are chosen.

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
    chosen, left = choose(*doubt(model, families, hardware), weight, min(count, len(families)))
    price = float(table.price[position])
    return [
        _pick(families.iloc[row], float(weight[row] / weight.sum()), share, price)
        for row, share in zip(chosen, left, strict=True)
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


def doubt(model: Structured | None, families: pd.DataFrame, hardware: str) -> tuple[Floats, float]:
    """(n, n) covariance of what a model does not know of ln throughput of jobs there, and the noise of one run.

    Without a structured model nothing is known of how one job tells of another: each stands for itself.
    """
    if model is None:
        return np.eye(len(families)), 0.0
    there = strings([hardware] * len(families))
    rows = rows_of(jobs(families), np.arange(len(families)), there)
    prior, points = model.prior, model.prior.encoding.points(rows)
    shared, covariance = prior.shared(points), np.zeros((len(families), len(families)))
    for name in np.unique(points.model):
        of_model = np.flatnonzero(points.model == name)
        here = points.take(of_model)
        unknown = prior.kernel(here, here)
        if name != UNSEEN:
            block = prior.blocks[name]
            local = prior.kernel(here, block.landmarks) @ block.whiten
            shared[of_model] -= local @ block.coupling
            unknown = unknown - local @ local.T + (local @ block.root) @ (local @ block.root).T
        covariance[np.ix_(of_model, of_model)] = unknown
    shared = shared @ prior.root
    _, own = model.process.at(rows, hashed(rows))
    return covariance + shared @ shared.T + np.diag(own), model.process.variances.noise


def choose(covariance: Floats, noise: float, weight: Floats, count: int) -> tuple[list[int], list[float]]:
    """Positions of `count` jobs, the most telling first, and the share of all doubt that is left after each.

    Doubt is the variance, weighed by attempts.

    Examples
    --------
    The second tells of the first and third; after it most is to be learned from the fourth.

    >>> covariance = np.array([[1.0, 0.9, 0.5, 0.0], [0.9, 1.0, 0.9, 0.0], [0.5, 0.9, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    >>> chosen, left = choose(covariance, 0.0, np.array([1.0, 1.0, 1.0, 1.0]), 2)
    >>> chosen, [round(share, 3) for share in left]
    ([1, 3], [0.345, 0.095])
    """
    left = covariance.copy()
    chosen: list[int] = []
    shares: list[float] = []
    everything = float(weight @ np.diag(left))
    for _ in range(count):
        gain = weight @ np.square(left) / np.maximum(np.diag(left) + noise, 1e-12)
        gain[chosen] = -1.0
        best = int(gain.argmax())
        chosen.append(best)
        left -= np.outer(left[:, best], left[best]) / max(left[best, best] + noise, 1e-12)
        shares.append(max(0.0, float(weight @ np.diag(left)) / everything))
    return chosen, shares


def _pick(row: "pd.Series[float]", attempts: float, left: float, price: float) -> Pick:
    hours = float(row["hours"])
    batch = float(row["batch_size"])
    return Pick(
        attempt_id=str(row["attempt_id"]),
        family=str(row["family"]),
        model_type=str(row["model_type"]),
        num_trainers=float(row["num_trainers"]),
        accelerators_per_trainer=float(row["accelerators_per_trainer"]),
        batch_size=None if np.isnan(batch) else batch,
        attempts=round(100 * attempts, 2),
        doubt_left=round(100 * left, 2),
        accelerator_hours=None if np.isnan(hours) else round(hours, 2),
        cost=None if np.isnan(hours * price) else round(hours * price, 2),
    )
