"""Ratios of the configuration, and what joins a job and a hardware type, worked out by hand."""

import math

import msgspec
import numpy as np
import pytest

from leap.predictor.features import hardware, ratios
from leap.predictor.features.batch import HardwareTable, JobBatch
from leap.schemas.launch import LaunchConfig
from tests.builders import CATALOG, MODEL, submission

CONFIG = LaunchConfig(
    num_trainers=4,
    accelerators_per_trainer=8,
    batch_size=96.0,
    data_readers=12.0,
    sequence_length=512.0,
    gradient_accumulation=3.0,
    tensor_parallel=2,
    pipeline_parallel=2,
)
RATIOS = {
    "accelerators": 32.0,  # 4 * 8
    "total_batch": 384.0,  # 96 * 4
    "batch_per_accelerator": 12.0,  # 96 / 8
    "micro_batch": 4.0,  # 96 / (8 * 3)
    "readers_per_trainer": 3.0,  # 12 / 4
    "readers_per_accelerator": 0.375,  # 12 / 32
    "samples_per_reader": 32.0,  # 384 / 12
    "tokens_per_accelerator": 6144.0,  # 96 * 512 / 8
    "model_parallel": 4.0,  # 2 * 2 * 1
    "model_replicas": 8.0,  # 32 / 4
}
# MODEL per sample: 1,120 FLOP, 3,020 bytes, 2,177 parameters. "fast": 400 TFLOP/s, 3,000 GB/s, 80 GB.
JOINT = {
    "compute_time": 1.008e-10,  # 3 * 1120 * 12 / 4e14
    "memory_time": 3.624e-8,  # 3 * 3020 * 12 / 3e12
    "state_share": 1.360625e-8,  # 16 * 2177 / (80e9 * 32)
    "compute_per_byte": 400 / 3,  # 4e14 / 3e12
}


def ratio(config: LaunchConfig) -> dict[str, float]:
    jobs = JobBatch.from_events([msgspec.structs.replace(submission(), config=config)])
    return dict(zip(ratios.FEATURES, ratios.features(jobs)[0].tolist(), strict=True))


def test_ratios() -> None:
    assert ratio(CONFIG) == RATIOS


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        (
            {"batch_size": None},
            {"total_batch", "batch_per_accelerator", "micro_batch", "samples_per_reader", "tokens_per_accelerator"},
        ),
        ({"data_readers": None}, {"readers_per_trainer", "readers_per_accelerator", "samples_per_reader"}),
        ({"data_readers": 0.0}, {"samples_per_reader"}),
        ({"sequence_length": None}, {"tokens_per_accelerator"}),
    ],
)
def test_a_ratio_with_a_term_that_is_not_stated_is_missing(left_out: dict[str, None], missing: set[str]) -> None:
    found = ratio(msgspec.structs.replace(CONFIG, **left_out))
    assert {name for name, value in found.items() if math.isnan(value)} == missing


def test_groups_and_accumulation_are_one_where_not_stated() -> None:
    found = ratio(LaunchConfig(num_trainers=4, accelerators_per_trainer=8, batch_size=96.0))
    assert (found["micro_batch"], found["model_parallel"], found["model_replicas"]) == (12.0, 1.0, 32.0)


def test_what_joins_a_job_and_a_hardware_type() -> None:
    jobs = JobBatch.from_events([msgspec.structs.replace(submission(model=MODEL), config=CONFIG), submission()])
    table = HardwareTable(CATALOG)
    fast, unlisted = table.index(["fast", "nowhere"])
    values = hardware.features(jobs, table, np.array([0, 1, 0]), np.array([fast, fast, unlisted]))
    found = dict(zip(hardware.FEATURES, values.T, strict=True))
    for name, expected in JOINT.items():
        assert found[name][0] == pytest.approx(expected, rel=1e-12)
        assert math.isnan(found[name][2])
    assert [math.isnan(found[name][1]) for name in JOINT] == [True, True, True, False]
