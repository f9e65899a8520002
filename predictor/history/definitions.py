"""Definitions by model type: what was once said of a model stands for later attempts that say nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from leap.predictor.features.architecture import NAMES
from leap.predictor.features.batch import Floats, JobBatch
from leap.schemas.launch import Amount, Name

FILE = "definitions.json"
#: Model types that are kept, the newest: some 5 MB.
MAX_TYPES = 4_096
MAX_BYTES = 16 * 2**20

_decoder = msgspec.json.Decoder(
    Annotated[
        dict[Name, Annotated[dict[Name, Amount], Meta(max_length=2 * len(NAMES))]], Meta(max_length=MAX_TYPES)
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Definitions:
    """The newest definition of each model type, as :func:`leap.predictor.features.architecture.summary` sums it up.

    Attributes
    ----------
    by_type
        Model type to its (44,) values in the order of `NAMES`, NaN where missing; stated longest ago first.
    """

    by_type: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.by_type)

    def filled(self, jobs: JobBatch) -> JobBatch:
        """The jobs, with the definition of their model type where they state none; a stated one is left as it is."""
        if not self.by_type:
            return jobs
        known = {
            row: values
            for row in np.flatnonzero(~described(jobs)).tolist()
            if (values := self.by_type.get(jobs.model_type[row])) is not None
        }
        if not known:
            return jobs
        architecture = jobs.architecture.copy()
        architecture[list(known)] = list(known.values())
        return replace(jobs, architecture=architecture)

    def updated(self, jobs: JobBatch) -> "Definitions":
        """With what these jobs state, of a model type the one submitted last; beyond `MAX_TYPES` the oldest go."""
        by_type = dict(self.by_type)
        stated = np.flatnonzero(described(jobs))
        for row in stated[np.argsort(jobs.submitted_at[stated], kind="stable")].tolist():
            by_type.pop(jobs.model_type[row], None)
            by_type[jobs.model_type[row]] = jobs.architecture[row]
        return Definitions(dict(list(by_type.items())[-MAX_TYPES:]))

    def to_json(self) -> bytes:
        """Model type to name to value; a value beyond what an event may state is left out."""
        return msgspec.json.encode(
            {
                model_type: {
                    name: value for name, value in zip(NAMES, values.tolist(), strict=True) if 0 <= value <= 1e30
                }
                for model_type, values in self.by_type.items()
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> "Definitions":
        """What `to_json` wrote; values of other names are passed over.

        Raises
        ------
        ValueError
            If it is anything else, or more than the limits.
        """
        if len(data) > MAX_BYTES:
            raise ValueError(f"{FILE}: over the limit of {MAX_BYTES} bytes")
        try:
            stored = _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{FILE}: {error}") from error
        rows = np.array([[values.get(name, np.nan) for name in NAMES] for values in stored.values()])
        return cls(dict(zip(stored, rows, strict=True)))


def described(jobs: JobBatch) -> NDArray[np.bool_]:
    """(n,) whether there is any value of the job's definition."""
    return np.asarray(~np.isnan(jobs.architecture).all(axis=1))
