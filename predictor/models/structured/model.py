"""The structured recipe in its serving form: prior, process of the family, exact history and gate, all numpy arrays."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import NUMBERS, Indices, JobBatch, Names, Rows
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.history.hash_index import Keys, configurations
from leap.predictor.models.structured.exact_history import ExactHistory, HistoryEstimate
from leap.predictor.models.structured.family_effects import FamilyEffects
from leap.predictor.models.structured.gating import Combined, Gate
from leap.predictor.models.structured.gp_prior import Prior, PriorEstimate
from leap.predictor.models.structured.kernel import Arrays

#: Numbers of a launch configuration that the prior takes beside trainers, accelerators and batch.
EXTRAS: tuple[str, ...] = tuple(
    name for name in NUMBERS if name not in ("num_trainers", "accelerators_per_trainer", "batch_size")
)


def rows_of(jobs: JobBatch, job: Indices, hardware_type: Names) -> Rows:
    """Rows of (n,) pairs of a job, by its position in `jobs`, and a hardware type."""
    trainers = jobs.number("num_trainers")[job]
    return {
        "model_type": jobs.model_type[job],
        "family": jobs.family[job],
        "configuration": configurations(jobs)[job],
        "hardware_type": hardware_type,
        "trainers": trainers,
        "accelerators": jobs.accelerators[job],
        "batch_size": trainers * jobs.number("batch_size")[job],
        "day": jobs.submitted_at[job] / SECONDS_PER_DAY,
        **{name: jobs.number(name)[job] for name in EXTRAS},
    }


@dataclass(frozen=True)
class Estimate:
    """What the prior with its family's process says of (n,) rows, what exact history says, and the whole."""

    prior: PriorEstimate
    history: HistoryEstimate
    combined: Combined


@dataclass(frozen=True)
class Structured:
    """Prior, what families add to it, exact history, and the gate between the two."""

    prior: Prior
    process: FamilyEffects
    history: ExactHistory
    gate: Gate

    def estimate(self, rows: Rows) -> Estimate:
        """Estimate rows: `model_type`, `hardware_type` and `family` (strings, '' unknown), `trainers`,
        `accelerators` and `batch_size` (totals), `day` (days from any origin), and the further numbers of the prior.
        """
        prior = self.prior.predict(rows)
        keys = Keys(rows)
        mean, variance, known = self.process.at(rows, keys)
        deviation = np.where(known, np.sqrt(variance + self.process.variances.noise), prior.deviation)
        prior = replace(prior, mean=prior.mean + mean, deviation=deviation)
        history = self.history.estimate(rows, keys)
        return Estimate(prior, history, self.gate.combine(prior, history))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, none of objects, to be stored without pickle."""
        parts = {
            "prior": self.prior.arrays(),
            "process": self.process.arrays(),
            "history": self.history.arrays(),
            "gate": self.gate.arrays(),
        }
        return {f"{name}/{key}": np.asarray(array) for name, part in parts.items() for key, array in part.items()}

    @classmethod
    def from_arrays(cls, stored: Arrays) -> "Structured":
        """The instance that `arrays` describes."""
        part: dict[str, dict[str, NDArray[Any]]] = {"prior": {}, "process": {}, "history": {}, "gate": {}}
        for name, array in stored.items():
            of, key = name.split("/", 1)
            part[of][key] = array
        return cls(
            Prior.from_arrays(part["prior"]),
            FamilyEffects.from_arrays(part["process"]),
            ExactHistory.from_arrays(part["history"]),
            Gate.from_arrays(part["gate"]),
        )
