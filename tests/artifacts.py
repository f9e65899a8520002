"""A small trained artifact, made by a night over a few hundred attempts."""

from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np

from leap.predictor.artifacts.local_store import LocalStore
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, Report
from leap.schemas.events import JobAttempt
from tests.builders import CATALOG, MIDNIGHT, MODEL, attempt, submission

NIGHT = (MIDNIGHT + timedelta(days=10)).date()
SPEED = {"basic": 4.0, "fast": 5.5, "newest": 6.0}


def past(days: int = 10, a_day: int = 60, seed: int = 0, start: datetime = MIDNIGHT) -> list[JobAttempt]:
    """Attempts of recurring families from `start` on; before `NIGHT` by default."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(days * a_day):
        kind = int(rng.integers(12))
        job = submission(
            f"a-{number}",
            job_name=f"team/job-{kind}x",
            model_type=f"model-{kind % 4}",
            at=start + timedelta(days=number // a_day, hours=float(rng.uniform(0, 20))),
            trainers=int(rng.integers(1, 5)),
            batch_size=float(2 ** rng.integers(4, 8)),
            model=MODEL if kind % 2 else None,
        )
        hardware_type = tuple(SPEED)[rng.integers(3)]
        y = SPEED[hardware_type] + 0.1 * kind + np.log(job.config.num_trainers) + rng.normal(0, 0.03)
        made.append(attempt(job, hardware_type, float(np.exp(y))))
    return made


def night_over(
    root: Path, attempts: list[JobAttempt], night: date = NIGHT, recipe: str = "boosted"
) -> tuple[LocalStore, Report]:
    """Run a night over attempts; returns the store and the report."""
    partitions, store = Partitions(root / "partitions"), LocalStore(root / "artifacts")
    partitions.ingest(attempts)
    return store, Night(partitions, store, CATALOG).run(Plan(night=night, recipes=(recipe,)))
