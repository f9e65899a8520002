"""What Leap uses of ONNX Runtime, which has no types of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

__version__: str

class SessionOptions:
    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int
    def add_session_config_entry(self, key: str, value: str) -> None: ...

class NodeArg:
    name: str
    type: str
    shape: list[int | str | None]

class InferenceSession:
    def __init__(self, path_or_bytes: bytes, sess_options: SessionOptions, providers: Sequence[str]) -> None: ...
    def get_inputs(self) -> list[NodeArg]: ...
    def get_outputs(self) -> list[NodeArg]: ...
    def run(self, output_names: Sequence[str], input_feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]: ...
