"""A chip in a memory size that is not listed: predicted by its sibling's figures where nothing ran on it."""

import numpy as np

from leap.predictor.features.batch import Floats, HardwareTable, Rows, strings
from leap.predictor.models.structured.estimator import StructuredRecipe
from leap.schemas.hardware import load_catalog

CATALOG = load_catalog()
RAN = (
    *("A100-SXM-40GB", "A100-PCIe-80GB", "H100-PCIe-80GB", "H200-SXM-141GB"),
    *("GH200-480GB", "L40S", "V100-SXM-16GB", "T4"),
)


def attempts(
    rng: np.random.Generator, hardware: tuple[str, ...], like: str, count: int, day: float
) -> tuple[Rows, Floats]:
    """Rows and ln throughput, which rises with the peak of the type or of the one that it is like."""
    model, types = rng.integers(0, 6, count), rng.integers(0, len(hardware), count)
    trainers = 2.0 ** rng.integers(0, 4, count)
    peak = np.array([CATALOG[like or name].fp16_tflops for name in hardware], dtype=float)
    rows = {
        "model_type": strings([f"m{n}" for n in model]),
        "hardware_type": strings([hardware[n] for n in types]),
        "family": strings([f"f{n % 40}" for n in range(count)]),
        "trainers": trainers,
        "accelerators": 8 * trainers,
        "batch_size": 8 * trainers * 2.0 ** rng.integers(3, 6, count),
        "day": rng.uniform(day, day + 1, count),
    }
    y = 0.8 * np.log(peak[types]) + 0.7 * model + 0.95 * np.log(8 * trainers) + rng.normal(0, 0.03, count)
    return rows, y


def test_sibling_is_predicted_within_20_percent() -> None:
    rng = np.random.default_rng(0)
    past, now = attempts(rng, RAN, "", 400, 0.0), attempts(rng, ("GH200-96GB",), "GH200-480GB", 60, 21.0)

    def w20(table: HardwareTable) -> float:
        predicted = StructuredRecipe(table).fit(*past).predict(now[0])
        return float(np.mean(np.abs(np.exp(predicted - now[1]) - 1.0) <= 0.2))

    assert w20(HardwareTable(CATALOG.with_siblings(["GH200-96GB"]))) > 0.95
    assert w20(HardwareTable(CATALOG)) < 0.05, "what this is worth"
