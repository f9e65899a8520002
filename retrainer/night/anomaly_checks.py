"""Anomaly checks on the training window: with an anomaly a run keeps its artifact but does not promote it."""

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.retrainer.dataset.partitions import day_of

#: Days that are looked at for missing ones, and how many of them may be missing beyond what is usual.
JUDGED_DAYS = 30
MAX_MISSING = 10
#: Share of a usual day's attempts below which a day is suspicious; on the simulated fleet the least is 0.86.
LEAST_SHARE = 0.25
#: Shift of the median of ln target, and share of attempts on other hardware or of other model types than
#: usual, above which a day is suspicious. On the simulated fleet at 3,333 attempts a day the greatest are 0.17
#: and 0.09, at 25,000 they are 0.07 and 0.06.
MOST_SHIFT = 1.0
MOST_MOVED = 0.5
#: Earlier days that it takes to tell what is usual, and attempts of a day to tell that it differs.
LEAST_DAYS = 3
LEAST_ATTEMPTS = 100
#: Missing days that a reason names.
NAMED = 5


def unusual_gaps(present: Sequence[date]) -> tuple[list[date], int]:
    """Days without attempts among the latest 30, up to the last that has some, and how many of them there may be.

    Usual is the share of the days before them. A fleet that has not yet 30 of those has nothing to go by: all may be
    missing.

    Examples
    --------
    >>> every, second = ([date.fromordinal(738_000 + n) for n in range(0, 90, step)] for step in (1, 2))
    >>> [(len(gaps), allowed) for gaps, allowed in (unusual_gaps(every), unusual_gaps(second))]
    [(0, 10), (15, 25)]
    >>> unusual_gaps([date(2026, 1, 1), date(2026, 1, 20)])[1]
    30
    """
    if not present:
        return [], 0
    known, first, judged = {*present}, present[0], present[-1] - timedelta(days=JUDGED_DAYS - 1)
    gaps = [day for n in range(JUDGED_DAYS) if (day := judged + timedelta(days=n)) > first and day not in known]
    before = (judged - first).days
    usual = 1.0 - sum(day < judged for day in present) / before if before >= JUDGED_DAYS else 1.0
    return gaps, min(JUDGED_DAYS, MAX_MISSING + round(JUDGED_DAYS * usual))


def window_anomalies(rows: pd.DataFrame, y: Floats, gaps: Sequence[date], max_missing: int) -> tuple[str, ...]:
    """Why a window should not move production; nothing if all is as usual.

    Parameters
    ----------
    rows
        Attempts with ``finished_at``, ``model_type`` and ``hardware_type``.
    y
        (n,) ln of the target, NaN where it was not measured.
    gaps
        Days without a partition after the first that has one; more than `max_missing` are an anomaly. The day that
        is judged is the latest that has attempts.
    """
    day = np.floor(rows["finished_at"].to_numpy(float) / SECONDS_PER_DAY).astype(int)
    usable = ~np.isnan(y)
    day, y, rows = day[usable], y[usable], rows[usable]
    anomalies = []
    if len(gaps) > max_missing:
        named = ", ".join(map(str, gaps[:NAMED])) + (", …" if len(gaps) > NAMED else "")
        anomalies.append(f"{len(gaps)} days are missing ({named}), more than {max_missing}")
    if not len(day):
        return tuple(anomalies)
    newest = day == day.max()
    earlier = pd.Series(y[~newest]).groupby(day[~newest])
    if earlier.ngroups >= LEAST_DAYS:
        last = day_of(int(day.max()))
        count, middle = float(earlier.size().median()), float(earlier.median().median())
        anomalies += _anomalies_of_newest(rows, y, newest, count, middle, last)
    return tuple(anomalies)


def _anomalies_of_newest(
    rows: pd.DataFrame, y: Floats, newest: NDArray[np.bool_], count: float, middle: float, last: date
) -> list[str]:
    """How the newest day differs from the days before it, which have `count` attempts around `middle`."""
    if newest.sum() < LEAST_SHARE * count:
        return [f"{last} has {newest.sum()} attempts with the target, where a day has {count:.0f}"]
    if newest.sum() < LEAST_ATTEMPTS:
        return []
    anomalies = []
    shift = float(np.median(y[newest])) - middle
    if abs(shift) > MOST_SHIFT:
        anomalies.append(f"the median of {last} is {np.exp(shift):.3g} times that of other days")
    for column in ("hardware_type", "model_type"):
        usual = rows[column][~newest].value_counts(normalize=True)
        moved = 0.5 * float(rows[column][newest].value_counts(normalize=True).sub(usual, fill_value=0.0).abs().sum())
        if moved > MOST_MOVED:
            anomalies.append(f"{moved:.0%} of the attempts of {last} have another {column} than is usual")
    return anomalies
