"""Reads a table of past jobs: CSV or Parquet, one dictionary per row."""

import csv
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leap.schemas.distribution import install_command
from leap.schemas.errors import LeapError

MAX_FIELD = 1_048_576
ROWS_PER_BATCH = 8192

Row = dict[str, Any]


class TableError(LeapError, ValueError):
    """Not a readable table; the text names the file and a remedy."""


def table_columns(path: Path) -> tuple[str, ...]:
    """Column names of a table.

    Raises
    ------
    TableError
        If the file is missing, empty, or neither CSV nor Parquet.
    """
    try:
        if _is_parquet(path):
            return tuple(_parquet(path).schema_arrow.names)
        with path.open(encoding="utf-8-sig", newline="") as file:
            columns = tuple(next(csv.reader([header := file.readline(MAX_FIELD)], delimiter=_delimiter(header)), ()))
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise TableError(f"{path}: cannot be read as a table: {error}") from error
    if not columns:
        raise TableError(f"{path}: empty; the first line must have the column names")
    if len(set(columns)) < len(columns):
        raise TableError(f"{path}: duplicate column names; rename one of {', '.join(columns)}")
    return columns


def table_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Rows of a CSV (comma, semicolon or tab) or Parquet file with their numbers, from 1.

    Missing trailing fields of a row are None.

    Raises
    ------
    TableError
        If a row cannot be read.
    """
    if _is_parquet(path):
        batches = _parquet(path).iter_batches(ROWS_PER_BATCH)
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
        return
    columns = table_columns(path)
    csv.field_size_limit(MAX_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        delimiter = _delimiter(file.readline(MAX_FIELD))
        try:
            yield from enumerate(csv.DictReader(file, columns, delimiter=delimiter), 1)
        except (csv.Error, UnicodeDecodeError) as error:
            raise TableError(f"{path}: not a CSV table in UTF-8: {error}") from error


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _parquet(path: Path) -> Any:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise TableError(f"{path}: Parquet needs pyarrow; run: {install_command('learn')}, or use CSV") from error
    try:
        return parquet.ParquetFile(path)
    except ValueError as error:  # base class of pyarrow's errors
        raise TableError(f"{path}: not Parquet: {error}") from error
