"""What Leap uses of CatBoost."""

from typing import Any, Literal

from numpy.typing import NDArray

class CatBoostRegressor:
    def __init__(
        self,
        *,
        iterations: int,
        learning_rate: float,
        depth: int,
        rsm: float,
        thread_count: int,
        random_seed: int,
        early_stopping_rounds: int,
        allow_writing_files: bool,
        logging_level: Literal["Silent"],
    ) -> None: ...
    def fit(self, X: NDArray[Any], y: NDArray[Any], *, eval_set: tuple[NDArray[Any], NDArray[Any]]) -> Any: ...
    def predict(self, data: NDArray[Any], *, thread_count: int) -> NDArray[Any]: ...
    def save_model(self, fname: str) -> None: ...
