"""Times of cells: their format, their zone, and the hour in which the clock is changed."""

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from leap.streams.backfill.cell_values import Numbers, Unusable, text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Numbers since 1970 from 2000 to 2286: seconds, then a thousand times as many, up to nanoseconds.
_FIRST_S, _LAST_S = 9.4e8, 1e10
_UTC = re.compile(r"( ?\+00:?00)? (UTC|GMT)$")
_STEPS = (1, 1_000, 1_000_000, 1_000_000_000)


@dataclass(frozen=True)
class Times:
    """How the times of a table are written.

    Attributes
    ----------
    time_format
        ``iso``, ``seconds``, ``milliseconds``, or a `strptime` format.
    zone
        Of times without an offset; UTC if None.
    """

    time_format: str = "iso"
    zone: ZoneInfo | None = None
    numbers: Numbers = field(default_factory=Numbers)

    def moment(self, value: Any, after: datetime | None = None) -> datetime:
        """Convert to a time in UTC.

        Parameters
        ----------
        value
            Cell.
        after
            Time that it cannot be before: of a local time that came twice the first is taken that is not.

        Raises
        ------
        Unusable
            If it does not match the format, or the zone's clock never showed it.
        """
        try:
            time = self._parsed(value)
            return time.astimezone(UTC) if time.tzinfo else self._placed(value, time, after)
        except Unusable:
            raise
        except (ValueError, OverflowError, OSError) as error:
            raise Unusable(value, self._remedy()) from error

    def _parsed(self, value: Any) -> datetime:
        if isinstance(value, datetime):  # a pandas Timestamp where Parquet has nanoseconds, which events do not support
            return datetime.fromisoformat(value.isoformat(timespec="microseconds"))
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        if self.time_format in ("seconds", "milliseconds"):
            return _since_1970(self.numbers.number(value) / (1 if self.time_format == "seconds" else 1000))
        plain = text(value)
        if self.time_format != "iso":
            return datetime.strptime(plain, self.time_format)
        if (seconds := _epoch_seconds(plain)) is not None:
            return _since_1970(seconds)
        return datetime.fromisoformat(_UTC.sub("+00:00", plain))

    def _placed(self, value: Any, time: datetime, after: datetime | None) -> datetime:
        if self.zone is None:
            return time.replace(tzinfo=UTC)
        first, second = (time.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first.astimezone(self.zone).replace(tzinfo=None) != time:
            raise Unusable(value, f"no clock in {self.zone} showed it, for it was set forward; is it in another zone?")
        return second if after is not None and first < after else first

    def _remedy(self) -> str:
        if self.time_format == "iso":
            return (
                "does not match `time_format: iso` (2026-10-20T08:00:00, or a number since 1970); "
                'correct it, or state the format, as in `time_format: "%d.%m.%Y %H:%M"`'
            )
        return f"does not match `time_format: {self.time_format}`; correct one of them"


def _epoch_seconds(plain: str) -> float | None:
    """Seconds since 1970 of a number whose size tells its unit, None of any other text."""
    try:
        number = float(plain)
    except ValueError:
        return None
    return next((number / step for step in _STEPS if _FIRST_S <= number / step < _LAST_S), None)


def _since_1970(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
