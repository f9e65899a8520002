"""Tables as text: a delimiter, an encoding, and lines that may come before the column names."""

import codecs
import csv
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from leap.schemas.backfill.mapping import TableFormat
from leap.streams.tables.table import PROBLEM, OpenTable, Row, TableError, check_names, has_columns
from leap.streams.tables.unpacking import open_unpacked

MAX_FIELD = 1_048_576
DELIMITERS = ",;\t|"
#: Lines among which the column names are looked for.
HEAD_LINES = 50
BLOCK = 1 << 16

#: UTF-32 before UTF-16: the mark of the one begins with that of the other.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def text_table(path: Path, form: TableFormat, wanted: frozenset[str]) -> OpenTable:
    """Open a table of delimited text.

    Parameters
    ----------
    path
        File, which may be compressed.
    form
        What is stated of it.
    wanted
        Columns that a mapping needs: they tell which line has the names.

    Raises
    ------
    TableError
        If it is empty, not text, or has two columns of one name.
    """
    csv.field_size_limit(MAX_FIELD)
    encoding, notes = (form.encoding, ()) if form.encoding else find_encoding(path)
    try:
        with io.TextIOWrapper(open_unpacked(path), encoding, newline="") as file:
            lines = list(islice(iter(lambda: file.readline(MAX_FIELD), ""), max(HEAD_LINES, form.header or 0)))
        header, delimiter = find_header(lines, form, wanted)
        names = _cells(lines[header], delimiter) if header < len(lines) else []
    except (OSError, csv.Error, UnicodeError) as error:
        raise TableError(f"{path}: cannot be read as a table: {error}") from error
    columns = check_names(path, names)
    if header and not form.header:
        notes = (*notes, f"column names are taken from line {header + 1}; to state another: `table: {{header: ...}}`")
    return OpenTable(columns, lambda: _rows(path, encoding, header, delimiter, names), notes)


def find_encoding(path: Path) -> tuple[str, tuple[str, ...]]:
    """Encoding of a text, and what is to be said of it: by its mark, else UTF-8 if all of it is, else cp1252.

    Raises
    ------
    TableError
        If it is none of them.
    """
    with open_unpacked(path) as file:
        start = file.read(BLOCK)
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding, ()
    if start.count(0) > len(start) // 4:  # every second byte, in the languages of column names
        return ("utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"), ()
    if _decodes(path, "utf-8"):
        return "utf-8", ()
    if _decodes(path, "cp1252"):
        return "cp1252", ("not UTF-8; read as cp1252 (Windows). If names look wrong: `table: {encoding: ...}`",)
    raise TableError(f"{path}: neither UTF-8 nor cp1252; state its encoding: `table: {{encoding: ...}}`")


def find_header(lines: list[str], form: TableFormat, wanted: frozenset[str]) -> tuple[int, str]:
    """Position of the line of column names, and the delimiter.

    The first line, and the delimiter, by which all wanted columns are there; else those by which most lines have as
    many values as the first of them.
    """
    filled = [position for position, line in enumerate(lines) if line.strip()]
    places = [form.header - 1] if form.header else filled
    for place in places:
        for delimiter in [form.delimiter] if form.delimiter else DELIMITERS:
            if wanted and place < len(lines) and has_columns(_cells(lines[place], delimiter), wanted):
                return place, delimiter
    return _regular(lines, places, form)


def _regular(lines: list[str], places: list[int], form: TableFormat) -> tuple[int, str]:
    best = (0, 0, next(iter(places), 0), form.delimiter or ",")
    for delimiter in [form.delimiter] if form.delimiter else DELIMITERS:
        widths = [len(_cells(line, delimiter)) for line in lines]
        place = max((place for place in places if place < len(lines)), key=lambda at: _alike(widths, at), default=0)
        if widths and widths[place] > 1:
            best = max(best, (_alike(widths, place), widths[place], place, delimiter), key=lambda one: one[:2])
    return best[2:]


def _alike(widths: list[int], place: int) -> int:
    """How many lines are as wide as one, if that has several values."""
    return widths.count(widths[place]) if widths[place] > 1 else 0


def _decodes(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_unpacked(path) as file:
        try:
            while block := file.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _rows(path: Path, encoding: str, header: int, delimiter: str, names: list[str]) -> Iterator[Row]:
    places = [(position, name.strip()) for position, name in enumerate(names) if name.strip()]
    with io.TextIOWrapper(open_unpacked(path), encoding, newline="") as file:
        for _ in range(header + 1):
            file.readline(MAX_FIELD)
        try:
            for cells in csv.reader(file, delimiter=delimiter):
                if any(cell.strip() for cell in cells[len(names) :]):
                    found = f"{len(cells)} values for {len(names)} columns"
                    yield {PROBLEM: f"{found}; put values that hold {delimiter!r} between quotes"}
                elif cells:
                    yield {name: cells[position] if position < len(cells) else None for position, name in places}
        except (csv.Error, UnicodeError) as error:
            raise TableError(f"{path}: cannot be read as a table: {error}") from error
