"""The history in a file: gzipped JSON lines of all that the store holds, so nothing is lost in between.

An artifact's snapshot cannot stand in for it: that has hashes of names and rounded numbers, no fences and no
attempts.
"""

import gzip
import os
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path

import msgspec

from streams.history_store import HistoryStore
from streams.observations import BUCKETS

FORMAT = 1


class _Header(msgspec.Struct, frozen=True):
    format: int
    buckets: int


class Line(msgspec.Struct, frozen=True):
    """One bucket, as it stood at one moment."""

    target: str
    number: int
    fields: dict[str, str]


def write_backup(store: HistoryStore, targets: Collection[str], path: Path) -> int:
    """Write all statistics, while workers go on; the file appears whole or not at all.

    Returns
    -------
    int
        How many statistics it holds.
    """
    data, count = pack(store, targets)
    draft = path.with_name(path.name + ".draft")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return count


def pack(store: HistoryStore, targets: Collection[str]) -> tuple[bytes, int]:
    """Read all statistics, while workers go on; give the content of a backup and how many it holds."""
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
    ValueError
        If it is not a backup, is cut short, or was written by another version; the message names the file.
    """
    try:
        with gzip.open(path, "rb") as lines:
            header = msgspec.json.decode(lines.readline(), type=_Header)
            if header != _Header(FORMAT, BUCKETS):
                raise ValueError(f"{header}, but this version reads {_Header(FORMAT, BUCKETS)}")
            for line in lines:
                yield msgspec.json.decode(line, type=Line)
    except (ValueError, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is no backup that can be used: {error}") from error
