"""The rule of the door for what never came through it: events made in Python, or anything else."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from reprlib import Repr
from typing import Any, get_args

import msgspec
from msgspec import Struct

from leap.schemas.codec import MAX_MESSAGE_BYTES, E, Rejected, decode
from leap.schemas.launch import MAX_EDGES, MAX_OPERATORS, Edge, ModelDefinition, Operator

#: What is shown of a value that is wrong, and how far the one that cannot be encoded is looked for.
MAX_SHOWN = 80
MAX_LOOKED_AT = 1_000
MAX_DEPTH = 8
#: Operators or edges that are checked together. A copy of a whole definition would be so many objects that Python
#: looked for garbage among them, which takes longer than the ranking in a process that has many others.
CHUNK = 128

Path = tuple[str, ...]

_encoder = msgspec.json.Encoder()
_operators = msgspec.json.Decoder(tuple[Operator, ...])
_edges = msgspec.json.Decoder(tuple[Edge, ...])
_definition = msgspec.json.Decoder(ModelDefinition)
_repr = Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = MAX_SHOWN
_repr.maxtuple = _repr.maxlist = _repr.maxdict = 2


def validated(event: object, event_type: type[E]) -> E:
    """The event as :func:`leap.schemas.codec.decode` reads it from its own JSON.

    A struct made in Python is checked by nobody before. Fields in a mapping are as good as a struct. A valid model
    definition is not copied.

    Raises
    ------
    Rejected
        Whatever is wrong with it; the text names the field and its value.

    Examples
    --------
    >>> from leap.schemas.events import JobAllocated
    >>> validated({"attempt_id": 7}, JobAllocated)
    Traceback (most recent call last):
        ...
    leap.schemas.codec.Rejected: attempt_id is 7: Expected `str`, got `int`
    """
    model = part(event, "model")
    if isinstance(event, event_type) and isinstance(model, ModelDefinition):
        with suppress(Exception):  # what is wrong, and where, is told by the whole
            limit = MAX_MESSAGE_BYTES - _checked_length(model)
            rest = _validated(msgspec.structs.replace(event, model=None), event_type, limit)
            return msgspec.structs.replace(rest, model=model)
    return _validated(event, event_type, MAX_MESSAGE_BYTES)


def _validated(event: object, event_type: type[E], limit: int) -> E:
    try:
        data = _encoder.encode(event)
    except Exception as error:  # a string that is no text, an object that is no data, an integer without end
        path, value = _unencodable(event, ())
        raise Rejected(_text(path, value, str(error))) from error
    try:
        checked = decode(data, event_type, limit)
    except Rejected as rejected:
        raise Rejected(_with_value(event, str(rejected))) from rejected
    for path, value in _lost_numbers(checked, event):
        raise Rejected(_text(path, value, "Expected a finite number"))
    return checked


def _checked_length(model: ModelDefinition) -> int:
    """Bytes of a definition's operators and edges; raises if something is wrong with it."""
    if len(model.operators) > MAX_OPERATORS or len(model.edges) > MAX_EDGES:
        raise Rejected("a definition over the limits")
    first = msgspec.structs.replace(model, operators=model.operators[:1], edges=())
    head = _encoder.encode(first)
    _expect_equal(_definition.decode(head), first)
    length = len(head)
    for parts, decoder in ((model.operators, _operators), (model.edges, _edges)):
        for start in range(0, len(parts), CHUNK):
            chunk = parts[start : start + CHUNK]
            data = _encoder.encode(chunk)
            _expect_equal(decoder.decode(data), chunk)
            length += len(data)
    return length


def _expect_equal(decoded: object, given: object) -> None:
    """Raise for what JSON has no type for: bytes are written as text, so the definition may not be taken as it is."""
    if decoded != given:
        raise Rejected("a definition that reads otherwise than it was made")


def clipped(text: str, length: int) -> str:
    """A text as it can be encoded, at most `length` characters of it."""
    return str.encode(text[:length], "utf-8", "backslashreplace").decode()[:length]


def part(whole: object, name: str) -> Any:
    """A field of a struct or mapping; None where there is none, or it cannot be read."""
    try:
        if isinstance(whole, dict):
            return whole.get(name)
        return getattr(whole, name, None) if isinstance(whole, Struct) else None
    except Exception:  # what a subclass does cannot be foreseen
        return None


def _with_value(event: object, message: str) -> str:
    """A message of the decoder, which says where, with the value that is there."""
    expected, _, location = message.rpartition(" - at `$")
    if not expected:
        return _text((), event, message) if not isinstance(event, Struct | dict) else message
    path: list[str] = []
    for name in location.rstrip("`").replace("[", ".").replace("]", "").split(".")[1:]:
        if not name:  # `[...]`, somewhere in a mapping
            break
        path.append(name)
    return _text(tuple(path), _at(event, tuple(path)), expected)


def _at(event: object, path: Path) -> Any:
    value: Any = event
    for name in path:
        if isinstance(value, list | tuple) and name.isdecimal():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = part(value, name)
    return value


def _text(path: Path, value: object, expected: str) -> str:
    try:
        shown = _repr.repr(value)
    except Exception:  # whatever the object does
        shown = f"of type {type(value).__name__}"
    return clipped(f"{'.'.join(path) or 'the event'} is {shown[: 2 * MAX_SHOWN]}: {expected}", 400)


def _unencodable(value: object, path: Path) -> tuple[Path, object]:
    """The innermost part that cannot be encoded, as far as it is looked for."""
    if len(path) < MAX_DEPTH:
        for name, inner in islice(_parts(value), MAX_LOOKED_AT):
            if not _encodes(name):
                return path, name
            if not _encodes(inner):
                return _unencodable(inner, (*path, str(name)[:MAX_SHOWN]))
    return path, value


def _parts(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, Struct):
        yield from ((name, getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def _encodes(value: object) -> bool:
    try:
        _encoder.encode(value)
    except Exception:
        return False
    return True


def _lost_numbers(checked: Struct, event: object) -> Iterator[tuple[Path, object]]:
    """Numbers that were stated and read as absent: JSON has no NaN, and writes null. Structs in lists are left out."""
    numbers, structs = _optional_fields(type(checked))
    for name in numbers:
        if getattr(checked, name) is None and (value := part(event, name)) is not None:
            yield (name,), value
    for name in structs:
        if (inner := getattr(checked, name)) is not None:
            for path, value in _lost_numbers(inner, part(event, name)):
                yield (name, *path), value


@cache
def _optional_fields(struct: type[Struct]) -> tuple[list[str], list[str]]:
    """Names of the fields that hold a float or nothing, and of those that hold a struct."""
    numbers, structs = [], []
    for field in msgspec.structs.fields(struct):
        kinds = (field.type, *get_args(field.type))
        if any(isinstance(kind, type) and issubclass(kind, Struct) for kind in kinds):
            structs.append(field.name)
        elif type(None) in kinds and _holds_float(field.type):
            numbers.append(field.name)
    return numbers, structs


def _holds_float(annotation: Any) -> bool:
    return annotation is float or any(_holds_float(inner) for inner in get_args(annotation))
