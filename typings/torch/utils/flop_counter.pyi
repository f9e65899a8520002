from collections.abc import Callable
from typing import Any

flop_registry: dict[Any, Callable[..., int]]

def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int: ...
