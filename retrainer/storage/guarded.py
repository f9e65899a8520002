"""Files that are only written while a lock is held: whoever stood still and lost it overwrites nothing."""

from collections.abc import Callable

from leap.retrainer.storage.files import Files


class Guarded:
    """:class:`leap.retrainer.storage.files.Files` over others, behind a guard.

    Parameters
    ----------
    guard
        Called before each write; raises where there is to be none.
    """

    def __init__(self, below: Files, guard: Callable[[], None]) -> None:
        self._below, self._guard = below, guard
        self.names, self.size, self.read = below.names, below.size, below.read

    def write(self, name: str, data: bytes) -> None:
        """See :class:`Files`."""
        self._guard()
        self._below.write(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """See :class:`Files`."""
        self._guard()
        return self._below.create(name, data)

    def remove(self, name: str) -> None:
        """See :class:`Files`."""
        self._guard()
        self._below.remove(name)
