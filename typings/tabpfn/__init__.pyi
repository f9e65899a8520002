"""What of TabPFN is used, which is not installed where types are checked."""

from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

class TabPFNRegressor:
    def __init__(
        self, *, model_path: Path, device: str, random_state: int, ignore_pretraining_limits: bool
    ) -> None: ...
    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self: ...
    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...
