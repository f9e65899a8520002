"""Backward compatibility: does a changed JSON Schema accept every message that the old one accepted?

Only the keywords that :func:`msgspec.json.schema` writes are supported; any other, including a misspelt one, is
reported as a problem so that it cannot hide a change.
"""

from collections.abc import Iterator
from typing import Any

Schema = Any  # a JSON Schema: an object, true (accepts everything) or false (accepts nothing)

_ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}
_LOWER = ("minimum", "exclusiveMinimum"), ("minLength",), ("minItems",), ("minProperties",)
_UPPER = ("maximum", "exclusiveMaximum"), ("maxLength",), ("maxItems",), ("maxProperties",)
_EXACT = ("pattern", "format", "multipleOf", "uniqueItems")
_NESTED = ("additionalProperties", "propertyNames", "items")
_UNDERSTOOD = (
    {"type", "enum", "properties", "required", "contentEncoding"}
    | {keyword for group in (*_LOWER, *_UPPER) for keyword in group}
    | {*_EXACT, *_NESTED, *_ANNOTATIONS}
)
_ABSENT = object()


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Changes that make `new` reject, or read differently, a message that is valid under `old`.

    A new optional field is compatible, even if an old message has another value under its name.

    Returns
    -------
    list of str
        One line per problem, starting with the path of the field; empty if there is none.

    Examples
    --------
    >>> breaking_changes({"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 5})
    ['$: maxLength is narrower, 5 instead of 9']
    >>> breaking_changes({"type": "integer"}, {"type": "number"})
    []
    """
    return list(_Comparison(old, new).compare(old, new, "$"))


class _Comparison:
    """Both documents, to resolve references, and the pairs being compared, to end recursion."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self.old_root = old
        self.new_root = new
        self.open: set[tuple[int, int]] = set()

    def compare(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        old_options, new_options = _options(old, self.old_root), _options(new, self.new_root)
        for option in old_options:
            problems = [list(self._compare_option(option, other, where)) for other in new_options]
            yield from min(problems, key=len)

    def _compare_option(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        pair = id(old), id(new)
        if new is True or old is False or pair in self.open:
            return
        if new is False:
            yield f"{where}: is no longer accepted"
            return
        self.open.add(pair)
        old = {} if old is True else old
        for keyword in sorted((old.keys() | new.keys()) - _UNDERSTOOD):
            yield f"{where}: keyword {keyword!r} is not supported; correct it, or add it to {__name__}"
        yield from _compare_values(old, new, where)
        yield from _compare_limits(old, new, where)
        yield from self._compare_fields(old, new, where)
        for keyword in _NESTED:
            step = {"items": "[*]", "additionalProperties": ".*", "propertyNames": " (names)"}[keyword]
            yield from self.compare(old.get(keyword, True), new.get(keyword, True), where + step)
        self.open.remove(pair)

    def _compare_fields(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        old_fields, new_fields = old.get("properties", {}), new.get("properties", {})
        old_required, new_required = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted(new_required - old_required):
            yield f"{where}.{name}: is required now"
        for name, old_field in old_fields.items():
            if name not in new_fields:
                yield f"{where}.{name}: is missing"
                continue
            yield from self.compare(old_field, new_fields[name], f"{where}.{name}")
            before, after = _default(old_field), _default(new_fields[name])
            if name not in old_required | new_required and not _same(before, after):
                yield f"{where}.{name}: messages without it would read {after!r} instead of {before!r}"


def _compare_values(old: Schema, new: Schema, where: str) -> Iterator[str]:
    old_types, new_types = _types(old), _types(new)
    if lost := sorted(old_types - new_types - ({"integer"} if "number" in new_types else set())):
        yield f"{where}: {' and '.join(lost)} is no longer accepted"
    if "enum" in new:
        if "enum" not in old:
            yield f"{where}: only {new['enum']} are accepted now"
        elif gone := [value for value in old["enum"] if not any(_same(value, allowed) for allowed in new["enum"])]:
            yield f"{where}: {gone} are no longer accepted"


def _compare_limits(old: Schema, new: Schema, where: str) -> Iterator[str]:
    for keywords in _LOWER:
        before, after = _bounds(old, keywords), _bounds(new, keywords)
        if after and (not before or max(after) > max(before)):
            yield _narrower(keywords, old, new, where)
    for keywords in _UPPER:
        before, after = _bounds(old, keywords, -1), _bounds(new, keywords, -1)
        if after and (not before or min(after) < min(before)):
            yield _narrower(keywords, old, new, where)
    for keyword in _EXACT:
        if keyword in new and not _same(new[keyword], old.get(keyword, _ABSENT)):
            yield _narrower((keyword,), old, new, where)
    if old.get("contentEncoding") != new.get("contentEncoding"):
        yield f"{where}: is encoded as {new.get('contentEncoding')} instead of {old.get('contentEncoding')}"


def _bounds(schema: Schema, keywords: tuple[str, ...], sign: int = 1) -> list[tuple[float, int]]:
    """Limits sorted by strictness: at the same value the exclusive limit is stricter."""
    return [(schema[keyword], sign * keyword.startswith("exclusive")) for keyword in keywords if keyword in schema]


def _narrower(keywords: tuple[str, ...], old: Schema, new: Schema, where: str) -> str:
    before, after = (
        " and ".join(str(schema[keyword]) for keyword in keywords if keyword in schema) or "none"
        for schema in (old, new)
    )
    return f"{where}: {'/'.join(k for k in keywords if k in new)} is narrower, {after} instead of {before}"


def _types(schema: Schema) -> set[str]:
    if "type" in schema:
        return {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    if "enum" in schema:
        return {_type_of(value) for value in schema["enum"]}
    return {"null", "boolean", "integer", "number", "string", "array", "object"}


def _type_of(value: Any) -> str:
    names = {
        type(None): "null",
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
    }
    return names.get(type(value), "object")


def _same(value: Any, other: Any) -> bool:
    """Equality of JSON values, in which 1 is not true."""
    return type(value) is type(other) and bool(value == other)


def _default(schema: Schema) -> Any:
    return schema.get("default", _ABSENT) if isinstance(schema, dict) else _ABSENT


def _options(schema: Schema, root: Schema) -> list[Schema]:
    """The alternatives of a schema, with references resolved."""
    if not isinstance(schema, dict) or not {"$ref", "anyOf"} & schema.keys():
        return [schema]
    rest = {keyword: value for keyword, value in schema.items() if keyword not in _ANNOTATIONS}
    if len(rest) > 1:  # a limit next to a reference: reported as not supported
        return [schema]
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        return _options(root["$defs"][name], root) if name in root.get("$defs", {}) else [schema]
    return [option for alternative in schema["anyOf"] for option in _options(alternative, root)]
