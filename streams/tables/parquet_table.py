"""Tables as Parquet, in batches whose memory is bounded: strings stay one copy each until they are read."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leap.schemas.distribution import install_command
from leap.streams.tables.table import OpenTable, Row, TableError, check_names, check_unpacked
from leap.streams.tables.text_table import MAX_FIELD

ROWS_PER_BATCH = 8192
#: Bytes of a value in memory that are not in the file where all values of a column are the same.
VALUE_BYTES = 8
#: And of a row, as a dictionary.
ROW_BYTES = 1024


def parquet_table(path: Path) -> OpenTable:
    """Open a Parquet file.

    Raises
    ------
    TableError
        If it is not Parquet, unpacks to far more than a table does, or has two columns of one name.
    """
    file = _opened(path)
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    values = sum(max(chunk.total_uncompressed_size, VALUE_BYTES * chunk.num_values) for chunk in chunks)
    check_unpacked(path, max(values, ROW_BYTES * metadata.num_rows))
    columns = check_names(path, file.schema_arrow.names)
    return OpenTable(columns, lambda: _rows(path))


def _rows(path: Path) -> Iterator[Row]:
    try:
        for batch in _opened(path).iter_batches(ROWS_PER_BATCH):
            names = [name.strip() for name in batch.schema.names]
            columns = [_values(path, column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                yield {name: cell for name, cell in zip(names, cells, strict=True) if name}
    except (ValueError, OSError) as error:
        raise error if isinstance(error, TableError) else TableError(f"{path}: damaged Parquet: {error}") from error


def _values(path: Path, column: Any) -> list[Any]:
    """Python values; of a dictionary each string once, however many rows have it."""
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    words = column.dictionary.to_pylist()
    if any(isinstance(word, str | bytes) and len(word) > MAX_FIELD for word in words):
        raise TableError(f"{path}: a value of over {MAX_FIELD:,} bytes; no field of a job is that long")
    return [None if index is None else words[index] for index in column.indices.to_pylist()]


def _opened(path: Path) -> Any:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise TableError(f"{path}: Parquet needs pyarrow; run: {install_command('learn')}, or use CSV") from error
    try:
        schema = parquet.read_schema(path)
        texts = [
            field.name for field in schema if arrow.types.is_string(field.type) or arrow.types.is_binary(field.type)
        ]
        return parquet.ParquetFile(path, read_dictionary=texts)
    except (ValueError, OSError) as error:  # base classes of pyarrow's errors
        raise TableError(f"{path}: not Parquet: {error}") from error
