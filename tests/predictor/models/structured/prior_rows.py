"""Rows whose truth is known, for the tests of the structured recipe."""

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats, HardwareTable, Rows
from leap.schemas.hardware import load_catalog

TABLE = HardwareTable(load_catalog())
TYPES = ("V100-SXM-16GB", "A100-SXM-80GB", "H100-SXM-80GB", "B200")
SPEED = dict(zip(TYPES, (0.0, 0.7, 1.5, 2.2), strict=True))


def attempts(count: int, seed: int = 0, models: int = 6, days: int = 20) -> tuple[Rows, Floats]:
    """Rows whose ln throughput is model + hardware + family + 0.9 ln accelerators + 0.3 ln batch, and 2% noise."""
    rng = np.random.default_rng(seed)
    model = rng.integers(models, size=count)
    family = rng.integers(3, size=count)
    hardware = rng.choice(TYPES, size=count)
    trainers = rng.choice([1.0, 2.0, 4.0], size=count)
    batch = trainers * 8 * rng.choice([16.0, 32.0, 64.0], size=count)
    rows: dict[str, NDArray[np.generic]] = {
        "model_type": np.array([f"model-{n}" for n in model]),
        "hardware_type": hardware,
        "family": np.array([f"family-{n}-{m}" for n, m in zip(model, family, strict=True)]),
        "trainers": trainers,
        "accelerators": trainers * 8,
        "batch_size": batch,
        "configuration": batch.view(np.uint64),
        "day": np.sort(rng.integers(days, size=count)).astype(float),
        "sequence_length": np.full(count, np.nan),
    }
    speed = np.array([SPEED[name] for name in hardware.tolist()])
    truth = 3 + 1.5 * (model % 6) + speed + 0.1 * (family - 1) + 0.9 * np.log(trainers * 8) + 0.3 * np.log(batch)
    return rows, truth + 0.02 * rng.standard_normal(count)
