"""What a forked child must have anew: a lock that another thread of the parent held would never be free."""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something that a forked child has a copy of."""

    def after_fork(self) -> None:
        """Replace locks and threads; called in the child, where there is one thread."""


_forked: WeakSet[Forked] = WeakSet()


def watch_forks(instance: Forked) -> None:
    """Have `after_fork` of an object called in every forked child, while the object lives."""
    _forked.add(instance)


def _after_fork() -> None:
    for instance in list(_forked):
        instance.after_fork()


os.register_at_fork(after_in_child=_after_fork)
