"""Features of the hardware type: its specifications, and how the job meets them."""

import numpy as np

from leap.predictor.features import architecture
from leap.predictor.features.batch import Floats, HardwareTable, Indices, JobBatch
from leap.predictor.features.spec import Described
from leap.schemas.hardware import SPECIFICATIONS

#: Bytes per trainable value of weights, gradients and optimizer state in mixed-precision training with
#: Adam (2 + 2 + 12: Rajbhandari et al., "ZeRO", 2020, section 3.1).
STATE_BYTES_PER_PARAMETER = 16.0

_UNKNOWN = "without a definition, a batch size or the specification"

#: What joins the job and the hardware type: name to formula; peak is the best of bf16, fp16 and fp32, samples are
#: batch_size / accelerators_per_trainer, and a training step costs three forward passes.
TABLE: dict[str, Described] = {
    "compute_time": Described("3 flops samples / peak", "s per step", _UNKNOWN),
    "memory_time": Described("3 bytes samples / memory bandwidth", "s per step", _UNKNOWN),
    "state_share": Described(
        "16 bytes × parameters / (memory × accelerators)", "share", "without a definition or the memory"
    ),
    "compute_per_byte": Described("peak / memory bandwidth", "FLOP per byte", "without the specification"),
}
JOINT: tuple[str, ...] = tuple(TABLE)
FEATURES: tuple[str, ...] = SPECIFICATIONS + JOINT


def features(jobs: JobBatch, table: HardwareTable, job: Indices, hardware: Indices) -> Floats:
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
        architecture.FORWARD_PASSES_PER_STEP * model["flops"] * samples / peak,
        architecture.FORWARD_PASSES_PER_STEP * model["bytes"] * samples / bandwidth,
        model["parameters"] * STATE_BYTES_PER_PARAMETER / (column["memory_gb"] * 1e9 * jobs.accelerators[job]),
        peak / bandwidth,
    )
    return np.column_stack((specifications, *joint))


_FROM_MODEL = ("flops", "bytes", "parameters")
