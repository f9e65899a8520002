"""What numbers, durations and times of any table mean, and what is said of those that could mean two things."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from leap.streams.backfill.cell_times import Times
from leap.streams.backfill.cell_values import Numbers, Unusable, text, word

NOT_SO = "not a number"


@pytest.mark.parametrize(
    ("decimal", "cell", "expected"),
    [
        (None, "1234.5", 1234.5), (None, " -1e3 ", -1000.0), (None, ".5", 0.5), (None, Decimal("1.5"), 1.5),
        (None, "1,234,567.5", 1234567.5), (None, "1 234 567", 1234567.0), (None, "1'234.5", 1234.5),
        (None, "1\u202f234.5", 1234.5), (None, "1.234", 1.234), (None, timedelta(minutes=1), 60.0),
        (",", "1.234,5", 1234.5), (",", "1.234", 1234.0), (",", "0,46", 0.46), (",", "12 345,5", 12345.5),
        (",", "1,5e3", 1500.0), (",", 1234.5, 1234.5), (".", "1,234", 1234.0),
        (None, "12.5k", 12500.0), (None, "500G", 5e11), (None, "64Gi", 64 * 2.0**30), (None, "512 MiB", 2.0**29),
        (None, "1.234,5", "a comma before the fraction"), (None, "4000,25", "a comma before the fraction"),
        (None, "1,234", "thousands, or a fraction"), (",", "1234.5", "though `decimal` is a comma"),
        (",", "1.2345,6", NOT_SO), (".", "1,23", NOT_SO), (None, "1_000", NOT_SO), (None, "0x10", NOT_SO),
        (None, True, NOT_SO), (None, "", NOT_SO), (None, "١٢", NOT_SO),
        (None, "-inf", "not finite"), (None, 10**400, "not finite"),
    ],
)  # fmt: skip
def test_numbers(decimal: str | None, cell: object, expected: float | str) -> None:
    if isinstance(expected, float):
        assert Numbers(decimal).number(cell) == expected
        return
    with pytest.raises(Unusable, match=expected):
        Numbers(decimal).number(cell)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("90", 90.0), (90.5, 90.5), ("1-02:03:04", 93784.0), ("26:03:04", 93784.0), ("1-02:03:04.567", 93784.567),
        ("00:25", 25.0), ("12:01.5", 721.5), ("2-03", 183600.0), ("2-03:30", 185400.0), ("1 days 02:03:04", 93784.0),
        ("1 day, 2:03:04", 93784.0), ("1h 3m", 3780.0), ("1h3m20s", 3800.0), ("2 hrs, 5 mins", 7500.0),
        ("1.5min", 90.0), ("3 days", 259200.0), ("350ms", 0.35), ("P1DT2H", 93600.0), ("PT1M30.5S", 90.5),
        (timedelta(hours=1), 3600.0), (time(1, 25), 5100.0),
        ("UNLIMITED", "a limit, not how long"), ("Partition_Limit", "a limit, not how long"), ("3 apples", "1h 3m"),
        ("P", "1h 3m"), ("1:2:3:4", "1h 3m"), ("-5", -5.0), ("long", "1h 3m"),
    ],
)  # fmt: skip
def test_durations(cell: object, expected: float | str) -> None:
    if isinstance(expected, float):
        assert Numbers().duration(cell) == pytest.approx(expected)
        return
    with pytest.raises(Unusable, match=expected):
        Numbers().duration(cell)


AT_EIGHT = datetime(2026, 10, 20, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time_format", "cell"),
    [
        ("iso", "2026-10-20T08:00:00Z"), ("iso", "2026-10-20 10:00:00.000+0200"), ("iso", "20261020T080000"),
        ("iso", "2026-10-20 08:00:00 UTC"), ("iso", "2026-10-20 08:00:00 +0000 UTC"), ("iso", "1792483200"),
        ("iso", 1792483200.0), ("iso", 1792483200000), ("iso", "1792483200000000"), ("iso", "1792483200000000000"),
        ("iso", datetime(2026, 10, 20, 8)), ("seconds", "1792483200"), ("milliseconds", 1792483200000),
        ("%d.%m.%Y %H:%M", "20.10.2026 08:00"), ("%d.%m.%Y %H:%M", AT_EIGHT),
    ],
)  # fmt: skip
def test_times(time_format: str, cell: object) -> None:
    assert Times(time_format).moment(cell) == AT_EIGHT


def test_days_are_their_midnight() -> None:
    assert Times().moment(date(2026, 10, 20)) == Times().moment("2026-10-20") == AT_EIGHT.replace(hour=0)


@pytest.mark.parametrize(
    ("time_format", "cell", "problem"),
    [
        ("iso", "20.10.2026 08:00", r'as in `time_format: "%d.%m.%Y %H:%M"`'),
        ("iso", "202610200800", "does not match"),  # neither a date nor a number since 1970 after the year 2000
        ("seconds", "2026-10-20", NOT_SO),
        ("%Y", "20.10.2026", "`time_format: %Y`; correct one"),
    ],
)
def test_no_time(time_format: str, cell: object, problem: str) -> None:
    with pytest.raises(Unusable) as error:
        Times(time_format).moment(cell)
    assert problem in error.value.problem


@pytest.mark.parametrize(
    ("zone", "cell", "after", "expected"),
    [
        ("America/Los_Angeles", "2026-11-01T01:10:00", None, "2026-11-01T08:10:00Z"),  # the first of two
        ("America/Los_Angeles", "2026-11-01T01:10:00", "2026-11-01T08:45:00Z", "2026-11-01T09:10:00Z"),
        ("America/Los_Angeles", "2026-11-01T01:10:00", "2026-11-01T08:10:00Z", "2026-11-01T08:10:00Z"),
        ("America/Los_Angeles", "2026-03-08T03:15:00", None, "2026-03-08T10:15:00Z"),
        ("Europe/London", "2026-10-25T01:10:00", None, "2026-10-25T00:10:00Z"),
        ("Australia/Lord_Howe", "2026-04-05T01:45:00", "2026-04-04T14:50:00Z", "2026-04-04T15:15:00Z"),  # half an hour
        ("Europe/Berlin", "2026-10-20T08:00:00+00:00", None, "2026-10-20T08:00:00Z"),
        ("Europe/Berlin", "1792483200", None, "2026-10-20T08:00:00Z"),
    ],
)
def test_local_times(zone: str, cell: str, after: str | None, expected: str) -> None:
    not_before = None if after is None else datetime.fromisoformat(after)
    assert Times(zone=ZoneInfo(zone)).moment(cell, not_before) == datetime.fromisoformat(expected)


def test_a_local_time_that_never_was_is_refused() -> None:
    with pytest.raises(Unusable, match="no clock in Europe/Berlin showed it"):
        Times(zone=ZoneInfo("Europe/Berlin")).moment("2026-03-29 02:30:00")


@pytest.mark.parametrize(
    ("cell", "expected", "compared"),
    [(8.0, "8", "8"), ("8.0", "8.0", "8"), (True, "true", "true"), ("True", "true", "true"), (b" x", "x", "x")],
)
def test_texts_are_alike_from_every_format(cell: object, expected: str, compared: str) -> None:
    assert (text(cell), word(cell)) == (expected, compared)
