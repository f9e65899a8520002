"""What of PyTorch is used, which is not installed where types are checked."""

from contextlib import AbstractContextManager
from typing import Any

from torch import export as export
from torch import nn as nn
from torch import optim as optim

float32: Any
ops: Any

class device(AbstractContextManager[None, None]):
    def __init__(self, type: str) -> None: ...
    def __exit__(self, *raised: object) -> None: ...

def arange(end: int) -> Any: ...
def manual_seed(seed: int) -> None: ...
def no_grad() -> AbstractContextManager[None, None]: ...
def tensor(data: Any, dtype: Any) -> Any: ...
