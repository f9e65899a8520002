"""The structured recipe in its serving form: prior, process of the family, exact history and gate, all numpy arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import NUMBERS, Indices, JobBatch, Names, Rows, take
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.history.hash_index import COLUMNS, Keys, column_hashes, configurations, hashes_of
from leap.predictor.models.arrays import Arrays
from leap.predictor.models.structured.exact_history import LEVELS, ExactHistory, HistoryEstimate
from leap.predictor.models.structured.family_effects import KEYS, FamilyEffects
from leap.predictor.models.structured.gating import Combined, Gate
from leap.predictor.models.structured.gp_prior import Prior, PriorEstimate

#: Numbers of a launch configuration that the prior takes beside trainers, accelerators and batch.
EXTRAS: tuple[str, ...] = tuple(
    name for name in NUMBERS if name not in ("num_trainers", "accelerators_per_trainer", "batch_size")
)


def configuration_rows(jobs: JobBatch) -> Rows:
    """Columns of (n,) jobs: what rows of attempts have but for the hardware type."""
    trainers = jobs.number("num_trainers")
    return {
        "model_type": jobs.model_type,
        "family": jobs.family,
        "configuration": configurations(jobs),
        "trainers": trainers,
        "accelerators": jobs.accelerators,
        "batch_size": trainers * jobs.number("batch_size"),
        "day": jobs.submitted_at / SECONDS_PER_DAY,
        **{name: jobs.number(name) for name in EXTRAS},
        "precision_bits": jobs.precision_bits,
        "architecture": jobs.architecture,
        "names": jobs.names,
        "extra": jobs.free,
    }


def rows_of(jobs: JobBatch, job: Indices, hardware_type: Names) -> Rows:
    """Rows of (n,) pairs of a job, by its position in `jobs`, and a hardware type."""
    return {**take(configuration_rows(jobs), job), "hardware_type": hardware_type}


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
        return self.estimate_candidates(rows, np.arange(len(rows["day"])), rows["hardware_type"])

    def estimate_candidates(self, configurations: Rows, configuration: Indices, hardware_type: Names) -> Estimate:
        """Estimate (n,) hardware types, each for one of (c,) configurations, whose columns are those of `estimate`.

        What depends on the configuration alone is computed once for all hardware types that have it side by side.
        """
        prior = self.prior.predict_candidates(configurations, configuration, hardware_type)
        hashes = column_hashes(configurations).take(configuration, axis=1)
        hashes[COLUMNS.index("hardware_type")] = hashes_of(hardware_type)
        keys = Keys(hashes, (*KEYS, *LEVELS))
        day = np.asarray(configurations["day"], dtype=float).take(configuration)
        mean, variance, known = self.process.at(day, keys)
        history = self.history.estimate(day, keys)
        deviation = np.where(known, np.sqrt(variance + self.process.variances.noise), prior.deviation)
        if self.prior.utilisation is None:  # an artifact of before: deviations are not calibrated
            alone = np.zeros(len(day), dtype=bool)
        else:
            alone = ~np.logical_or.reduce(np.isfinite(history.mean), axis=1)
            # A family does not say what it never did on this hardware.
            deviation = np.where(alone, np.maximum(deviation, prior.deviation), deviation)
        prior = PriorEstimate(prior.mean + mean, deviation)
        combined = self.gate.combine(prior, history)
        combined = Combined(combined.mean, np.where(alone, prior.deviation, combined.deviation))
        return Estimate(prior, history, combined)

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
