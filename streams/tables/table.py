"""What every reader of tables gives: the names of the columns, and the rows as dictionaries."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leap.schemas.errors import LeapError

#: What a file may unpack to, in bytes, however small it is; and by which factor a larger one.
FREE_BYTES = 256 << 20
MAX_FACTOR = 500
#: Key of a row that could not be read: its value says why. No column has this name.
PROBLEM = ""

Row = dict[str, Any]


class TableError(LeapError, ValueError):
    """Not a readable table; the text names the file and a remedy."""


@dataclass(frozen=True)
class OpenTable:
    """A table whose columns are known.

    Attributes
    ----------
    columns
        Names, without columns that have none.
    rows
        A new pass over the rows. A row lacks what the file does not have for it; one that cannot be read has
        the key ``PROBLEM`` alone.
    notes
        What was assumed of the file that it does not say itself.
    """

    columns: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]
    notes: tuple[str, ...] = ()


def check_unpacked(path: Path, unpacked: int) -> None:
    """Check what a file unpacks to.

    Raises
    ------
    TableError
        If it is far more than a table does: a small file may unpack to more than the memory holds.
    """
    packed = path.stat().st_size
    if unpacked > max(FREE_BYTES, MAX_FACTOR * packed):
        raise TableError(
            f"{path}: its {packed:,} bytes unpack to {unpacked:,} or more, over {MAX_FACTOR} times as many, "
            "as no table of jobs does; if it is one, split it or save it uncompressed"
        )


def check_names(path: Path, names: list[str]) -> tuple[str, ...]:
    """The names of columns, stripped, without empty ones.

    Raises
    ------
    TableError
        If there is none, or two columns have one name: which of them is meant cannot be known.
    """
    named = [name.strip() for name in names if name.strip()]
    if not named:
        raise TableError(f"{path}: empty; the first line must have the column names")
    if repeated := sorted({name for name in named if named.count(name) > 1}):
        raise TableError(f"{path}: duplicate column names; rename one of each {', '.join(map(repr, repeated))}")
    return tuple(named)


def has_columns(names: list[str], wanted: frozenset[str]) -> bool:
    """Whether a line has the columns that a mapping needs: their names, or the JSON that they lead into."""
    have = {name.strip() for name in names}
    return all(name in have or any(part in have for part in parents(name)) for name in wanted)


def parents(column: str) -> list[str]:
    """What comes before each dot of a name, longest first.

    >>> parents("a.b.c")
    ['a.b', 'a']
    """
    parts = column.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
