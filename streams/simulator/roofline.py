"""Roofline throughput of a configuration on a hardware type, from the catalog's specifications.

The time of one optimizer step of a data-parallel job is that of its slowest part: arithmetic and memory
traffic (Williams, Waterman and Patterson, "Roofline", CACM 2009), joined by a power mean because real
kernels overlap them only in part; what communication does not hide behind them; and the input pipeline.
"""

from dataclasses import dataclass

import numpy as np

from leap.schemas.hardware import Hardware
from leap.streams.simulator.job_families import Configurations
from leap.streams.simulator.model_types import Floats, Ints, ModelTypes

COMPUTE_EFFICIENCY = 0.5  # of the dense peak that well-fed kernels reach
MEMORY_EFFICIENCY = 0.65
TRAFFIC = 3 * 0.35  # forward and backward read activations three times; fusion saves two thirds
LAUNCH_S = 12e-6  # per operator, forward and backward
OVERLAP = 0.7  # communication hides behind this share of the arithmetic
STRAGGLERS = 0.03  # each doubling of the hosts costs 2% in waiting


@dataclass(frozen=True)
class Machines:
    """Specifications of the fleet's hardware, imputed if unknown; axis 0 is the hardware type."""

    peak: Floats  # type × precision, FLOP/s
    bandwidth: Floats  # bytes/s
    link: Floats  # between the accelerators of one host, bytes/s
    network: Floats  # between hosts, bytes/s per host
    memory: Floats  # bytes

    @classmethod
    def of(cls, hardware: list[Hardware]) -> "Machines":
        """Impute missing specifications with those typical of the hardware's generation."""
        peaks = []
        for item in hardware:
            half = item.bf16_tflops or item.fp16_tflops or 4 * (item.fp32_tflops or 10.0)
            full = item.fp32_tflops or half / 8
            fp16 = item.fp16_tflops or half
            peaks.append((full, item.tf32_tflops or full, fp16, item.bf16_tflops or half, item.fp8_tflops or half))
        host = np.array([item.host_link_gb_s or 31.5 for item in hardware])
        return cls(
            peak=np.array(peaks) * 1e12,
            bandwidth=np.array([item.memory_bandwidth_gb_s or 500.0 for item in hardware]) * 1e9,
            link=np.array([item.interconnect_gb_s or 0.5 * (item.host_link_gb_s or 31.5) for item in hardware]) * 1e9,
            network=host * 0.8e9,
            memory=np.array([item.memory_gb or 16.0 for item in hardware]) * 1e9,
        )


def memory_needed(types: ModelTypes, kind: Ints, config: Configurations) -> Floats:
    """Bytes per accelerator of weights, gradients, optimizer state (16 a parameter) and tables (4), sharded."""
    accelerators = config.trainers * config.accelerators
    sharded = np.minimum(accelerators, 64)
    tables = 4 * types.table_parameters[kind] / accelerators
    return np.asarray(16 * types.dense_parameters[kind] / sharded + tables + 2e9)


def roofline_throughput(
    types: ModelTypes, kind: Ints, config: Configurations, machines: Machines, hardware: Ints
) -> Floats:
    """Samples per second at the roofline, without efficiencies or noise.

    Parameters
    ----------
    kind
        Model type of each row.
    config
        Configuration of each row.
    hardware
        Hardware type of each row, an index into `machines`.
    """
    hosts, per_host = config.trainers, config.accelerators
    local = config.batch / per_host  # samples of one accelerator and step
    length = np.where(types.tokens[kind] > 0, config.sequence / np.maximum(types.tokens[kind], 1), 1.0)
    half = np.where(config.precision <= 1, 2.0, 1.0)  # bytes relative to two-byte numbers
    split = config.tensor_parallel

    flops = 3 * types.flops[kind] * length**1.1 * np.where(config.checkpointing > 0, 4 / 3, 1.0)
    arithmetic = local * flops / (machines.peak[hardware, config.precision] * COMPUTE_EFFICIENCY * split**-0.08)
    traffic = local * TRAFFIC * types.bytes[kind] * length * half / (machines.bandwidth[hardware] * MEMORY_EFFICIENCY)
    device = np.cbrt(arithmetic**3 + traffic**3) + LAUNCH_S * types.operators[kind] * config.accumulation

    gradients = 4 * types.dense_parameters[kind] * half / (split * config.pipeline_parallel)
    rows = config.batch * types.exchange_bytes[kind] * 2
    inside = np.where(per_host > 1, (gradients + rows / per_host) / machines.link[hardware], 0.0)
    outside = (1 - 1 / hosts) * (gradients + rows) / machines.network[hardware]
    network = inside + outside
    step = device + network * network / (network + OVERLAP * device)

    reading = config.batch * types.reader_ms[kind] * 1e-3 * length**0.5 / (config.readers / hosts)
    return np.asarray(hosts * config.batch / np.sqrt(np.sqrt(step**4 + reading**4)) * hosts**-STRAGGLERS)
