"""Opens a table of past jobs, whatever its format: text, JSON, Parquet, a workbook, or a folder of them."""

from collections.abc import Iterator
from pathlib import Path

from leap.schemas.backfill.mapping import TableFormat
from leap.streams.tables.json_table import json_table
from leap.streams.tables.parquet_table import parquet_table
from leap.streams.tables.sheet_table import sheet_table
from leap.streams.tables.table import OpenTable, Row, TableError
from leap.streams.tables.text_table import text_table
from leap.streams.tables.unpacking import first_bytes, open_unpacked

__all__ = ["OpenTable", "Row", "TableError", "open_table", "table_columns", "table_rows"]

_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_STATED = TableFormat()


def open_table(path: Path, form: TableFormat = _STATED, wanted: frozenset[str] = frozenset()) -> OpenTable:
    """Open a file, or all files of a folder, by what it holds.

    Parameters
    ----------
    path
        File or folder.
    form
        What is stated of the format.
    wanted
        Columns that a mapping needs: they tell which line, and which sheet, has the column names.

    Raises
    ------
    TableError
        If it is missing, empty, not a table, or has two columns of one name.
    """
    if path.is_dir():
        return _folder(path, form, wanted)
    start = first_bytes(path)
    if start.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        return parquet_table(path)
    if start.startswith(_WORKBOOKS):
        return sheet_table(path, form, wanted)
    with open_unpacked(path) as file:
        inside = file.read(64)
    if inside.startswith((b"PAR1", *_WORKBOOKS)):
        raise TableError(f"{path}: a compressed file of a format that is compressed itself; unpack it first")
    if _text_start(inside)[:1] in (b"{", b"["):
        return json_table(path)
    return text_table(path, form, wanted)


def table_columns(path: Path) -> tuple[str, ...]:
    """Column names of a table; raises what :func:`open_table` does."""
    return open_table(path).columns


def table_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Rows of a table with their numbers, from 1; raises what :func:`open_table` does."""
    return enumerate(open_table(path).rows(), 1)


def _text_start(start: bytes) -> bytes:
    """What follows a byte order mark and blanks, in any encoding of characters that ASCII has."""
    return start.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")


def _folder(path: Path, form: TableFormat, wanted: frozenset[str]) -> OpenTable:
    """All files below a folder, in the order of their paths; ``key=value`` in these is a column."""
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
    ]
    if not files:
        raise TableError(f"{path}: no files; give a table, or a folder of tables")
    keys = [_keys(file.relative_to(path)) for file in files]
    wanted -= {name for key in keys for name in key}
    tables = [open_table(file, form, wanted) for file in files]
    names = dict.fromkeys(name for table, key in zip(tables, keys, strict=True) for name in (*table.columns, *key))

    def rows() -> Iterator[Row]:
        for table, key in zip(tables, keys, strict=True):
            yield from ({**row, **key} for row in table.rows())

    notes = dict.fromkeys(note for table in tables for note in table.notes)
    return OpenTable(tuple(names), rows, (f"{len(files)} files", *notes))


def _keys(path: Path) -> Row:
    parts = (part.partition("=") for part in path.parts[:-1])
    return {name: value for name, equals, value in parts if equals}
