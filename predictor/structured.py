"""The structured recipe in its serving form: prior, exact history and gate over plain numpy arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.experts import ExactHistory, HistoryEstimate
from predictor.features.history import SECONDS_PER_DAY
from predictor.gate import Combined, Gate
from predictor.jobs import NUMBERS, Indices, Jobs
from predictor.kernel import Arrays, Rows
from predictor.prior import Prior, PriorEstimate

#: Numbers of a launch configuration that the prior takes beside trainers, accelerators and batch.
EXTRAS: tuple[str, ...] = tuple(
    name for name in NUMBERS if name not in ("num_trainers", "accelerators_per_trainer", "batch_size")
)


def rows_of(jobs: Jobs, job: Indices, hardware_types: Sequence[str]) -> Rows:
    """Rows of (n,) pairs of a job, by its position in `jobs`, and a hardware type."""
    trainers = jobs.number("num_trainers")[job]
    return {
        "model_type": jobs.model_type[job],
        "family": jobs.family[job],
        "hardware_type": np.array(hardware_types, dtype=str),
        "trainers": trainers,
        "accelerators": jobs.accelerators[job],
        "batch_size": trainers * jobs.number("batch_size")[job],
        "day": jobs.submitted_at[job] / SECONDS_PER_DAY,
        **{name: jobs.number(name)[job] for name in EXTRAS},
    }


@dataclass(frozen=True)
class Estimate:
    """What each part says of (n,) rows, and the whole."""

    prior: PriorEstimate
    history: HistoryEstimate
    combined: Combined


@dataclass(frozen=True)
class Structured:
    """Prior, exact history, and the gate between them."""

    prior: Prior
    history: ExactHistory
    gate: Gate

    def estimate(self, rows: Rows) -> Estimate:
        """Estimate rows: `model_type`, `hardware_type` and `family` (strings, '' unknown), `trainers`,
        `accelerators` and `batch_size` (totals), `day` (days from any origin), and the further numbers of the prior.
        """
        prior = self.prior.predict(rows)
        history = self.history.estimate(rows, prior.mean)
        return Estimate(prior, history, self.gate.combine(prior, history))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects, to be stored without pickle."""
        parts = {"prior": self.prior.arrays(), "history": self.history.arrays(), "gate": self.gate.arrays()}
        return {f"{name}/{key}": np.asarray(array) for name, part in parts.items() for key, array in part.items()}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Structured":
        """The instance that `arrays` describes."""
        part: dict[str, dict[str, NDArray[Any]]] = {"prior": {}, "history": {}, "gate": {}}
        for name, array in stored.items():
            of, key = name.split("/", 1)
            part[of][key] = array
        return cls(
            Prior.from_arrays(part["prior"]), ExactHistory.from_arrays(part["history"]), Gate.from_arrays(part["gate"])
        )
