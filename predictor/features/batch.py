"""Jobs and hardware as columns: the one input of every feature, at launch and at night."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import architecture
from leap.predictor.features.job_family import family_of
from leap.schemas.events import JobSubmitted
from leap.schemas.hardware import SPECIFICATIONS, Catalog

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Names = NDArray[np.object_]
Rows = Mapping[str, NDArray[Any]]

#: Numbers of a launch configuration, in the order of `JobBatch.numbers`.
NUMBERS: tuple[str, ...] = (
    "num_trainers",
    "accelerators_per_trainer",
    "batch_size",
    "data_readers",
    "sequence_length",
    "gradient_accumulation",
    "activation_checkpointing",
    "data_parallel",
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
)
_COLUMN = {name: column for column, name in enumerate(NUMBERS)}
#: Names of a launch configuration, in the order of `JobBatch.names`.
NAMES: tuple[str, ...] = ("precision", "optimizer", "sharding")
_numbers_of, _names_of = attrgetter(*NUMBERS), attrgetter(*NAMES)


def take(rows: Rows, chosen: Indices | NDArray[np.bool_]) -> Rows:
    """The rows at these positions, or of this mask."""
    return {name: column[chosen] for name, column in rows.items()}


@dataclass(frozen=True)
class JobBatch:
    """Submissions as columns.

    Attributes
    ----------
    model_type, family
        (n,) strings.
    submitted_at
        (n,) seconds since the epoch, UTC.
    numbers
        (n, len(NUMBERS)); NaN is missing.
    names
        (n, len(NAMES)) strings; None is missing.
    architecture
        (n, len(architecture.NAMES)); NaN where no model definition was given.
    extra
        (n,) mappings of the launcher's free numbers and strings.
    """

    model_type: Names
    family: Names
    submitted_at: Floats
    numbers: Floats
    names: Names
    architecture: Floats
    extra: Sequence[Mapping[str, float | str]]

    @classmethod
    def from_events(cls, submissions: Sequence[JobSubmitted], known: Mapping[str, Floats] | None = None) -> "JobBatch":
        """Columns of submissions, as they are at launch.

        Parameters
        ----------
        known
            Model type to the (44,) architecture of a submission that states no definition.
        """
        configs = [submission.config for submission in submissions]
        return cls(
            model_type=strings([submission.model_type for submission in submissions]),
            family=strings([family_of(submission) for submission in submissions]),
            submitted_at=np.array([seconds(submission.submitted_at) for submission in submissions], dtype=float),
            numbers=np.array(list(map(_numbers_of, configs)), dtype=float).reshape(-1, len(NUMBERS)),  # None is NaN
            names=np.array(list(map(_names_of, configs)), dtype=object).reshape(-1, len(NAMES)),
            architecture=_summaries(submissions, known or {}),
            extra=[config.extra for config in configs],
        )

    def __len__(self) -> int:
        return len(self.model_type)

    def number(self, name: str) -> Floats:
        """One column of `numbers`."""
        column: Floats = self.numbers[:, _COLUMN[name]]
        return column

    @property
    def accelerators(self) -> Floats:
        """(n,) accelerators over all trainers."""
        return self.number("num_trainers") * self.number("accelerators_per_trainer")

    @property
    def precision_bits(self) -> Floats:
        """(n,) bits of the precision that is stated; NaN for none that is known."""
        names = self.names[:, NAMES.index("precision")]
        return np.array([architecture.bits_of(name) for name in names.tolist()], dtype=float)

    @property
    def free(self) -> Names:
        """(n,) `extra` as a column."""
        return strings(self.extra)

    def take(self, rows: Indices) -> "JobBatch":
        """The jobs at `rows`, in that order."""
        return JobBatch(
            model_type=self.model_type[rows],
            family=self.family[rows],
            submitted_at=self.submitted_at[rows],
            numbers=self.numbers[rows],
            names=self.names[rows],
            architecture=self.architecture[rows],
            extra=[self.extra[row] for row in rows],
        )


def strings(values: Sequence[Any]) -> Names:
    """A 1-d object array; numpy alone would guess a shape or a fixed width."""
    column: Names = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def seconds(time: datetime) -> float:
    """Seconds since the epoch."""
    return time.timestamp()


def _summaries(submissions: Sequence[JobSubmitted], known: Mapping[str, Floats]) -> Floats:
    """(n, len(architecture.NAMES)); NaN where there is no definition."""
    summaries = np.full((len(submissions), len(architecture.NAMES)), np.nan)
    for row, submission in enumerate(submissions):
        if submission.model is not None:
            summary = architecture.summary(submission.model)
            summaries[row] = [summary.get(name, np.nan) for name in architecture.NAMES]
        elif (kept := known.get(submission.model_type)) is not None:
            summaries[row] = kept
    return summaries


class HardwareTable:
    """A catalog as columns.

    Attributes
    ----------
    names
        (h + 1,) hardware types, sorted; None stands last, for a type that is not listed.
    specifications
        (h + 1, 12) in the order of `SPECIFICATIONS`; the last row is NaN.
    price
        (h + 1,) USD per accelerator-hour; NaN where none is known.
    premium
        (h + 1,) bool.
    vendor
        (h + 1,) strings; the last is None.
    """

    def __init__(self, catalog: Catalog) -> None:
        entries = list(catalog.values())
        self.names = strings([*(entry.name for entry in entries), None])
        self._position = {entry.name: position for position, entry in enumerate(entries)}
        self.specifications: Floats = np.full((len(entries) + 1, len(SPECIFICATIONS)), np.nan)
        self.price: Floats = np.full(len(entries) + 1, np.nan)
        self.premium = np.zeros(len(entries) + 1, dtype=bool)
        for position, entry in enumerate(entries):
            self.specifications[position] = np.array(entry.specifications(), dtype=float)
            self.price[position] = np.nan if entry.price_per_hour is None else entry.price_per_hour
            self.premium[position] = entry.premium
        self.vendor = strings([entry.vendor for entry in entries] + [None])

    def index(self, hardware_types: Sequence[str]) -> Indices:
        """(n,) positions; `unlisted` for a type that the catalog does not have."""
        return np.array([self._position.get(name, self.unlisted) for name in hardware_types], dtype=np.intp)

    @property
    def unlisted(self) -> int:
        """Position of the NaN row."""
        return len(self._position)
