"""Values of cells: what a text, number or time of any table means."""

import math
import re
from dataclasses import dataclass
from datetime import time, timedelta
from decimal import Decimal
from typing import Any

from leap.schemas.errors import LeapError

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_GROUPED = re.compile("[+-]?\\d{1,3}(?:[ ',’\u00a0\u202f]\\d{3})+(?P<fraction>\\.\\d+)?", re.ASCII)
_GROUPED_COMMA = re.compile("[+-]?\\d{1,3}(?:[ '.’\u00a0\u202f]\\d{3})+(?P<fraction>,\\d+)?", re.ASCII)
_SCALED = re.compile(r"(?P<number>.*\d)\s?(?P<prefix>[kKMGTP])(?P<binary>i?)B?")
_PREFIXES = "kMGTP"
_WHOLE = re.compile(r"-?\d{1,15}\.0", re.ASCII)

_DAYS = re.compile(
    r"(?:(?P<days>\d+)(?:-| days?,? ))?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+(?:\.\d+)?)", re.ASCII
)
_DAYS_HOURS = re.compile(r"(?P<days>\d+)-(?P<hours>\d+)(?::(?P<minutes>\d+))?", re.ASCII)
_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)[\s,]*", re.ASCII)
_UNITS = {
    **dict.fromkeys(("ms", "msec", "millisecond"), 1e-3), **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0), **dict.fromkeys(("h", "hr", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86400.0), **dict.fromkeys(("w", "week"), 604800.0),
}  # fmt: skip
_NOT_FINITE = frozenset({"inf", "infinity", "nan"})
_NO_DURATION = frozenset({"unlimited", "partition_limit", "not_set", "invalid"})


class Unusable(LeapError, ValueError):
    """An invalid value, with the problem and its remedy."""

    def __init__(self, value: object, problem: str) -> None:
        super().__init__(problem)
        self.value = "" if value is None else str(value)[:200]
        self.problem = problem


def text(value: Any) -> str:
    """Convert to text, alike from every format: the number 8.0 gives ``8``, true and "True" give ``true``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    plain = str(value).strip()
    return plain.lower() if plain in ("True", "False") else plain


def word(value: Any) -> str:
    """Convert to the text by which values are compared: "8.0", as text tables write a whole number, gives ``8``."""
    plain = text(value)
    return plain[:-2] if _WHOLE.fullmatch(plain) else plain


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


@dataclass(frozen=True)
class Numbers:
    """How the numbers of a table are written.

    Attributes
    ----------
    decimal
        Mark before the fraction, ``.`` or ``,``; not stated if None.

    Examples
    --------
    >>> Numbers(",").number("1.234,5"), Numbers(".").number("1,234"), Numbers().number("12.5k")
    (1234.5, 1234.0, 12500.0)
    """

    decimal: str | None = None

    def number(self, value: Any) -> float:
        """Convert to a finite number; ``k`` to ``P`` are powers of 1000, ``Ki`` to ``Pi`` of 1024.

        Raises
        ------
        Unusable
            If it is not a finite number, or could be one of two.
        """
        if isinstance(value, time):  # of a workbook, which has durations below a day as times
            value = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            try:
                result = float(value)
            except OverflowError:
                result = math.inf
        else:
            result = self._parsed(value, text(value))
        if not math.isfinite(result):
            raise Unusable(value, "not finite; list its text under `missing`")
        return result

    def duration(self, value: Any) -> float:
        """Convert to seconds: a number, ``[DD-]HH:MM:SS``, ``MM:SS``, ``1h 3m``, ``P1DT2H``.

        Raises
        ------
        Unusable
            If it is none of them.
        """
        if not isinstance(value, str):
            return self.number(value)
        plain = value.strip().lower()
        if plain in _NO_DURATION:
            raise Unusable(value, "a limit, not how long it ran; take the column of the elapsed time")
        for pattern in (_DAYS_HOURS, _DAYS):
            if found := pattern.fullmatch(plain):
                parts = {name: float(part) for name, part in found.groupdict().items() if part}
                return timedelta(**parts).total_seconds()
        if len(plain) > 2 and (found := _ISO_DURATION.fullmatch(plain.upper())):
            days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
            return timedelta(days, seconds, 0, 0, minutes, hours).total_seconds()
        parts_of = _PART.findall(plain)
        if parts_of and not _PART.sub("", plain) and all(_unit(unit) for _, unit in parts_of):
            return sum(float(amount) * _unit(unit) for amount, unit in parts_of)
        try:
            return self.number(value)
        except Unusable as error:
            raise Unusable(value, f"{error.problem}; durations are seconds, [DD-]HH:MM:SS or as in 1h 3m") from None

    def _parsed(self, value: Any, plain: str) -> float:
        comma = self.decimal == ","
        if (_COMMA if comma else _PLAIN).fullmatch(plain):
            return float(plain.replace(",", "."))
        if scaled := _SCALED.fullmatch(plain):
            power = _PREFIXES.index(scaled["prefix"].replace("K", "k")) + 1
            return self._parsed(value, scaled["number"].strip()) * (1024.0 if scaled["binary"] else 1000.0) ** power
        if plain.lower().lstrip("+-") in _NOT_FINITE:
            return math.inf
        if found := (_GROUPED_COMMA if comma else _GROUPED).fullmatch(plain):
            if self.decimal is None and plain.count(",") == 1 and "." not in plain:
                raise Unusable(value, 'thousands, or a fraction? state the mark: `table: {decimal: "."}`, or ","')
            whole, fraction = plain.removesuffix(found["fraction"] or ""), found["fraction"] or ""
            return float(re.sub("[^0-9+-]", "", whole) + fraction.replace(",", "."))
        if self.decimal is None and (_COMMA.fullmatch(plain) or _GROUPED_COMMA.fullmatch(plain)):
            raise Unusable(value, 'a comma before the fraction? then state it: `table: {decimal: ","}`')
        if _PLAIN.fullmatch(plain):
            raise Unusable(value, "a fraction after a point, though `decimal` is a comma; correct one of them")
        raise Unusable(value, "not a number; correct it, or map its text under `values`")


def _unit(name: str) -> float:
    return _UNITS.get(name) or _UNITS.get(name.removesuffix("s"), 0.0)
