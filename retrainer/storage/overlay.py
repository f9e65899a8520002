"""Files that can be written without a trace: what a trial writes stays in memory."""

from pathlib import PurePosixPath

from leap.retrainer.storage.files import Files


class Overlay:
    """:class:`leap.retrainer.storage.files.Files` over others, which are only read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from leap.retrainer.storage.files import LocalFiles
    >>> files = Overlay(LocalFiles(Path("nowhere")))
    >>> files.write("day=1/a", b"one")
    >>> files.names("day=*/a"), files.read("day=1/a"), Path("nowhere").exists()
    (['day=1/a'], b'one', False)
    """

    def __init__(self, below: Files) -> None:
        self._below = below
        self._written: dict[str, bytes | None] = {}  # None is removed

    def names(self, pattern: str) -> list[str]:
        """See :class:`Files`."""
        found = set(self._below.names(pattern)) - self._written.keys()
        depth = pattern.count("/")
        own = (name for name, data in self._written.items() if data is not None and name.count("/") == depth)
        return sorted(found | {name for name in own if PurePosixPath(name).match(pattern)})

    def size(self, name: str) -> int:
        """See :class:`Files`."""
        return len(self.read(name)) if name in self._written else self._below.size(name)

    def read(self, name: str) -> bytes:
        """See :class:`Files`."""
        if name not in self._written:
            return self._below.read(name)
        if (data := self._written[name]) is None:
            raise FileNotFoundError(name)
        return data

    def write(self, name: str, data: bytes) -> None:
        """See :class:`Files`."""
        self._written[name] = data

    def create(self, name: str, data: bytes) -> bool:
        """See :class:`Files`."""
        if self.names(name):
            return False
        self.write(name, data)
        return True

    def remove(self, name: str) -> None:
        """See :class:`Files`."""
        self._written[name] = None
