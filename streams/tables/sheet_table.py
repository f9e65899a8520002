"""Tables as workbooks: Excel (xlsx, xlsb, xls) and OpenDocument."""

import importlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leap.schemas.backfill.mapping import TableFormat
from leap.schemas.distribution import install_command
from leap.streams.tables.table import PROBLEM, OpenTable, Row, TableError, check_names, check_unpacked, has_columns
from leap.streams.tables.text_table import HEAD_LINES


def sheet_table(path: Path, form: TableFormat, wanted: frozenset[str]) -> OpenTable:
    """Open a sheet of a workbook: the one that is stated, or the first that has the wanted columns.

    Raises
    ------
    TableError
        If it is not a workbook, has no such sheet, unpacks to far more than a table does, or has two columns of one
        name.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            check_unpacked(path, sum(entry.file_size for entry in packed.infolist()))
    sheets = _sheets(path)
    if form.sheet is not None and form.sheet not in sheets:
        raise TableError(f"{path}: no sheet {form.sheet!r}; it has {', '.join(sheets)}")
    candidates = {form.sheet: sheets[form.sheet]} if form.sheet is not None else sheets
    places = {name: _header(cells, form, wanted) for name, cells in candidates.items()}
    name = max(candidates, key=lambda name: _width(candidates[name], places[name], wanted))
    header = places[name]
    cells = candidates[name]
    names = _texts(cells[header]) if header < len(cells) else []
    notes = (f"sheet {name!r} of {', '.join(sheets)}",) if len(candidates) > 1 else ()
    return OpenTable(check_names(path, names), lambda: _rows(cells[header + 1 :], names), notes)


def _sheets(path: Path) -> dict[str, list[list[Any]]]:
    try:
        calamine = importlib.import_module("python_calamine")
    except ImportError as error:
        raise TableError(
            f"{path}: workbooks need python-calamine; run: {install_command('learn')}, or save it as CSV"
        ) from error
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
        return {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in book.sheet_names}
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise TableError(f"{path}: not a workbook: {error}; save it as xlsx or CSV") from error


def _header(cells: list[list[Any]], form: TableFormat, wanted: frozenset[str]) -> int:
    """Position of the first row with the wanted columns, of all rows if there are none; the widest of these."""
    if form.header:
        return form.header - 1
    return max(range(min(len(cells), HEAD_LINES)), key=lambda place: _width(cells, place, wanted), default=0)


def _width(cells: list[list[Any]], place: int, wanted: frozenset[str]) -> tuple[bool, int]:
    names = _texts(cells[place]) if place < len(cells) else []
    return has_columns(names, wanted), 0 if wanted and has_columns(names, wanted) else sum(map(bool, names))


def _texts(cells: list[Any]) -> list[str]:
    return [str(cell).strip() for cell in cells]


def _rows(lines: list[list[Any]], names: list[str]) -> Iterator[Row]:
    for cells in lines:
        if any(cell != "" for cell in cells):
            yield {
                name: None if cell == "" else cell for name, cell in zip(names, cells, strict=False) if name != PROBLEM
            }
