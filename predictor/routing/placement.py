"""Placement: from predicted throughput to an order of hardware types, with a reason for each left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import architecture
from leap.predictor.features.batch import Floats, HardwareTable, Indices, JobBatch
from leap.schemas.events import Objective
from leap.schemas.hardware import SPECIFICATIONS

Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]

_MEMORY_GB = SPECIFICATIONS.index("memory_gb")
_PARAMETERS, _EMBEDDING_SHARE = map(architecture.NAMES.index, ("parameters", "embedding_parameter_share"))

#: Why a pair is excluded; of several reasons the last holds. The first means that it is not.
REASONS: tuple[str | None, ...] = (
    None,
    "would finish after the deadline",
    "no prediction",
    "memory cannot hold the job",
    "no price in the catalog",
    "no specification in the catalog",
    "premium, and not efficient beside the best standard type",
)
RANKED, TOO_LATE, NO_PREDICTION, NO_MEMORY, NO_PRICE, NO_SPECIFICATION, NOT_EFFICIENT = range(len(REASONS))

#: What hardware that costs nothing is scored at, USD per accelerator-hour: so far below every price that may be stated
#: that it goes before all that has one, and by throughput among its own.
FREE_PRICE = 1e-12
#: Least bytes that training keeps per trainable value: weights and gradients. What an optimizer adds varies
#: too much to exclude hardware by it.
_BYTES_PER_PARAMETER = {"fp32": 8.0, "tf32": 8.0, "fp64": 16.0}
_BYTES_PER_PARAMETER_16_BIT = 4.0


@dataclass(frozen=True)
class Placement:
    """Decision for the pairs of one batch, all arrays (rows,).

    Attributes
    ----------
    cost_per_hour
        USD per hour of the whole attempt on that hardware type; NaN without a price.
    per_cost
        Predicted throughput / cost_per_hour; infinite where that is 0.
    score
        What a job's candidates are sorted by, descending.
    reason
        Position in `REASONS`.
    """

    cost_per_hour: Floats
    per_cost: Floats
    score: Floats
    reason: Codes


@dataclass(frozen=True)
class Goal:
    """What one job wants: its objective, for a deadline the samples and the seconds that it has, and its own choice."""

    objective: Objective = "throughput_per_cost"
    samples: float = np.nan
    seconds: float = np.nan
    pinned: str | None = None


def place(
    jobs: JobBatch,
    table: HardwareTable,
    job: Indices,
    hardware: Indices,
    throughput: Floats,
    goals: list[Goal],
    premium_efficiency: float = 1.0,
    memory_gb: Floats | None = None,
) -> Placement:
    """Score and exclude.

    score = predicted throughput / (num_trainers x accelerators per trainer x price per accelerator-hour), a price of 0
    taken as `FREE_PRICE`; of who asks for the fastest the throughput, whatever the price.

    Parameters
    ----------
    job, hardware
        (rows,) positions in `jobs` and `table`.
    throughput
        (rows,) predicted samples/s.
    goals
        One a job.
    premium_efficiency
        A premium type stays if its score reaches this share of the best standard type's. One that the user
        pinned stays in any case: what it costs is the user's affair.
    memory_gb
        (rows,) of one accelerator; that of `table` by default.
    """
    price, objectives = table.price.take(hardware), {goal.objective for goal in goals}
    accelerators = jobs.accelerators.take(job)
    cost, without_price = accelerators * price, np.isnan(price)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_cost = throughput / cost
        score = throughput / (accelerators * np.maximum(price, FREE_PRICE))
    if "fastest" in objectives:
        fastest = np.array([goal.objective == "fastest" for goal in goals])[job]
        score, without_price = np.where(fastest, throughput, score), without_price & ~fastest
    reason = _hard_reasons(jobs, table, job, hardware, throughput, goals, memory_gb)
    reason[without_price & (reason != NO_SPECIFICATION)] = NO_PRICE
    premium = table.premium.take(hardware)
    if premium.any():
        best = _best_standard(reason, job, score, premium)
        low = (score < premium_efficiency * best) & premium & (reason == RANKED)
        if any(goal.pinned for goal in goals):
            low &= table.index([goal.pinned or "" for goal in goals])[job] != hardware
        reason[low] = NOT_EFFICIENT
    return Placement(cost, per_cost, score, reason)


def order(hardware_types: Sequence[str], score: Sequence[float] | Floats) -> list[int]:
    """Positions by score, descending; ties by name."""
    return sorted(range(len(hardware_types)), key=lambda row: (-score[row], hardware_types[row]))


def _too_small(jobs: JobBatch, job: Indices, memory_gb: Floats) -> Flags:
    """Whether weights and gradients, spread as thin as they can be, exceed the memory of all accelerators.

    Of embedding tables weights alone, half the bytes: their gradients are sparse, or fused into the update.
    """
    parameters, tables = jobs.architecture[:, _PARAMETERS], jobs.architecture[:, _EMBEDDING_SHARE]
    per_parameter = np.array(
        [_BYTES_PER_PARAMETER.get(str(name).lower(), _BYTES_PER_PARAMETER_16_BIT) for name in jobs.names[:, 0]]
    )
    with np.errstate(invalid="ignore"):
        needed = parameters * (1 - np.where(np.isnan(tables), 0.0, tables) / 2) * per_parameter / jobs.accelerators
        too_small: Flags = needed[job] > memory_gb * 1e9
    return too_small


def _too_late(throughput: Floats, job: Indices, goals: list[Goal]) -> Flags:
    """Whether a job with a deadline would miss it. For given samples the cheapest has the best score."""
    asked = np.array([goal.objective == "cheapest_by_deadline" for goal in goals])[job]
    samples, seconds = np.array([(goal.samples, goal.seconds) for goal in goals])[job].T
    with np.errstate(invalid="ignore", divide="ignore"):
        late: Flags = asked & ~(samples / throughput <= seconds)
    return late


def _hard_reasons(
    jobs: JobBatch,
    table: HardwareTable,
    job: Indices,
    hardware: Indices,
    throughput: Floats,
    goals: list[Goal],
    memory_gb: Floats | None,
) -> Codes:
    """(rows,) why a row cannot be ranked whatever it costs; later reasons take precedence."""
    reason: Codes = np.zeros(len(job), dtype=np.int8)
    if any(goal.objective == "cheapest_by_deadline" for goal in goals):
        reason[_too_late(throughput, job, goals)] = TOO_LATE
    reason[~np.isfinite(throughput)] = NO_PREDICTION
    if not np.isnan(jobs.architecture[:, _PARAMETERS]).all():
        own = table.specifications[hardware, _MEMORY_GB] if memory_gb is None else memory_gb
        reason[_too_small(jobs, job, own)] = NO_MEMORY
    reason[hardware == table.unlisted] = NO_SPECIFICATION
    return reason


def _best_standard(reason: Codes, job: Indices, score: Floats, premium: Flags) -> Floats:
    """(rows,) best score of the job's eligible standard types; 0 where it has none, and premium types all stay."""
    best = np.zeros(job.max() + 1)
    standard = (reason == RANKED) & ~premium
    np.maximum.at(best, job[standard], score[standard])
    return best.take(job)
