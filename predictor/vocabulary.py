"""Names as numbers: the codes that trees split on, learned from one window and kept in the artifact.

A name's code is its rank by mean ln throughput, so that one split separates fast from slow names however
many there are (histogram trees refuse more than 255 categories). A name that was not in the window is
flagged: it is never silently the same as a missing one.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from predictor.jobs import NAMES, Floats, HardwareTable, Indices, Jobs, Names, strings

#: Fields that are coded; the first two also say what the model has never seen.
MODEL_TYPE, HARDWARE_TYPE, VENDOR = "model_type", "hardware_type", "vendor"
FIELDS: tuple[str, ...] = (MODEL_TYPE, HARDWARE_TYPE, VENDOR, *NAMES)
MAX_EXTRA = 16

Codes = dict[str, int]


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Codes of the names of one training window; equal to itself alone, so that what follows from it is kept.

    Attributes
    ----------
    codes
        Field to (name to code); codes run from 0.
    extra_numbers, extra_names
        The launcher's free fields that at least 1% of the window has, most frequent first.
    """

    codes: dict[str, Codes] = {}
    extra_numbers: Annotated[tuple[str, ...], Meta(max_length=MAX_EXTRA)] = ()
    extra_names: Annotated[tuple[str, ...], Meta(max_length=MAX_EXTRA)] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that `encode` returns."""
        coded = (*FIELDS, *(f"extra_{name}" for name in self.extra_names))
        return (
            *(f"{field}_code" for field in coded),
            *(f"{field}_unseen" for field in coded),
            *(f"extra_{name}" for name in self.extra_numbers),
        )

    def encode(self, jobs: Jobs, table: HardwareTable, job: Indices, hardware: Indices) -> Floats:
        """(rows, len(features)) codes, flags and free numbers for pairs of a job and a hardware type."""
        columns = dict(_columns(jobs, self.extra_names))
        encoded = [self.encode_field(field, values)[job] for field, values in columns.items()]
        encoded[1:1] = [codes[hardware] for codes in _of_hardware(self, table)]
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
        result[:, 1] = [value is not None and value not in codes for value in values]
        return result


@lru_cache(maxsize=4)
def _of_hardware(vocabulary: Vocabulary, table: HardwareTable) -> tuple[Floats, Floats]:
    """What `encode_field` gives for every hardware type and its vendor: the same for every job."""
    return vocabulary.encode_field(HARDWARE_TYPE, table.names), vocabulary.encode_field(VENDOR, table.vendor)


def learn(jobs: Jobs, table: HardwareTable, hardware: Indices, y: Floats) -> Vocabulary:
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
    extra_numbers = tuple(name for name, kind in frequent if kind is float)[:MAX_EXTRA]
    extra_names = tuple(name for name, kind in frequent if kind is str)[:MAX_EXTRA]
    columns = [*_columns(jobs, extra_names), (HARDWARE_TYPE, table.names[hardware]), (VENDOR, table.vendor[hardware])]
    return Vocabulary(
        codes={field: _rank(values, y) for field, values in columns},
        extra_numbers=extra_numbers,
        extra_names=extra_names,
    )


def _columns(jobs: Jobs, extra_names: tuple[str, ...]) -> Iterable[tuple[str, Names]]:
    yield MODEL_TYPE, jobs.model_type
    for column, name in enumerate(NAMES):
        yield name, jobs.names[:, column]
    for name in extra_names:
        values = [extra.get(name) for extra in jobs.extra]
        yield f"extra_{name}", strings([value if isinstance(value, str) else None for value in values])


def _rank(values: Names, y: Floats) -> Codes:
    """Name to its rank by mean of y, ties by name."""
    sums: dict[str, list[float]] = {}
    for value, target in zip(values, y, strict=True):
        if value is not None:
            total = sums.setdefault(value, [0.0, 0.0])
            total[0] += target
            total[1] += 1.0
    ranked = sorted(sums, key=lambda name: (sums[name][0] / sums[name][1], name))
    return {name: code for code, name in enumerate(ranked)}


def _number(value: float | str | None) -> float:
    return np.nan if value is None or isinstance(value, str) else value
