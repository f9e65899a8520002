"""What Leap uses of threadpoolctl."""

from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., object])

class threadpool_limits:
    def __init__(self, limits: int, user_api: Literal["openmp", "blas"] | None = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    @classmethod
    def wrap(
        cls, limits: int, user_api: Literal["openmp", "blas"] | None = None
    ) -> Callable[[_Function], _Function]: ...
