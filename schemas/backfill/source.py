"""The parts of a mapping: the source of a value, and the test of a row."""

import string

import msgspec

from leap.schemas.backfill.expression import Expression

#: A built-in column: the row number, from 1 without the header.
ROW_NUMBER = "row_number"
_FORMS = ("column", "constant", "template", "expression")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Source of a value; exactly one of the first four.

    Attributes
    ----------
    column
        A column of the table, or a name under ``derived``.
    constant
        A literal value for every row.
    template
        Text with columns in braces: ``"{cluster}/{job_id}"``.
    expression
        Arithmetic over columns: see :class:`leap.schemas.backfill.expression.Expression`.
    values
        Replacements for texts of the table; other texts are unchanged.
    scale
        Factor: 1000 converts thousands to units.
    default
        Value if a required column is missing.
    """

    column: str | None = None
    constant: float | bool | str | None = None
    template: str | None = None
    expression: str | None = None
    values: dict[str, str | float | bool] = {}
    scale: float | None = None
    default: float | bool | str | None = None

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
            return (self.column,)
        if self.template is not None:
            return tuple(name for _, name, _, _ in string.Formatter().parse(self.template) if name)
        if self.expression is not None:
            return Expression(self.expression).columns
        return ()


Field = Source | str | int | float | bool


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A test on a column; rows that fail it are skipped. Exactly one test is given.

    Attributes
    ----------
    equals
        The text, or one of the texts, of the column; case-insensitive.
    missing
        Whether the column must be missing (true) or present (false).
    positive
        Whether the column must be a positive number (true) or not (false).
    """

    column: str
    equals: str | float | bool | tuple[str | float | bool, ...] | None = None
    missing: bool | None = None
    positive: bool | None = None

    def __post_init__(self) -> None:
        if sum(test is not None for test in (self.equals, self.missing, self.positive)) != 1:
            raise ValueError("give exactly one of equals, missing, positive")
