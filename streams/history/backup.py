"""Backup of the history: gzipped JSON lines with every bucket of the store.

The snapshot in an artifact cannot replace it: that has hashed names and rounded numbers, and neither fences nor
attempt ids.
"""

import gzip
import math
import zlib
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from leap.predictor.storage.whole_file import write_whole
from leap.schemas.errors import LeapError
from leap.streams.history.store import Bucket, HistoryStore
from leap.streams.history.updates import BUCKETS

FORMAT = 1
MAX_HEADER = 4096
#: Bytes of a decompressed bucket: with 250,000 families each of the 64 takes 40 MB.
MAX_LINE = 256 * 2**20


class BackupError(LeapError, ValueError):
    """A file that is not a backup of the history; the text names it and says what is wrong with it."""


class _Header(msgspec.Struct, frozen=True):
    format: int
    buckets: int


class Line(msgspec.Struct, frozen=True):
    """One bucket, read atomically."""

    target: str
    number: Annotated[int, Meta(ge=0, lt=BUCKETS)]
    fields: dict[str, str]


def write_backup(store: HistoryStore, targets: Collection[str], path: Path) -> int:
    """Write all statistics while workers keep running; the file is replaced atomically.

    Returns
    -------
    int
        Number of statistics written.
    """
    data, count = pack(store, targets)
    write_whole(path, data)
    return count


def pack(store: HistoryStore, targets: Collection[str]) -> tuple[bytes, int]:
    """Content of a backup, and the number of statistics in it; workers keep running."""
    generation = store.generation()
    count = 0
    packed = BytesIO()
    with gzip.open(packed, "wb", compresslevel=1) as lines:
        lines.write(msgspec.json.encode(_Header(FORMAT, BUCKETS)) + b"\n")
        for target in targets:
            for number, fields in enumerate(store.dump(target, generation)):
                text = {name.decode(): value.decode() for name, value in fields.items()}
                count += sum(not name.startswith("@") for name in text)
                lines.write(msgspec.json.encode(Line(target, number, text)) + b"\n")
    return packed.getvalue(), count


def read_backup(path: Path) -> Iterator[Line]:
    """Read a backup, bucket by bucket.

    Raises
    ------
    BackupError
        If it is not a backup, truncated, or of another format version; the message names the file.
    """
    try:
        with gzip.open(path, "rb") as lines:
            header = msgspec.json.decode(lines.readline(MAX_HEADER), type=_Header)
            if header != _Header(FORMAT, BUCKETS):
                raise ValueError(f"{header}, expected {_Header(FORMAT, BUCKETS)}")
            while text := lines.readline(MAX_LINE + 1):
                if len(text) > MAX_LINE:
                    raise ValueError(f"a bucket is larger than {MAX_LINE} bytes")
                line = msgspec.json.decode(text, type=Line)
                _check(line)
                yield line
    except (ValueError, EOFError, RecursionError, gzip.BadGzipFile, zlib.error) as error:
        raise BackupError(f"{path} is not a valid backup: {error}") from error


def _check(line: Line) -> None:
    """Raise ValueError on content that workers would fail on."""
    try:
        bucket = Bucket.of({name.encode(): value.encode() for name, value in line.fields.items()})
    except TypeError as error:
        raise ValueError(f"bucket {line.number}: a key does not have two or three parts") from error
    for key, statistics in bucket.statistics.items():
        if not all(map(math.isfinite, statistics)):
            raise ValueError(f"bucket {line.number}: statistics of {key.name:.80} are not finite")
