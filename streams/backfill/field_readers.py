"""Readers of a mapping's fields: each source becomes a function of the row."""

import math
import string
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from leap.schemas.backfill.expression import Expression
from leap.schemas.backfill.mapping import Condition, Field, Source
from leap.schemas.errors import LeapError
from leap.streams.backfill.table_reader import Row

Reader = Callable[[Row], Any]

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Unusable(LeapError, ValueError):
    """An invalid value, with the problem and its remedy."""

    def __init__(self, value: object, problem: str) -> None:
        super().__init__(problem)
        self.value = "" if value is None else str(value)[:200]
        self.problem = problem


def reader(field: Field, missing: frozenset[str]) -> Reader:
    """A function from a row to the field's value, None if missing.

    Parameters
    ----------
    field
        A column name, a literal, or a source.
    missing
        Texts that stand for a missing value.

    Examples
    --------
    >>> read = reader(Source(expression="gpus / nodes", default=1), frozenset({""}))
    >>> read({"gpus": "16", "nodes": "2"}), read({"gpus": "", "nodes": "2"})
    (8.0, 1)
    """
    if isinstance(field, str):
        field = Source(column=field)
    if not isinstance(field, Source):
        constant = field
        return lambda row: constant
    source, read = field, _form(field, missing)

    def value(row: Row) -> Any:
        cell = read(row)
        if cell is not None and source.values:
            cell = source.values.get(text(cell), cell)
        if cell is not None and source.scale is not None:
            cell = number(cell) * source.scale
        return source.default if cell is None else cell

    return value


def condition(test: Condition, missing: frozenset[str]) -> Callable[[Row], bool]:
    """A function that tells whether a row meets a condition."""
    read = reader(test.column, missing)
    if test.missing is not None:
        return lambda row: (read(row) is None) == test.missing
    if test.positive is not None:
        return lambda row: _positive(read(row)) == test.positive
    wanted = test.equals if isinstance(test.equals, tuple) else (test.equals,)
    texts = frozenset(text(value).lower() for value in wanted)
    return lambda row: (cell := read(row)) is not None and text(cell).lower() in texts


def text(value: Any) -> str:
    """Convert to text: 8.0 gives ``8``, true gives ``true``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def number(value: Any) -> float:
    """Convert to a finite number.

    Raises
    ------
    Unusable
        If it is not a finite number.
    """
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Unusable(value, "not a number; correct it, or map its text under `values`") from None
    if not math.isfinite(result):
        raise Unusable(value, "not finite; list its text under `missing`")
    return result


def flag(value: Any) -> bool:
    """Convert to a bool.

    Raises
    ------
    Unusable
        If it is neither true nor false.
    """
    result = _FLAGS.get(text(value).lower())
    if result is None:
        raise Unusable(value, "neither true nor false; map its text under `values`")
    return result


def moment(value: Any, time_format: str) -> datetime:
    """Convert to a time in UTC.

    Raises
    ------
    Unusable
        If it does not match `time_format`.
    """
    try:
        if isinstance(value, datetime):  # a pandas Timestamp for Parquet with nanoseconds, which events do not support
            time = datetime.fromisoformat(value.isoformat(timespec="microseconds"))
        elif time_format == "iso":
            time = datetime.fromisoformat(text(value))
        elif time_format in ("seconds", "milliseconds"):
            return datetime.fromtimestamp(number(value) / (1 if time_format == "seconds" else 1000), UTC)
        else:
            time = datetime.strptime(text(value), time_format)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise Unusable(value, f"does not match `time_format: {time_format}`; correct one of them") from error


def _form(source: Source, missing: frozenset[str]) -> Reader:
    columns = source.columns

    def cells(row: Row) -> dict[str, Any] | None:
        present = {name: row[name] for name in columns}
        for value in present.values():
            if value is None or (isinstance(value, float) and math.isnan(value)):
                return None
            if isinstance(value, str) and value.strip() in missing:
                return None
        return present

    if source.column is not None:
        name = source.column
        return lambda row: None if (present := cells(row)) is None else present[name]
    if source.template is not None:
        parts = tuple(
            string.Formatter().parse(source.template)
        )  # str.format would read a name such as job.id as an attribute
        return lambda row: (
            None
            if (present := cells(row)) is None
            else "".join(part + (text(present[name]) if name else "") for part, name, _, _ in parts)
        )
    if source.expression is not None:
        expression = Expression(source.expression)
        return lambda row: None if (present := cells(row)) is None else _computed(expression, present)
    return lambda row: source.constant


def _computed(expression: Expression, cells: Row) -> float:
    values = {name: number(value) for name, value in cells.items()}
    try:
        return expression.evaluate(values)
    except ValueError as error:
        raise Unusable(", ".join(f"{name}={value:g}" for name, value in values.items()), str(error)) from error


def _positive(value: Any) -> bool:
    try:
        return value is not None and number(value) > 0
    except Unusable:
        return False
