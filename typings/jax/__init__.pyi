"""What of JAX is used; its arrays are left open, as everything that it returns may be traced."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from jax import nn as nn
from jax import numpy as numpy
from jax import ops as ops
from jax import tree as tree

Array: TypeAlias = Any
F = TypeVar("F", bound=Callable[..., Any])

def jit(fun: F) -> F: ...
def value_and_grad(fun: Callable[..., Array]) -> Callable[..., tuple[Array, Any]]: ...
