"""Exported graphs as others run them: ONNX Runtime on one thread, its reports to its makers switched off."""

import os

import numpy as np
from numpy.typing import NDArray

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import, which begins to report
import onnxruntime

__all__ = ["run_graph"]


def run_graph(data: bytes, rows: NDArray[np.float32], *outputs: str) -> list[NDArray[np.float32]]:
    """What a graph gives of rows."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(list(outputs), {"features": rows})
