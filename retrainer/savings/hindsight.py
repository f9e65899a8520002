"""What first choices would have saved on jobs that ran on several hardware types: measured there, nothing assumed.

A job is a family with a configuration. All its attempts are put on the type with the greatest predicted throughput per
cost of those that it ran on, at the median throughput that it reached there, beside what they really cost.
"""

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.features.batch import Floats

JOB = ["family", "configuration"]
RESAMPLES = 1000


class Hindsight(msgspec.Struct, frozen=True, kw_only=True):
    """The saving that first choices would have brought.

    Attributes
    ----------
    families, attempts
        Those that ran on several hardware types.
    spent, would
        USD that they cost, and would have cost.
    hours, would_hours
        The same in accelerator-hours.
    share
        1 - would / spent, in percent.
    low, high
        Its 95% bootstrap interval over families.
    """

    families: int
    attempts: int
    spent: float
    would: float
    hours: float
    would_hours: float
    share: float
    low: float
    high: float

    @property
    def families_needed(self) -> int | None:
        """Families of this kind in all for an interval that leaves 0 out; None where the share itself is 0 or less.

        The width of the interval falls with the root of their number.
        """
        if self.low > 0 or self.share <= 0:
            return None
        return int(np.ceil(self.families * (max(self.share - self.low, self.high - self.share) / self.share) ** 2))


def hindsight(rows: pd.DataFrame, seed: int = 0) -> Hindsight | None:
    """Work it out; None where no job ran on several hardware types whose price is known.

    Parameters
    ----------
    rows
        Attempts with the columns `JOB`, hardware_type, price (USD per accelerator-hour), accelerator_hours, measured
        and predicted (samples/s); the predictions must not have seen the measurements.
    """
    rows = rows[(rows[["price", "accelerator_hours", "measured", "predicted"]] > 0).all(axis=1)]
    cells = rows.groupby([*JOB, "hardware_type"], as_index=False)[["measured", "predicted", "price"]].median()
    cells = cells[cells.groupby(JOB)["hardware_type"].transform("size") > 1]
    if cells.empty:
        return None
    best = cells.assign(worth=cells["predicted"] / cells["price"]).sort_values("worth", kind="stable")
    best = best.groupby(JOB, as_index=False).tail(1)[[*JOB, "measured", "price"]]
    done = rows.merge(best, on=JOB, suffixes=("", "_first"))
    hours = done["accelerator_hours"] * done["measured"] / done["measured_first"]
    done = done.assign(
        spent=done["accelerator_hours"] * done["price"], would=hours * done["price_first"], would_hours=hours
    )
    sums = done.groupby("family")[["spent", "would", "accelerator_hours", "would_hours"]].sum().to_numpy(float)
    spent, would, before, after = sums.sum(axis=0)
    low, high = _interval(sums[:, :2], np.random.default_rng(seed))
    return Hindsight(
        families=len(sums),
        attempts=len(done),
        spent=round(float(spent), 2),
        would=round(float(would), 2),
        hours=round(float(before), 2),
        would_hours=round(float(after), 2),
        share=round(100 * (1 - float(would / spent)), 2),
        low=round(low, 2),
        high=round(high, 2),
    )


def _interval(sums: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Of (families, 2) USD spent and instead; a single family tells nothing of others."""
    if len(sums) < 2:
        return -np.inf, np.inf
    times = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=RESAMPLES)
    spent, would = (times @ sums).T
    low, high = np.percentile(100 * (1 - would / spent), [2.5, 97.5])
    return float(low), float(high)
