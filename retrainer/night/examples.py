"""The jobs that an artifact is tried with before it serves."""

from datetime import datetime

import numpy as np
import structlog

from leap.predictor.features.batch import NAMES, NUMBERS
from leap.predictor.routing.trial import MAX_EXAMPLES
from leap.retrainer.dataset.training_set import TrainingSet
from leap.schemas.codec import Rejected
from leap.schemas.events import JobSubmitted
from leap.schemas.hardware import Catalog
from leap.schemas.validation import validated

log = structlog.get_logger(__name__)

#: Hardware types of one example.
MAX_CANDIDATES = 16


def examples_of(held_out: TrainingSet, catalog: Catalog, decided_at: datetime) -> list[JobSubmitted]:
    """Up to 8 held-out attempts, spread over the held-out days, submitted again at `decided_at`.

    Names of attempts and jobs stay behind: an example has its family, which ranks alike. A definition is not there
    either, of which the feature table keeps but a summary.
    """
    examples = []
    for number, row in enumerate(_spread(len(held_out), MAX_EXAMPLES), 1):
        try:
            examples.append(validated(_fields(held_out, row, catalog, decided_at, f"example-{number}"), JobSubmitted))
        except Rejected as rejected:  # a row that was written before the limits of now
            log.warning("example left out", reason=str(rejected))
    return examples


def _fields(held_out: TrainingSet, row: int, catalog: Catalog, decided_at: datetime, name: str) -> dict[str, object]:
    jobs = held_out.pairs.jobs
    numbers = dict(zip(NUMBERS, jobs.numbers[row].tolist(), strict=True))
    config: dict[str, object] = {field: _as_sent(value) for field, value in numbers.items() if value == value}
    if "activation_checkpointing" in config:
        config["activation_checkpointing"] = bool(config["activation_checkpointing"])
    config |= {field: value for field, value in zip(NAMES, jobs.names[row], strict=True) if isinstance(value, str)}
    ran_on = str(held_out.pairs.hardware_type[row])
    others = [entry.name for entry in catalog.values() if entry.price_per_hour is not None and entry.name != ran_on]
    chosen = [others[position] for position in _spread(len(others), MAX_CANDIDATES - 1)]
    return {
        "attempt_id": name,
        "job_name": jobs.family[row],
        "family": jobs.family[row],
        "model_type": jobs.model_type[row],
        "submitted_at": decided_at,
        "config": config | {"extra": dict(jobs.extra[row])},
        "candidates": [ran_on, *chosen],
    }


def _spread(count: int, wanted: int) -> list[int]:
    """Up to `wanted` positions of `count`, first and last among them."""
    return sorted(set(np.linspace(0, count - 1, wanted).astype(int).tolist())) if count else []


def _as_sent(value: float) -> float:
    """A whole number as an integer: those of a configuration that are counts must be."""
    return int(value) if value.is_integer() and value < 2**53 else value
