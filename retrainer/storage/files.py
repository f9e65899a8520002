"""Files of the night by name under a root: a directory, or any place that fsspec reaches."""

from pathlib import Path
from typing import Protocol

from leap.predictor.storage.urls import open_filesystem
from leap.predictor.storage.whole_file import write_whole


class Files(Protocol):
    """What partitions, reports and statistics are kept in; one contract suite covers every implementation.

    A name is relative to the root, with slashes.
    """

    def names(self, pattern: str) -> list[str]:
        """Names that match a glob pattern, sorted."""

    def size(self, name: str) -> int:
        """Length in bytes."""

    def read(self, name: str) -> bytes:
        """All of a file.

        Raises
        ------
        FileNotFoundError
            If it is not there.
        """

    def write(self, name: str, data: bytes) -> None:
        """Replace a file; a reader sees the one before or this one, never a part."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless it is there; of many that try at once, one is told that it did."""

    def remove(self, name: str) -> None:
        """Delete a file; one that is not there is no error."""


class LocalFiles:
    """Files under a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, pattern: str) -> list[str]:
        """See :class:`Files`."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))

    def size(self, name: str) -> int:
        """See :class:`Files`."""
        return (self.root / name).stat().st_size

    def read(self, name: str) -> bytes:
        """See :class:`Files`."""
        return (self.root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """See :class:`Files`."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)

    def create(self, name: str, data: bytes) -> bool:
        """See :class:`Files`."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> None:
        """See :class:`Files`."""
        path = self.root / name
        path.unlink(missing_ok=True)
        if path.parent != self.root and path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()


class RemoteFiles:
    """Files under an fsspec URL; the store writes each one whole."""

    def __init__(self, url: str) -> None:
        self._files, self._root = open_filesystem(url)

    def names(self, pattern: str) -> list[str]:
        """See :class:`Files`."""
        self._files.invalidate_cache()
        start = len(self._path(""))
        return sorted(path[start:] for path in self._files.glob(self._path(pattern)))

    def size(self, name: str) -> int:
        """See :class:`Files`."""
        self._files.invalidate_cache()
        return int(self._files.info(self._path(name))["size"])

    def read(self, name: str) -> bytes:
        """See :class:`Files`."""
        return bytes(self._files.cat_file(self._path(name)))

    def write(self, name: str, data: bytes) -> None:
        """See :class:`Files`."""
        self._files.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """See :class:`Files`."""
        try:
            self._files.pipe_file(self._path(name), data, mode="create")
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> None:
        """See :class:`Files`."""
        if self._files.exists(self._path(name)):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def open_files(location: str | Path) -> Files:
    """Files under a path, or under an fsspec URL (``s3://bucket/prefix``)."""
    return RemoteFiles(location) if isinstance(location, str) and "://" in location else LocalFiles(Path(location))
