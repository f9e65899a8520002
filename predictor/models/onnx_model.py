"""Serving form of a model: an ONNX graph that ONNX Runtime runs on one thread."""

import ctypes
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from leap.predictor.models.onnx_validation import check
from leap.predictor.storage.bounded import bounded_read

# A cascade of 3,640 trees of 255 leaves takes 25 MB.
MAX_BYTES = 256 * 2**20


class Graph:
    """A model that predicts rows.

    One thread, because the candidates of a job are few: threads of several launchers on one machine would
    wait for one another (measured: p99 of 5 to 9 ms with one thread, 0.6 to 1.9 s with the default).

    Parameters
    ----------
    model
        Path or bytes of an ONNX graph with an input `features`, float32 (rows, features), and an output
        `log_throughput`, float32 (rows,).

    Attributes
    ----------
    features : int
        Columns of a row.

    Raises
    ------
    ValueError
        The graph is too large, holds what no model of Leap holds, does not load or has another signature.
    OSError
        The file cannot be read.
    """

    def __init__(self, model: Path | bytes) -> None:
        name, data = ("graph", model) if isinstance(model, bytes) else (str(model), bounded_read(model, MAX_BYTES))
        if len(data) > MAX_BYTES:
            raise ValueError(f"{name}: over {MAX_BYTES} bytes, more than any model of Leap; do not trust its source")
        try:
            needed = check(data)
        except ValueError as error:
            raise ValueError(f"{name}: {error}; do not trust its source") from error
        try:
            self._session = onnxruntime.InferenceSession(data, _one_thread(), providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's errors have no class in common.
            raise ValueError(f"{name}: ONNX Runtime {onnxruntime.__version__} cannot load it: {error}") from error
        _give_back_memory()
        self.features = self._check_signature(name)
        if needed > self.features:
            raise ValueError(f"{name}: trees look at column {needed} of {self.features}; do not trust its source")

    def predict(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """ln throughput of each row, shape (rows,); missing values are NaN.

        Raises
        ------
        ValueError
            The rows have not as many columns as the graph takes, or are not float32.
        """
        if rows.ndim != 2 or rows.shape[1] != self.features or rows.dtype != np.float32:
            raise ValueError(f"rows are {rows.dtype} {rows.shape}, the graph takes float32 (rows, {self.features})")
        return self._session.run(["log_throughput"], {"features": rows})[0].astype(np.float64)

    def _check_signature(self, name: str) -> int:
        inputs = [(value.name, value.type, value.shape) for value in self._session.get_inputs()]
        outputs = {value.name: (value.type, value.shape) for value in self._session.get_outputs()}
        match inputs, outputs.get("log_throughput"):
            case [("features", "tensor(float)", [_, int(features)])], ("tensor(float)", [_]):
                return features
        raise ValueError(f"{name}: takes {inputs} and gives {outputs}, not `features` and `log_throughput`")


def _give_back_memory() -> None:
    """Return to the system what loading has freed: 44 MB after 400 trees of 255 leaves (measured with glibc)."""
    with suppress(AttributeError, OSError):  # Other C libraries have no such call.
        ctypes.CDLL(None).malloc_trim(0)


def _one_thread() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Nothing but ONNX, and no lines of its own on stderr: what is wrong is in the error.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 4
    return options
