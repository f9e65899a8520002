"""Readers of a mapping's fields: each source becomes a function of the row."""

import math
import re
import string
from collections.abc import Callable
from typing import Any

from leap.predictor.features.family_patterns import bounded_pattern
from leap.schemas.backfill.expression import Expression
from leap.schemas.backfill.mapping import Condition, Field, Source
from leap.streams.backfill.cell_values import Numbers, Unusable, text, word
from leap.streams.tables.table import Row

Reader = Callable[[Row], Any]

#: Ways in which a pattern may match from one place of a cell: two repeats without a bound, and a little.
MAX_WAYS = 2_000_000
#: Of a longer cell a pattern sees the beginning.
MAX_SEARCHED = 65_536


def reader(field: Field, missing: frozenset[str], numbers: Numbers = Numbers()) -> Reader:  # noqa: B008
    """A function from a row to the field's value, None if missing.

    Parameters
    ----------
    field
        A column name, a literal, or a source.
    missing
        Texts that stand for a missing value.
    numbers
        How numbers are written.

    Raises
    ------
    leap.predictor.features.family_patterns.PatternError
        If a pattern is refused.

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
    source, read = field, _form(field, missing, numbers)
    pattern = None if source.pattern is None else bounded_pattern(source.pattern, MAX_WAYS)

    def value(row: Row) -> Any:
        cell = read(row)
        if cell is not None and pattern is not None:
            cell = captured(pattern, cell)
        if cell is not None and source.values:
            keys = (str(cell).strip(), text(cell), word(cell))
            cell = next((source.values[key] for key in keys if key in source.values), cell)
        if cell is not None and source.scale is not None:
            cell = numbers.number(cell) * source.scale
        return source.default if cell is None else cell

    return value


def captured(pattern: re.Pattern[str], cell: Any) -> str | None:
    """The first group that takes part in a match, or all of it; None if there is no match."""
    found = pattern.search(text(cell)[:MAX_SEARCHED])
    if found is None:
        return None
    return next((group for group in found.groups() if group is not None), None if found.groups() else found[0])


def condition(test: Condition, missing: frozenset[str], numbers: Numbers = Numbers()) -> Callable[[Row], bool]:  # noqa: B008
    """A function that tells whether a row meets a condition."""
    passes = _test(test, reader(Source(column=test.column), missing), numbers)
    return (lambda row: not passes(row)) if test.negate else passes


def _test(test: Condition, read: Reader, numbers: Numbers) -> Callable[[Row], bool]:
    if test.missing is not None:
        return lambda row: (read(row) is None) == test.missing
    if test.positive is not None:
        return lambda row: _positive(read(row), numbers) == test.positive
    if test.matches is not None:
        pattern = bounded_pattern(test.matches, MAX_WAYS)
        return lambda row: (cell := read(row)) is not None and pattern.search(text(cell)[:MAX_SEARCHED]) is not None
    wanted = test.equals if isinstance(test.equals, tuple) else (test.equals,)
    words = frozenset(word(value).lower() for value in wanted)
    return lambda row: (cell := read(row)) is not None and word(cell).lower() in words


def _form(source: Source, missing: frozenset[str], numbers: Numbers) -> Reader:
    columns = source.columns

    def present(row: Row, name: str) -> Any:
        value = row.get(name)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        return None if isinstance(value, str) and value.strip() in missing else value

    def cells(row: Row) -> dict[str, Any] | None:
        found = {name: present(row, name) for name in columns}
        return None if any(value is None for value in found.values()) else found

    if isinstance(source.column, str):
        name = source.column
        return lambda row: present(row, name)
    if source.column is not None:
        return lambda row: next((value for name in columns if (value := present(row, name)) is not None), None)
    if source.template is not None:
        # str.format would read a name such as job.id as an attribute
        parts = tuple(string.Formatter().parse(source.template))
        return lambda row: (
            None
            if (found := cells(row)) is None
            else "".join(part + (text(found[name]) if name else "") for part, name, _, _ in parts)
        )
    if source.expression is not None:
        expression = Expression(source.expression)
        return lambda row: None if (found := cells(row)) is None else _computed(expression, found, numbers)
    return lambda row: source.constant


def _computed(expression: Expression, cells: Row, numbers: Numbers) -> float:
    values = {name: numbers.number(value) for name, value in cells.items()}
    try:
        return expression.evaluate(values)
    except ValueError as error:
        raise Unusable(", ".join(f"{name}={value:g}" for name, value in values.items()), str(error)) from error


def _positive(value: Any, numbers: Numbers) -> bool:
    try:
        return value is not None and numbers.number(value) > 0
    except Unusable:
        return False
