"""The parts of a mapping: the source of a value, the test of a row, and the format of the table."""

import codecs
import string
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from leap.schemas.backfill.expression import Expression

#: A built-in column: the row number, from 1 without the header.
ROW_NUMBER = "row_number"
#: Texts that stand for a missing value, unless a mapping lists others.
MISSING = ("", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT", "N/A", "#N/A")
#: One column, or several of which the first that has a value is taken.
Columns = str | Annotated[tuple[str, ...], Meta(min_length=1)]

_FORMS = ("column", "constant", "template", "expression")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Source of a value; exactly one of the first four.

    Attributes
    ----------
    column
        A column of the table, or a name under ``derived``. Of several the first that has a value; the table needs one
        of them. A dot leads into JSON: ``summary.train/loss``.
    constant
        A literal value for every row.
    template
        Text with columns in braces: ``"{cluster}/{job_id}"``.
    expression
        Arithmetic over columns: see :class:`leap.schemas.backfill.expression.Expression`.
    pattern
        Regular expression: the value is its first group, or all that it matches; missing where it matches nowhere.
    values
        Replacements for texts of the table; other texts are unchanged.
    scale
        Factor: 1000 converts thousands to units.
    default
        Value if a required column is missing.
    optional
        Whether the table may lack the column, which is missing in all rows then.
    """

    column: Columns | None = None
    constant: float | bool | str | None = None
    template: str | None = None
    expression: str | None = None
    pattern: str | None = None
    values: dict[str, str | float | bool] = {}
    scale: float | None = None
    default: float | bool | str | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        given = [form for form in _FORMS if getattr(self, form) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(_FORMS)}; found {', '.join(given) or 'none'}")
        if self.template is not None:
            parts = [part for part in string.Formatter().parse(self.template) if part[1] is not None]
            if not parts or any(not name or form or convert for _, name, form, convert in parts):
                raise ValueError("a template names columns in braces and no formats, as in '{cluster}/{job_id}'")
        if self.expression is not None:
            Expression(self.expression)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the value depends on."""
        if self.column is not None:
            return (self.column,) if isinstance(self.column, str) else self.column
        if self.template is not None:
            return tuple(name for _, name, _, _ in string.Formatter().parse(self.template) if name)
        if self.expression is not None:
            return Expression(self.expression).columns
        return ()


Field = Source | str | int | float | bool


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A test on a column; rows that fail it are skipped. Exactly one of the first four tests is given.

    Attributes
    ----------
    column
        A column of the table; of several the first that has a value.
    equals
        The text, or one of the texts, of the column; case-insensitive.
    missing
        Whether the column must be missing (true) or present (false).
    positive
        Whether the column must be a positive number (true) or not (false).
    matches
        Regular expression that must match somewhere in the column.
    negate
        ``not: true`` keeps the rows that fail the test.
    """

    column: Columns
    equals: str | float | bool | tuple[str | float | bool, ...] | None = None
    missing: bool | None = None
    positive: bool | None = None
    matches: str | None = None
    negate: bool = msgspec.field(default=False, name="not")

    def __post_init__(self) -> None:
        if sum(test is not None for test in (self.equals, self.missing, self.positive, self.matches)) != 1:
            raise ValueError("give exactly one of equals, missing, positive, matches")


class TableFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the file is read, where it does not say so itself.

    Attributes
    ----------
    delimiter
        Between values; found among ``,``, ``;``, tab and ``|`` unless given.
    encoding
        Of the text; unless given by a byte order mark, else UTF-8, else cp1252.
    header
        Line of the column names, from 1; the first that has all columns of the mapping unless given.
    decimal
        Mark between the whole part of a number and its fraction. The other one groups thousands.
    sheet
        Sheet of a workbook; the first that has all columns of the mapping unless given.
    """

    delimiter: Annotated[str, Meta(min_length=1, max_length=1)] | None = None
    encoding: str | None = None
    header: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    decimal: Literal[".", ","] | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except (LookupError, ValueError):
                raise ValueError(
                    f"encoding {self.encoding!r} is unknown; write a name such as cp1252 or utf-16"
                ) from None
