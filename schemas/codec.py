"""Encoding events, and decoding and validating messages."""

from functools import cache
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct

from leap.schemas.errors import LeapError
from leap.schemas.events import Event
from leap.schemas.names.slips import warn_of_slips

MAX_MESSAGE_BYTES = 1_048_576
MAX_DECODED_BYTES = 2 * MAX_MESSAGE_BYTES
MAX_UNKNOWN_FIELDS = 256
MAX_UNKNOWN_DEPTH = 32  # far below the encoder's own nesting limit, at any stack depth

E = TypeVar("E", bound=Event)

_encoder = msgspec.json.Encoder()


class Rejected(LeapError, ValueError):
    """An invalid message; the text says what is wrong and where."""


def encode(event: Event) -> bytes:
    """Encode an event as JSON, with its schema version.

    Raises
    ------
    ValueError
        If the result exceeds the limit for decoding (2 MiB).
    """
    if event.schema_version != event.VERSION:
        event = msgspec.structs.replace(event, schema_version=event.VERSION)
    value = _encoder.encode(event)
    if len(value) > MAX_DECODED_BYTES:
        raise ValueError(f"{type(event).__name__} of {len(value)} bytes is over the limit of {MAX_DECODED_BYTES}")
    return value


def decode(value: bytes | None, event_type: type[E], limit: int = MAX_MESSAGE_BYTES) -> E:
    """Decode and validate a message.

    Parameters
    ----------
    value
        The message value.
    event_type
        Event type of the topic.
    limit
        Maximum length in bytes.

    Raises
    ------
    Rejected
        If the message is not valid.

    Examples
    --------
    >>> from leap.schemas.events import JobAllocated
    >>> decode(b'{"attempt_id": 7}', JobAllocated)
    Traceback (most recent call last):
        ...
    leap.schemas.codec.Rejected: Expected `str`, got `int` - at `$.attempt_id`
    """
    if value is None:
        raise Rejected("no value (tombstone)")
    if len(value) > limit:
        raise Rejected(f"{len(value)} bytes, over the limit of {limit}")
    try:
        event: E = _decoder(event_type).decode(value)
        if not _has_unknown(event):
            return event
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # it has unknown fields, or is invalid
    return decode_open(value, event_type)


def decode_open(value: bytes, event_type: type[E]) -> E:
    """Decode in three steps, with unknown fields; `decode` has a fast path without them.

    Raises
    ------
    Rejected
        If the message is not valid.
    """
    try:
        fields = msgspec.json.decode(value)
        if not isinstance(fields, dict):
            raise Rejected(f"expected a JSON object, got {type(fields).__name__}")
        _set_aside_unknown(fields, event_type)
        return msgspec.convert(fields, event_type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Rejected(str(error)[:1024]) from error
    except RecursionError as error:
        raise Rejected("nested too deeply") from error


@cache
def _decoder(event_type: type[E]) -> msgspec.json.Decoder[E]:
    return msgspec.json.Decoder(event_type)


def _has_unknown(struct: Struct) -> bool:
    """Whether the message carries an `unknown` map, whose limits the fast path does not check."""
    if getattr(struct, "unknown", None):
        return True
    for name in _shape(type(struct))[1]:
        part = getattr(struct, name)
        if isinstance(part, Struct) and _has_unknown(part):  # structs in lists have no `unknown` field
            return True
    return False


def _set_aside_unknown(fields: dict[str, Any], struct: type[Struct]) -> None:
    """Move fields that `struct` does not have to ``unknown``, or drop them if it has no such field."""
    known, inner = _shape(struct)
    for name, inner_struct in inner.items():
        part = fields.get(name)
        for item in part if isinstance(part, list) else (part,):
            if isinstance(item, dict):
                _set_aside_unknown(item, inner_struct)
    new = fields.keys() - known
    if not new and "unknown" not in fields:
        return
    unknown = fields.setdefault("unknown", {}) if "unknown" in known else {}
    if not isinstance(unknown, dict):
        raise Rejected("Expected `object` - at `$.unknown`")
    warn_of_slips(new, known, struct.__name__)
    for name in new:
        unknown[name] = fields.pop(name)
    if len(unknown) > MAX_UNKNOWN_FIELDS:
        raise Rejected(f"{len(unknown)} unknown fields, over the limit of {MAX_UNKNOWN_FIELDS}")
    if _deeper_than(MAX_UNKNOWN_DEPTH, unknown):
        raise Rejected(f"unknown fields are nested deeper than {MAX_UNKNOWN_DEPTH}")


@cache
def _shape(struct: type[Struct]) -> tuple[frozenset[str], dict[str, type[Struct]]]:
    """Names of a struct's fields, and the struct types of nested fields, also within lists."""
    inner = {field.name: _struct_in(field.type) for field in msgspec.structs.fields(struct)}
    return frozenset(inner), {name: struct_type for name, struct_type in inner.items() if struct_type is not None}


def _struct_in(annotation: Any) -> type[Struct] | None:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return next((struct_type for part in get_args(annotation) if (struct_type := _struct_in(part)) is not None), None)


def _deeper_than(limit: int, value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
