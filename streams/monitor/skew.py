"""Whether the history that launches are served is what has finished: the live side of the night's comparison.

A list carries the latest throughput of its family as the artifact in production knew it. The topic tells what it was.
An artifact is a night old, so only what had finished `SETTLED_S` before the list has to be in it.
"""

import math
from collections.abc import Iterable

import numpy as np

from leap.predictor.features.job_family import family
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted, PreferenceList

#: A day between nights, and half of one for a night that runs late.
SETTLED_S = 1.5 * 86_400.0
#: Difference of ln throughput that is one; what is served is float32.
TOLERANCE = 1e-4
#: Attempts kept: a week of the published fleet.
MOST = 200_000

Served = tuple[str, float, float]  # family, decided at, ln throughput that was served as its latest; NaN is none


def served(listed: PreferenceList, decided_at: float) -> Served | None:
    """What a list says of the history of its family; None where it was made without."""
    last, cold = (listed.served_history.get(f"family_{name}", ())[:1] for name in ("last", "cold"))
    if not listed.family or not last or not cold:
        return None
    return listed.family, decided_at, math.nan if cold[0] or last[0] is None else last[0]


class Finished:
    """What families have reached lately."""

    def __init__(self) -> None:
        self._families: dict[str, dict[str, tuple[float, float]]] = {}
        self._count = 0

    def add(self, completed: JobCompleted, finished_at: float) -> None:
        """Take a completion; of two of one attempt the later counts."""
        measured = completed.measurements.get(THROUGHPUT, 0.0) if completed.status == SUCCEEDED else 0.0
        if measured > 0:
            attempts = self._families.setdefault(family(completed.job_name), {})
            known = attempts.get(completed.attempt_id)
            if known is None or known[0] <= finished_at:
                attempts[completed.attempt_id] = (finished_at, math.log(measured))
            self._count += known is None
        while self._count > MOST:
            self._count -= len(self._families.pop(next(iter(self._families))))

    def forget(self, before: float) -> None:
        """Drop what finished before a time."""
        for name, attempts in list(self._families.items()):
            remaining = {attempt: outcome for attempt, outcome in attempts.items() if outcome[0] >= before}
            self._count -= len(attempts) - len(remaining)
            if remaining:
                self._families[name] = remaining
            else:
                del self._families[name]

    def skew(self, lists: Iterable[Served]) -> tuple[int, int]:
        """How many lists can be compared, and how many of those were served something that is not so."""
        compared = wrong = 0
        by_family: dict[str, list[tuple[float, float]]] = {}
        for name, decided_at, last in lists:
            by_family.setdefault(name, []).append((decided_at, last))
        for name, launches in by_family.items():  # sorted once: a sweep is one family of thousands
            finished, reached = np.array(sorted(self._families.get(name, {}).values())).reshape(-1, 2).T
            for decided_at, last in launches:
                settled = finished.searchsorted(decided_at - SETTLED_S, "right")
                if settled:
                    compared += 1
                    first = finished.searchsorted(finished[settled - 1])
                    known = reached[first : finished.searchsorted(decided_at, "right")]
                    wrong += not np.any(np.abs(known - last) <= TOLERANCE)
        return compared, wrong
