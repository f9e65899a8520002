"""What a fault is."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.scene import Scene


@dataclass(frozen=True)
class Fault:
    """Something that breaks, again and again, while the stream runs.

    Attributes
    ----------
    strike
        Breaks it once and returns when what was broken is whole again; workers need not have recovered.
    on_cluster, proxied, mortality, clocks_move
        As :func:`tests.faults.scene.scene`.
    pause_s
        Between one strike and the next.
    """

    name: str
    strike: Callable[[Scene], None]
    on_cluster: bool = False
    proxied: bool = False
    mortality: float = 0.0
    clocks_move: bool = False
    pause_s: float = 1.0
