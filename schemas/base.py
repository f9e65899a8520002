"""The base class of all events."""

from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

YEARS = range(1970, 2200)

# Years are checked in __post_init__, because arithmetic overflows near the limits of the calendar.
Time = Annotated[datetime, Meta(tz=True, extra_json_schema={"pattern": "^(19[7-9]|20[0-9]|21[0-9])[0-9]-"})]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base class of all events.

    Unknown fields are forbidden so that decoding detects them; :mod:`leap.schemas.codec` moves them to `unknown`.

    Attributes
    ----------
    schema_version
        Schema version of the message, 1 if absent; set by the encoder.
    unknown
        Fields of a newer producer that this version does not know; preserved, never an error.

    Raises
    ------
    ValueError
        If a time is outside the years 1970 to 2199.
    """

    VERSION: ClassVar[int] = 1

    schema_version: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    unknown: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in _times(type(self)):
            value = getattr(self, name)
            if value is not None and value.year not in YEARS:
                raise ValueError(f"{name}: {value.isoformat()} is outside {YEARS[0]} to {YEARS[-1]}")


@cache
def _times(event_type: type[Event]) -> tuple[str, ...]:
    """Names of the datetime fields."""
    types = get_type_hints(event_type)
    return tuple(name for name in event_type.__struct_fields__ if datetime in (types[name], *get_args(types[name])))
