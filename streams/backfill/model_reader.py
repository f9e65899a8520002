"""Reads the definitions of the models of a table of past jobs, as its mapping says where they are."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from leap.predictor.features.architecture import to_totals
from leap.schemas.backfill.mapping import Field, MappingError
from leap.schemas.backfill.model_source import ModelSource
from leap.schemas.backfill.source import MISSING
from leap.schemas.launch import ModelDefinition, ModelTotals
from leap.streams.backfill.cell_values import Numbers, Unusable, text
from leap.streams.backfill.field_readers import Reader, reader
from leap.streams.tables.table_reader import Row, TableError, table_columns, table_rows

#: Definitions of a second table or a folder: some 70 MB of them.
MAX_DEFINITIONS = 50_000
MAX_FILE_BYTES = 64 * 2**20

Definition = Callable[[Row], ModelDefinition | None]


def model_reader(
    sources: tuple[ModelSource, ...], of_jobs: Callable[[str, Field], Reader], folder: Path, numbers: Numbers
) -> Definition | None:
    """A function from a row to the definition of its model; of several sources the first that has one.

    Definitions of a table or folder are read at once, and only their totals are kept: all that is learned from.

    Parameters
    ----------
    of_jobs
        Name and source of a field to its reader over the table of jobs.
    folder
        In which the table of jobs is, and paths of sources that are not absolute.
    numbers
        How numbers of the table of jobs are written.

    Raises
    ------
    MappingError
        If a source cannot be read. One that is not there is passed over where another follows it.
    """
    reads = []
    for position, source in enumerate(sources, 1):
        path = folder / (source.table or source.folder or "")
        if not path.exists() and position < len(sources):
            continue
        if source.name is None:
            reads.append(_from_columns(source, of_jobs, numbers))
        else:
            name = of_jobs("model.name", source.name)
            known = dict(_from_folder(path) if source.folder else _from_table(path, source))
            reads.append(_joined(known, name))
    if not reads:
        return None
    return lambda row: next((found for read in reads if (found := read(row))), None)


def _joined(known: Mapping[str, ModelDefinition], name: Reader) -> Definition:
    return lambda row: None if (called := name(row)) is None else known.get(text(called))


def _from_columns(source: ModelSource, of: Callable[[str, Field], Reader], numbers: Numbers) -> Definition:
    reads = {name: of(f"model.totals.{name}", field) for name, field in source.totals.items()}
    precision = of("model.precision", source.precision) if source.precision is not None else None

    def definition(row: Row) -> ModelDefinition | None:
        totals = {name: numbers.number(value) for name, read in reads.items() if (value := read(row)) is not None}
        if not totals:
            return None
        made: dict[str, Any] = {"totals": totals}
        if precision is not None and (bits := precision(row)) is not None:
            made["precision"] = text(bits)
        try:
            return msgspec.convert(made, ModelDefinition)
        except msgspec.ValidationError as error:
            raise Unusable(None, f"model: {error}") from error

    return definition


def _from_table(path: Path, source: ModelSource) -> Iterator[tuple[str, ModelDefinition]]:
    try:
        columns = table_columns(path)
    except TableError as error:
        raise MappingError(f"model.table: {error}") from error
    key = source.key or str(source.name)
    totals = source.totals or {name: name for name in ModelTotals.__struct_fields__ if name in columns}
    precision = source.precision or ("precision" if "precision" in columns else None)

    def of_table(name: str, field: Field) -> Reader:
        for column in (field,) if isinstance(field, str) else getattr(field, "columns", ()):
            if column not in columns:
                raise MappingError(f"{name}: {path} has no column {column!r}; it has {', '.join(sorted(columns))}")
        return reader(field, frozenset(MISSING))

    if not totals:
        raise MappingError(f"model.table: {path} has no column named as a total, such as flops; give them as `totals`")
    name_of = of_table("model.key", key)
    read = _from_columns(msgspec.structs.replace(source, totals=totals, precision=precision), of_table, Numbers())
    for row_number, row in table_rows(path):
        if row_number > MAX_DEFINITIONS:
            raise MappingError(f"model.table: {path} has over {MAX_DEFINITIONS:,} rows; leave out what never ran")
        try:
            name, definition = name_of(row), read(row)
        except Unusable as error:
            shown = f" (found {error.value!r})" if error.value else ""
            raise MappingError(f"model.table: {path}, row {row_number}: {error}{shown}") from error
        if name is not None and definition is not None:
            yield text(name), definition


def _from_folder(path: Path) -> Iterator[tuple[str, ModelDefinition]]:
    if not path.is_dir():
        raise MappingError(f"model.folder: {path} is not a folder; `leap describe MODEL > NAME.json` fills one")
    for count, file in enumerate(sorted(path.rglob("*.json")), 1):
        if count > MAX_DEFINITIONS:
            raise MappingError(f"model.folder: {path} has over {MAX_DEFINITIONS:,} files; leave out what never ran")
        try:
            if file.stat().st_size > MAX_FILE_BYTES:
                raise ValueError(f"over the limit of {MAX_FILE_BYTES:,} bytes")
            described = msgspec.json.decode(file.read_bytes(), type=ModelDefinition)
        except (OSError, ValueError, RecursionError) as error:
            raise MappingError(f"model.folder: {file}: {error}; write it with `leap describe`") from error
        yield str(file.relative_to(path).with_suffix("")), to_totals(described)
