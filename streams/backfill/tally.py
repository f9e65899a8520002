"""What a table of past jobs holds, told in a few lines: what is wrong with it shows before anything is learned.

Counted row by row: 40 bytes an attempt stay in memory, and as many names as the limits say.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import date
from typing import TypeVar

import numpy as np

from leap.predictor.features.job_family import family_of
from leap.schemas.events import THROUGHPUT
from leap.schemas.hardware import Catalog
from leap.streams.backfill.row_events import Job
from leap.streams.backfill.row_mapper import BadRow

#: Distinct texts of one kind that are counted; what comes later is counted together under `REST`.
MAX_NAMES = 10_000
REST = "(others)"
#: Causes, model types and other names that are told, and rows of each cause.
TOLD, ROWS = 10, 3
#: Attempts a family below which nothing repeats, where there are so many attempts.
REPEATS, MANY = 1.1, 20


T = TypeVar("T")


class Tally:
    """Counts over a table.

    Parameters
    ----------
    statuses
        Word of the table and status that it was taken for to the number of rows, by whoever reads them.

    Attributes
    ----------
    rows, left_out
        Rows, and those that the conditions of the mapping exclude.
    """

    def __init__(self, statuses: "Counter[tuple[str, str]]") -> None:
        self.rows = self.left_out = 0
        self._statuses = statuses
        self._causes: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], list[BadRow]] = {}
        self._hardware: Counter[str] = Counter()
        self._undescribed: Counter[str] = Counter()
        self._types: dict[str, int] = {}
        self._type, self._throughput = array("H"), array("f")
        self._ids, self._names, self._families = array("q"), array("q"), array("q")
        self._learnable = array("b")
        self._first_day, self._last_day = date.max, date.min

    @property
    def attempts(self) -> int:
        """Attempts; one that has several rows is one."""
        return _distinct(self._ids)

    @property
    def learnable(self) -> int:
        """Attempts whose last row succeeded and has a measurement above 0: what is learned from."""
        _, last = np.unique(np.array(self._ids)[::-1], return_index=True)
        return int(np.array(self._learnable)[::-1][last].sum())

    @property
    def bad(self) -> int:
        """Rows that are not, though no condition excludes them."""
        return self._causes.total()

    def add_bad(self, row: BadRow) -> None:
        """Count a bad row under its cause."""
        cause = _within(self._causes, (row.field, row.problem), (REST, ""))
        self._causes[cause] += 1
        if self._causes[cause] <= ROWS:
            self._first.setdefault(cause, []).append(row)

    def add(self, job: Job) -> None:
        """Count an attempt, whose hardware type has its name in the catalog."""
        submitted, allocated, completed = job
        self._ids.append(hash(submitted.attempt_id))
        self._names.append(hash(submitted.job_name))
        self._families.append(hash(family_of(submitted)))
        self._hardware[_within(self._hardware, allocated.hardware_type, REST)] += 1
        model_type = _within(self._types, submitted.model_type, REST)
        self._type.append(self._types.setdefault(model_type, len(self._types)))
        learnable = any(completed.measured(target) is not None for target in completed.measurements)
        self._learnable.append(learnable)
        self._throughput.append(learnable * completed.measurements.get(THROUGHPUT, 0.0) / allocated.accelerators)
        if submitted.model is None:
            self._undescribed[model_type] += 1
        day = completed.finished_at.date()
        self._first_day, self._last_day = min(self._first_day, day), max(self._last_day, day)

    def refusals(self, catalog: Catalog) -> Iterator[str]:
        """Why nothing should be made of the table without a second look."""
        if 2 * self.bad > self.rows - self.left_out:
            yield f"{self.bad:,} of {self.rows - self.left_out:,} rows are bad"
        if self.attempts == 0:
            yield f"none of its {self.rows:,} rows is an attempt"
        if 2 * self.learnable < self.attempts:
            yield (
                f"only {self.learnable:,} of {self.attempts:,} attempts can be learned from: they succeeded and have a "
                "measurement above 0"
            )
        unlisted = sum(count for name, count in self._hardware.items() if not catalog.specification(name))
        if 2 * unlisted > len(self._ids):
            yield f"{unlisted:,} of {len(self._ids):,} attempts ran on hardware types that the catalog lacks"

    def lines(self, catalog: Catalog) -> Iterator[str]:
        """What the table holds, and what may be wrong with it."""
        yield (
            f"{self.rows:,} rows: {self.attempts:,} attempts, {self.learnable:,} to learn from; {self.bad:,} bad, "
            f"{self.left_out:,} left out by `keep`"
        )
        for (name, problem), count in self._causes.most_common(TOLD):
            rows = ", ".join(_shown(row) for row in self._first[name, problem])
            yield f"bad, {count:,}: {name}: {problem}: row {rows}{', …' * (count > ROWS)}"
        if not self.attempts:
            return
        yield f"finished from {self._first_day} to {self._last_day}"
        words = (f"{word} {count:,} ({taken})" for (word, taken), count in self._statuses.most_common(TOLD))
        yield f"statuses, and how each was taken: {', '.join(words)}{_more(self._statuses)}"
        yield from self._throughputs()
        yield from self._repetitions()
        yield from self._hardware_types(catalog)
        if described := len(self._ids) - self._undescribed.total():
            names = ", ".join(f"{name} ({count:,})" for name, count in self._undescribed.most_common(TOLD))
            yield f"definitions of models: of {described:,} rows" + (
                f"; without: {names}{_more(self._undescribed)}" if names else ""
            )

    def _throughputs(self) -> Iterator[str]:
        """By model type, widest range first: where a unit is off, it is one that no hardware has."""
        throughput, of_type = np.array(self._throughput), np.array(self._type)
        names, positive = list(self._types), throughput > 0
        if not positive.any():
            return
        order = np.lexsort((throughput, of_type))
        order = order[positive[order]]
        found, first = np.unique(of_type[order], return_index=True)
        ranges = [
            (names[code], len(values), values[0], values[len(values) // 2], values[-1])
            for code, values in zip(found, np.split(throughput[order], first[1:]), strict=True)
        ]
        ranges.sort(key=lambda each: -each[4] / each[2])
        yield f"samples/s per accelerator, least, median and greatest (attempts), of {len(ranges):,} model types:"
        for name, count, least, median, greatest in ranges[:TOLD]:
            yield f"  {name}: {least:,.4g}, {median:,.4g}, {greatest:,.4g} ({count:,})"
        if len(ranges) > TOLD:
            yield f"  and {len(ranges) - TOLD:,} of a narrower range"

    def _repetitions(self) -> Iterator[str]:
        names, families = _distinct(self._names), _distinct(self._families)
        yield f"{names:,} job names in {families:,} families" + (
            ": nothing repeats, so history tells nothing; say what a family is with `family` or `family_patterns`"
            if self.attempts >= MANY and self.attempts < REPEATS * families
            else ""
        )
        if repeated := len(self._ids) - self.attempts:
            yield f"{repeated:,} rows repeat the id of an attempt: the last row of each counts"

    def _hardware_types(self, catalog: Catalog) -> Iterator[str]:
        listed = {name: catalog.specification(name) for name in self._hardware}
        unlisted = [name for name, _ in self._hardware.most_common() if listed[name] is None]
        for name in unlisted[:TOLD]:
            yield f"never ranked: hardware type {name} ({self._hardware[name]:,} rows): {catalog.why_unlisted(name)}"
        if len(unlisted) > TOLD:
            yield f"  and {len(unlisted) - TOLD:,} more types that the catalog lacks; see LEAP_CATALOG"
        unpriced = [name for name, entry in listed.items() if entry is not None and entry.price_per_hour is None]
        if unpriced:
            yield f"without a price: {', '.join(unpriced[:TOLD])}{_more(unpriced)}"


def _distinct(hashes: "array[int]") -> int:
    return len(np.unique(np.array(hashes)))


def _within(counted: dict[T, int], name: T, rest: T) -> T:
    """The name, or the one of the rest where as many others are counted as may be."""
    return name if name in counted or len(counted) < MAX_NAMES else rest


def _more(names: Collection[object]) -> str:
    count = len(names) - TOLD
    return f" and {count:,} more" if count > 0 else ""


def _shown(row: BadRow) -> str:
    return f"{row.row} ({row.value!r})" if row.value else f"{row.row}"
