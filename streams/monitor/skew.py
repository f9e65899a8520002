"""Live skew: whether preference lists are served an up-to-date history.

A list carries the latest throughput of its family according to the production artifact; the completions tell what it
really was. Artifacts are trained nightly, so only attempts finished `SETTLED_S` before the list have to be included.
"""

import math
from collections.abc import Iterable

import numpy as np

from leap.predictor.features.job_family import family_of
from leap.schemas.events import JobCompleted, PreferenceList

#: A day between training runs, plus half a day for a late one.
SETTLED_S = 1.5 * 86_400.0
#: Tolerance in ln throughput; the served values are float32.
TOLERANCE = 1e-4
#: Maximum number of attempts: a week of the published fleet.
MAX_ATTEMPTS = 200_000

#: Family, decided at, latest ln throughput served (NaN: none), and the accelerators that it is for (NaN: not stated).
Served = tuple[str, float, float, float]


def served(listed: PreferenceList, decided_at: float) -> Served | None:
    """History of its family that a list was served; None if it was ranked without."""
    last, cold = (listed.served_history.get(f"family_{name}", ())[:1] for name in ("last", "cold"))
    if not listed.family or not last or not cold:
        return None
    return (
        listed.family,
        decided_at,
        math.nan if cold[0] or last[0] is None else last[0],
        listed.accelerators or math.nan,
    )


class Finished:
    """Throughput of recently finished attempts, by family."""

    def __init__(self) -> None:
        self._families: dict[str, dict[str, tuple[float, float, float]]] = {}
        self._count = 0

    def add(self, completed: JobCompleted, finished_at: float) -> None:
        """Add a completion; the later of duplicates wins."""
        measured = completed.measured()
        if measured is not None:
            attempts = self._families.setdefault(family_of(completed), {})
            known = attempts.get(completed.attempt_id)
            if known is None or known[0] <= finished_at:
                accelerators = completed.shape.accelerators if completed.shape else math.nan
                attempts[completed.attempt_id] = (finished_at, math.log(measured), accelerators)
            self._count += known is None
        while self._count > MAX_ATTEMPTS:
            self._count -= len(self._families.pop(next(iter(self._families))))

    def forget(self, before: float) -> None:
        """Drop attempts that finished before a time."""
        for name, attempts in list(self._families.items()):
            remaining = {attempt: outcome for attempt, outcome in attempts.items() if outcome[0] >= before}
            self._count -= len(attempts) - len(remaining)
            if remaining:
                self._families[name] = remaining
            else:
                del self._families[name]

    def skew(self, lists: Iterable[Served]) -> tuple[int, int]:
        """Number of lists that can be compared, and number of those with a stale history."""
        compared = wrong = 0
        by_family: dict[str, list[tuple[float, float, float]]] = {}
        for name, *launch in lists:
            by_family.setdefault(name, []).append((launch[0], launch[1], launch[2]))
        for name, launches in by_family.items():  # sorted once per family: a sweep has thousands of lists
            finished, reached, ran_on = np.array(sorted(self._families.get(name, {}).values())).reshape(-1, 3).T
            for decided_at, last, asked in launches:
                settled = finished.searchsorted(decided_at - SETTLED_S, "right")
                if settled:
                    compared += 1
                    first = finished.searchsorted(finished[settled - 1])
                    known = slice(first, finished.searchsorted(decided_at, "right"))
                    scale = np.nan_to_num(np.log(asked / ran_on[known]))  # as the history per accelerator is served
                    wrong += not np.any(np.abs(reached[known] + scale - last) <= TOLERANCE)
        return compared, wrong
