"""The comparison of schemas: every narrowing is found, no widening is held up, nothing is overlooked."""

import copy
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from leap.schemas.tooling.compatibility import breaking_changes


def record(required: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required or []}


WIDER = [  # from the narrower to the wider; the other way round is the break that is named
    ({"type": "integer"}, {"type": "number"}, r"\$: number is no longer accepted"),
    ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "null is no longer accepted"),
    ({"type": "string"}, {}, "is no longer accepted"),
    ({"type": "string"}, True, "is no longer accepted"),
    (False, {"type": "string"}, "is no longer accepted"),
    ({"enum": ["a"]}, {"enum": ["b", "a"]}, r"\['b'\] are no longer accepted"),
    ({"enum": ["a"]}, {"type": "string"}, r"only \['a'\] are accepted now"),
    ({"enum": [1]}, {"enum": [1, True]}, r"\[True\] are no longer accepted"),
    ({"minimum": 2}, {"minimum": 1}, "minimum is narrower, 2 instead of 1"),
    ({"minimum": 1}, {}, "minimum is narrower, 1 instead of none"),
    ({"exclusiveMinimum": 0}, {"minimum": 0}, "exclusiveMinimum is narrower, 0 instead of 0"),
    ({"maximum": 1}, {"maximum": 2}, "maximum is narrower, 1 instead of 2"),
    ({"exclusiveMaximum": 1}, {"maximum": 1}, "exclusiveMaximum is narrower"),
    ({"minLength": 1}, {"minLength": 0}, "minLength is narrower"),
    ({"maxLength": 1}, {"maxLength": 2}, "maxLength is narrower"),
    ({"minItems": 1}, {}, "minItems is narrower"),
    ({"maxItems": 1}, {"maxItems": 2}, "maxItems is narrower"),
    ({"minProperties": 1}, {}, "minProperties is narrower"),
    ({"maxProperties": 1}, {"maxProperties": 2}, "maxProperties is narrower"),
    ({"pattern": "^a"}, {}, r"pattern is narrower, \^a instead of none"),
    ({"format": "date-time"}, {}, "format is narrower"),
    ({"multipleOf": 2}, {}, "multipleOf is narrower"),
    ({"uniqueItems": True}, {}, "uniqueItems is narrower"),
    ({"items": {"maximum": 1}}, {"items": {"maximum": 2}}, r"\$\[\*\]: maximum"),
    ({"items": False}, {"items": {"type": "string"}}, r"\$\[\*\]: is no longer accepted"),
    ({"additionalProperties": {"maximum": 1}}, {}, r"\$\.\*: maximum"),
    ({"additionalProperties": False}, {}, r"\$\.\*: is no longer accepted"),
    ({"propertyNames": {"maxLength": 1}}, {}, r"\$ \(names\): maxLength"),
    (record(["a"], a={}), record(a={"default": 1}), r"\$\.a: is required now"),
    (record(["a"], a={"maximum": 1}), record(["a"], a={"maximum": 2}), r"\$\.a: maximum"),
    (record(["a"], a={}), record(["a"], a={}, b={"default": 0}), r"\$\.b: is missing"),
    (
        {"anyOf": [{"type": "null"}, record(["a"], a={})]},
        {"anyOf": [record(a={}), {"type": "null"}]},
        r"\$\.a: is required now",
    ),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": {"maximum": 1}}},
        {"$ref": "#/$defs/B", "$defs": {"B": {"maximum": 2}}},
        r"\$: maximum",
    ),
]


@pytest.mark.parametrize(("narrow", "wide", "problem"), WIDER)
def test_widening_is_compatible_and_narrowing_is_reported(narrow: Any, wide: Any, problem: str) -> None:
    assert breaking_changes(narrow, wide) == []
    assert re.search(problem, "\n".join(breaking_changes(wide, narrow)))


BREAKS = [  # breaks in either direction
    (record(["a"], a={}), record(["b"], b={}), ["$.b: is required now", "$.a: is missing"]),
    (
        record(a={"default": 0}),
        record(a={"default": 1}),
        ["$.a: messages without it would read 1 instead of 0"],
    ),
    (
        record(a={"default": 1}),
        record(a={"default": True}),
        ["$.a: messages without it would read True instead of 1"],
    ),
    ({"pattern": "a"}, {"pattern": "b"}, ["$: pattern is narrower, b instead of a"]),
    ({}, {"contentEncoding": "base64"}, ["$: is encoded as base64 instead of None"]),
    ({"contentEncoding": "base64"}, {}, ["$: is encoded as None instead of base64"]),
    ({"type": "string"}, {"type": "integer"}, ["$: string is no longer accepted"]),
]


@pytest.mark.parametrize(("old", "new", "problems"), BREAKS)
def test_breaking_changes_are_listed(old: Any, new: Any, problems: list[str]) -> None:
    assert breaking_changes(old, new) == problems


@pytest.mark.parametrize(
    "schema",
    [
        {"maxLenght": 5},
        {"Maximum": 5},
        record(a={"maxLenght": 5}),
        {"items": {"maxLenght": 5}},
        {"anyOf": [{"type": "null"}, {"maxLenght": 5}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"maxLenght": 5}}},
        {"$ref": "#/$defs/missing"},
        {"$ref": "elsewhere.json"},
        {"$ref": "#/$defs/A", "maximum": 5, "$defs": {"A": {}}},
        {"anyOf": [{"type": "null"}], "maximum": 5},
        {"not": {"type": "null"}},
    ],
)
def test_unsupported_keyword_is_reported(schema: Any) -> None:
    assert "is not supported" in " ".join(breaking_changes(schema, schema))


def test_breaks_in_every_alternative_are_reported() -> None:
    def document(limit: int, *alternatives: str) -> dict[str, Any]:
        options = [record(["kind"], kind={"enum": [value]}, a={"$ref": "#/$defs/A"}) for value in alternatives]
        return {"anyOf": options, "$defs": {"A": {"maximum": limit}}}

    assert breaking_changes(document(2, "x"), document(1, "y", "x")) == ["$.a: maximum is narrower, 1 instead of 2"]


def test_recursive_schemas_are_compared() -> None:
    def tree(limit: int) -> dict[str, Any]:
        child = {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": None}
        return {"$ref": "#/$defs/Tree", "$defs": {"Tree": record(["n"], n={"maximum": limit}, child=child)}}

    assert breaking_changes(tree(1), tree(2)) == []
    assert breaking_changes(tree(2), tree(1)) == ["$.n: maximum is narrower, 1 instead of 2"]


SMALL = st.integers(0, 3)


def limited(kind: str, *keywords: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=dict.fromkeys(keywords, SMALL))


LEAVES = st.one_of(
    limited("integer", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    limited("number", "minimum", "maximum"),
    limited("string", "minLength", "maxLength"),
    st.sampled_from([{}, {"type": "null"}, {"type": "boolean"}]),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from([None, True, 1, 2, "", "aa"]), min_size=1, unique_by=repr)}
    ),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    required = st.lists(st.sampled_from(["a", "b"]), unique=True)
    return st.one_of(
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.builds(dict, limited("array", "minItems", "maxItems"), items=inner),
        st.builds(dict, limited("object", "minProperties", "maxProperties"), additionalProperties=inner),
        st.builds(lambda needed, a, b: record(needed, a=a, b=b), required, inner, inner),
    )


SCHEMAS = st.recursive(LEAVES, containers, max_leaves=5)
INSTANCES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 4) | st.sampled_from([0.5, 2.5]) | st.text("a", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """A schema and the same with one limit, list or part changed, either first."""
    old = draw(SCHEMAS)
    new = copy.deepcopy(old)
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            visit(value[key])

    visit(new)
    assume(places)
    container, key = draw(st.sampled_from(places))
    value = container[key]
    if isinstance(value, int) and not isinstance(value, bool):
        container[key] = draw(SMALL)
    elif isinstance(value, list) and value:
        value.pop()
        assume(value or key == "required")
    elif isinstance(value, dict) and key != "properties":
        container[key] = draw(SCHEMAS)
    elif isinstance(container, dict) and key != "properties":
        del container[key]
    return (old, new) if draw(st.booleans()) else (new, old)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), st.lists(INSTANCES, min_size=5, max_size=20))
def test_compatible_schema_accepts_every_old_message(pair: tuple[Any, Any], instances: list[Any]) -> None:
    old, new = pair
    assert breaking_changes(old, old) == []
    if not breaking_changes(old, new):
        before, after = jsonschema.Draft7Validator(old), jsonschema.Draft7Validator(new)
        assert not [value for value in instances if before.is_valid(value) and not after.is_valid(value)]
