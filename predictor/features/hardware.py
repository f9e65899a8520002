"""Features of the hardware type: its specifications, and how the job meets them."""

import numpy as np

from predictor.features import architecture
from predictor.jobs import Floats, HardwareTable, Indices, Jobs
from schemas.hardware import SPECIFICATIONS

#: Bytes per trainable value of weights, gradients and optimizer state in mixed-precision training with
#: Adam (2 + 2 + 12: Rajbhandari et al., "ZeRO", 2020, section 3.1).
STATE_BYTES_PER_PARAMETER = 16.0

JOINT: tuple[str, ...] = (
    "compute_time",  # seconds per step at the 16-bit peak: 3 x forward FLOPs x samples per accelerator / peak
    "memory_time",  # seconds per step at full bandwidth: 3 x forward bytes x samples per accelerator / bandwidth
    "state_share",  # training state over the memory of the accelerators that share it
    "compute_per_byte",  # FLOP per byte that the hardware can do at its peaks
)
FEATURES: tuple[str, ...] = SPECIFICATIONS + JOINT


def features(jobs: Jobs, table: HardwareTable, job: Indices, hardware: Indices) -> Floats:
    """(rows, len(FEATURES)) values for pairs of a job and a hardware type.

    Parameters
    ----------
    job, hardware
        (rows,) positions in `jobs` and in `table`.
    """
    specifications = table.specifications[hardware]
    column = {name: specifications[:, position] for position, name in enumerate(SPECIFICATIONS)}
    peak = np.fmax(np.fmax(column["bf16_tflops"], column["fp16_tflops"]), column["fp32_tflops"]) * 1e12
    bandwidth = column["memory_bandwidth_gb_s"] * 1e9
    samples = (jobs.number("batch_size") / jobs.number("accelerators_per_trainer"))[job]
    model = {name: jobs.architecture[:, architecture.NAMES.index(name)][job] for name in _FROM_MODEL}
    joint = (
        3.0 * model["flops"] * samples / peak,
        3.0 * model["bytes"] * samples / bandwidth,
        model["parameters"] * STATE_BYTES_PER_PARAMETER / (column["memory_gb"] * 1e9 * jobs.accelerators[job]),
        peak / bandwidth,
    )
    return np.column_stack((specifications, *joint))


_FROM_MODEL = ("flops", "bytes", "parameters")
