"""Names as numbers: the codes that trees split on, learned from one window and kept in the artifact.

A name's code is its rank by mean ln throughput, so that one split separates fast from slow names however
many there are (histogram trees refuse more than 255 categories). A name that was not in the window is
flagged: it is never silently the same as a missing one. Of the launcher's own strings a rare one is as good
as unseen: ranked by the few rows that have it, it would tell the trees what those rows reached.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from leap.predictor.features.batch import NAMES, Floats, HardwareTable, Indices, JobBatch, Names, strings

#: Fields that are coded.
MODEL_TYPE, HARDWARE_TYPE, VENDOR = "model_type", "hardware_type", "vendor"
FIELDS: tuple[str, ...] = (MODEL_TYPE, HARDWARE_TYPE, VENDOR, *NAMES)
MAX_EXTRA = 16
#: Codes of one field; the names that most rows have.
MAX_CODES = 1024
#: Rows that a string of the launcher needs for a code, as a leaf of the trees does; in a small window 5% of its rows.
MIN_ROWS, MIN_SHARE = 20, 0.05

Codes = dict[str, int]


class TargetEncoder(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Codes of the names of one training window; compares by identity (eq=False), so it can key an lru_cache.

    Attributes
    ----------
    codes
        Field to (name to code); codes run from 0.
    extra_numbers, extra_names
        The launcher's free fields that at least 1% of the window has, most frequent first; of strings those
        whose codes cover half of the rows that state one, so that no run id is among them.
    """

    codes: dict[str, Codes] = {}
    extra_numbers: Annotated[tuple[str, ...], Meta(max_length=MAX_EXTRA)] = ()
    extra_names: Annotated[tuple[str, ...], Meta(max_length=MAX_EXTRA)] = ()

    @property
    def coded(self) -> tuple[str, ...]:
        """Fields of names, in the order of their columns."""
        return (*FIELDS, *(f"extra_{name}" for name in self.extra_names))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that `encode` returns."""
        return (
            *(f"{field}_code" for field in self.coded),
            *(f"{field}_unseen" for field in self.coded),
            *(f"extra_{name}" for name in self.extra_numbers),
        )

    def encode(self, jobs: JobBatch, table: HardwareTable, job: Indices, hardware: Indices) -> Floats:
        """(rows, len(features)) codes, flags and free numbers for pairs of a job and a hardware type."""
        columns = dict(_columns(jobs, self.extra_names))
        encoded = [self.encode_field(field, values)[job] for field, values in columns.items()]
        encoded[1:1] = [codes[hardware] for codes in of_hardware(self, table)]
        codes_and_flags = np.stack(encoded, axis=2)
        numbers = np.full((len(jobs), len(self.extra_numbers)), np.nan)
        for column, name in enumerate(self.extra_numbers):
            numbers[:, column] = [_number(extra.get(name)) for extra in jobs.extra]
        return np.hstack((codes_and_flags[:, 0], codes_and_flags[:, 1], numbers[job]))

    def encode_field(self, field: str, values: Names) -> Floats:
        """(n, 2): code (NaN: missing or unseen) and whether it is unseen."""
        codes = self.codes.get(field, {})
        result = np.zeros((len(values), 2))
        result[:, 0] = [codes.get(value, np.nan) for value in values]
        result[:, 1] = _unseen(values, codes)
        return result

    def unseen(self, jobs: JobBatch) -> dict[str, list[bool]]:
        """Field to whether each job's name is unseen, of the fields that are the job's own."""
        columns = _columns(jobs, self.extra_names)
        return {field: _unseen(values, self.codes.get(field, {})) for field, values in columns}


@lru_cache(maxsize=4)
def of_hardware(vocabulary: TargetEncoder, table: HardwareTable) -> tuple[Floats, Floats]:
    """What `encode_field` gives for every hardware type and its vendor: the same for every job."""
    return vocabulary.encode_field(HARDWARE_TYPE, table.names), vocabulary.encode_field(VENDOR, table.vendor)


def fit(jobs: JobBatch, table: HardwareTable, hardware: Indices, y: Floats) -> TargetEncoder:
    """The vocabulary of a training window, one row an attempt.

    Parameters
    ----------
    hardware
        (n,) position in `table` of the type that each job ran on.
    y
        (n,) ln throughput.
    """
    counts: Counter[tuple[str, type]] = Counter()
    for extra in jobs.extra:
        counts.update((name, str if isinstance(value, str) else float) for name, value in extra.items())
    frequent = [key for key, count in counts.most_common() if count >= max(1, len(jobs) // 100)]
    types = ((MODEL_TYPE, jobs.model_type), (HARDWARE_TYPE, table.names[hardware]), (VENDOR, table.vendor[hardware]))
    codes = {field: _rank(values, y, 1) for field, values in types}
    least = max(2, min(MIN_ROWS, int(MIN_SHARE * len(jobs))))
    codes |= {name: _rank(jobs.names[:, column], y, least) for column, name in enumerate(NAMES)}
    extra_names: list[str] = []
    # Each is a pass over the window: of many that are all run ids not every one is looked at.
    for name in [name for name, kind in frequent if kind is str][: 4 * MAX_EXTRA]:
        if len(extra_names) == MAX_EXTRA:
            break
        values = _free(jobs, name)
        ranks = _rank(values, y, least)
        if 2 * sum(value in ranks for value in values) >= counts[name, str]:
            codes[f"extra_{name}"] = ranks
            extra_names.append(name)
    return TargetEncoder(
        codes=codes,
        extra_numbers=tuple(name for name, kind in frequent if kind is float)[:MAX_EXTRA],
        extra_names=tuple(extra_names),
    )


def _unseen(values: Names, codes: Codes) -> list[bool]:
    return [value is not None and value not in codes for value in values]


def _columns(jobs: JobBatch, extra_names: tuple[str, ...]) -> Iterable[tuple[str, Names]]:
    yield MODEL_TYPE, jobs.model_type
    for column, name in enumerate(NAMES):
        yield name, jobs.names[:, column]
    for name in extra_names:
        yield f"extra_{name}", _free(jobs, name)


def _free(jobs: JobBatch, name: str) -> Names:
    values = [extra.get(name) for extra in jobs.extra]
    return strings([value if isinstance(value, str) else None for value in values])


def _rank(values: Names, y: Floats, least: int) -> Codes:
    """Name to its rank by mean of y, ties by name; of the most frequent names, those that `least` rows have."""
    counts = Counter(value for value in values if value is not None)
    sums = {name: 0.0 for name, count in counts.most_common(MAX_CODES) if count >= least}
    for value, target in zip(values, y, strict=True):
        if value in sums:
            sums[value] += target
    ranked = sorted(sums, key=lambda name: (sums[name] / counts[name], name))
    return {name: code for code, name in enumerate(ranked)}


def _number(value: float | str | None) -> float:
    return np.nan if value is None or isinstance(value, str) else value
