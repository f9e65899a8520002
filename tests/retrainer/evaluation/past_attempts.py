"""Attempts in a few words, for what scores estimators."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from leap.predictor.features.batch import Floats, HardwareTable
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.models.serving import Prediction
from leap.retrainer.dataset.feature_table import normalise
from leap.retrainer.dataset.training_set import TrainingSet, attempts_of
from leap.schemas.hardware import load_catalog

TABLE = HardwareTable(load_catalog())
#: In the order of their peak and bandwidth.
TYPES = ("V100-SXM-16GB", "A100-SXM-80GB", "H100-SXM-80GB", "B200")


def attempts(days: Sequence[float], **columns: object) -> TrainingSet:
    """An attempt a day given, of one hour; `throughput` is 100 samples/s unless given."""
    given = {
        "model_type": "m",
        "hardware_type": "B200",
        "num_trainers": 1.0,
        "accelerators_per_trainer": 8.0,
        "batch_size": 64.0,
        "throughput": 100.0,
        **columns,
    }
    rows = pd.DataFrame({**given, "attempt_id": [f"{n:06}" for n in range(len(days))]})
    rows["job_name"] = rows["model_type"]
    rows["family"] = rows["model_type"]
    rows["submitted_at"] = rows["started_at"] = np.asarray(days) * SECONDS_PER_DAY
    rows["finished_at"] = rows["started_at"] + 3600
    return attempts_of(normalise(rows.rename(columns={"throughput": "measured_throughput"})), TABLE)


def grid(models: int = 4, slow: str = "") -> TrainingSet:
    """Five attempts of each model on each of `TYPES`, faster with each type but for `slow`, the slowest of all."""
    model, hardware = (index.ravel() for index in np.meshgrid(np.arange(models), np.repeat(np.arange(4), 5)))
    types = np.array(TYPES, dtype=object)[hardware]
    y = 2.0 + model + 0.8 * hardware + 0.01 * np.random.default_rng(0).standard_normal(len(model))
    return attempts(
        (np.arange(len(model)) // 8).tolist(),
        model_type=[f"model-{'abcdefgh'[n]}" for n in model],
        hardware_type=types,
        throughput=np.exp(np.where(types == slow, 0.0, y)),
    )


class Witness:
    """Predicts the number of attempts that it was fitted on, and keeps what it was fitted on and asked."""

    def __init__(self) -> None:
        self.fitted: list[TrainingSet] = []
        self.asked: list[TrainingSet] = []

    def fit(self, training: TrainingSet) -> None:
        self.fitted.append(training)

    def predict(self, attempts: TrainingSet) -> Prediction:
        self.asked.append(attempts)
        count: Floats = np.full(len(attempts), float(len(self.fitted[-1])))
        return Prediction(count)
