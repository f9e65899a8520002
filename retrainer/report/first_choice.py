"""How good the choice is where it can be checked: jobs that ran on several hardware types within the held-out days.

What counts is throughput per cost; accelerators are the same, so the price alone divides.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from leap.predictor.features.batch import Floats
from leap.retrainer.report.subject import Subject

#: What makes attempts the same job: their family, which is sure, or their model type, of which there are more.
SAME: dict[str, list[str]] = {
    "family and configuration": ["family", "configuration"],
    "model type and configuration": ["model_type", "configuration"],
}


@dataclass(frozen=True)
class Choices:
    """Means over jobs that ran on several hardware types.

    Attributes
    ----------
    jobs, types
        Their number, and how many types each ran on.
    tau
        Kendall's rank correlation of predicted and measured throughput per cost.
    regret
        What is lost against the best of the types by taking the one that is predicted best, in percent.
    at_random, cheapest
        The same by taking any of them, and by taking the one with the lowest price.
    """

    jobs: int
    types: float
    tau: float
    regret: float
    at_random: float
    cheapest: float


def choices(subject: Subject) -> Iterator[tuple[str, Choices]]:
    """By what makes a job the same; nothing where no job ran on several types."""
    rows = subject.rows[subject.rows["price"].notna()]
    for name, key in SAME.items():
        medians = rows.groupby([*key, "hardware_type"], dropna=False)[["measured", "predicted", "price"]].median()
        compared = [
            _of_job(group["measured"].to_numpy(), group["predicted"].to_numpy(), group["price"].to_numpy())
            for _, group in medians.groupby(key, dropna=False)
            if len(group) > 1
        ]
        if compared:
            means = {measure: float(np.mean([job[measure] for job in compared])) for measure in compared[0]}
            yield name, Choices(jobs=len(compared), **means)


def _of_job(measured: Floats, predicted: Floats, price: Floats) -> dict[str, float]:
    worth = measured / price
    lost = 100.0 * (1.0 - worth / worth.max())
    return {
        "types": len(worth),
        "tau": float(kendalltau(predicted / price, worth).statistic),
        "regret": lost[np.argmax(predicted / price)],
        "at_random": lost.mean(),
        "cheapest": lost[np.argmin(price)],
    }
