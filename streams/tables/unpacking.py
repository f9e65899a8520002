"""The bytes of a file, unpacked where it is compressed; compression is known by its first bytes."""

import bz2
import gzip
import importlib
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from leap.schemas.distribution import install_command
from leap.streams.tables.table import TableError, check_unpacked

MAGIC_BYTES = 8


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file as it is.

    Raises
    ------
    TableError
        If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAGIC_BYTES)
    except OSError as error:
        raise TableError(f"{path}: cannot be read as a table: {error}") from error


def open_unpacked(path: Path) -> BinaryIO:
    """A file's bytes, unpacked from gzip, bzip2, xz or zstd.

    Raises
    ------
    TableError
        If it cannot be read, or needs a package that is not installed. Reading raises it where a file unpacks to far
        more than a table does.
    """
    start = first_bytes(path)
    for magic, opened in _OPENERS.items():
        if start.startswith(magic):
            return io.BufferedReader(_Counted(path, opened(path)))
    return path.open("rb")


class _Counted(io.RawIOBase):
    """A stream that is refused where it becomes far longer than its file."""

    def __init__(self, path: Path, stream: Any) -> None:
        self._path, self._stream, self._read = path, stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            chunk = self._stream.read(len(buffer))
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise TableError(f"{self._path}: damaged: {error}; make or fetch it again") from error
        buffer[: len(chunk)] = chunk
        self._read += len(chunk)
        check_unpacked(self._path, self._read)
        return len(chunk)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _zstd(path: Path) -> Any:
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise TableError(f"{path}: zstd needs pyarrow; run: {install_command('learn')}, or use gzip") from error
    return pyarrow.CompressedInputStream(str(path), "zstd")


_OPENERS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}
