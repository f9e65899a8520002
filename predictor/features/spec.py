"""What a feature is, in words: its formula, its unit, and when it is missing."""

from typing import NamedTuple


class Described(NamedTuple):
    """One feature, as the page of features shows it.

    Attributes
    ----------
    formula
        How it is computed, or what the launcher states.
    unit
        Empty for a number without one.
    missing
        When it is NaN; empty is never.
    """

    formula: str
    unit: str = ""
    missing: str = ""
