"""Door and JSON Schema agree at, just inside and just beyond every bound that a schema declares."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from leap.schemas.codec import Rejected, decode
from leap.schemas.tooling.json_schema import event_schema
from leap.schemas.topics import load_topics
from tests.schemas.examples import example

TOPICS = load_topics()
GRAPH = [("model", "operators"), ("model", "edges")]  # edges must name operators: see test_codec
MAX_FILLED = 1001  # longer lists are tested on their own


def bounded(schema: Any, root: Any, value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Path and schema of every value of an example that has bounds, references and alternatives followed."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for option in schema.get("anyOf", ()):
        yield from bounded(option, root, value, path)
    if any(keyword.lower().startswith(("min", "max", "exclusive")) for keyword in schema):
        yield path, schema
    if isinstance(value, dict):
        for name, inner in value.items():
            below = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if below:
                yield from bounded(below, root, inner, (*path, name))
    if isinstance(value, list) and value and "items" in schema:
        yield from bounded(schema["items"], root, value[0], (*path, 0))


def at_and_beyond(schema: Any, value: Any) -> Iterator[tuple[Any, bool]]:
    """Values at each bound of a schema and beyond it, with whether they are to be taken."""
    step = 1 if schema.get("type") == "integer" else 1e-6
    if "minimum" in schema:
        yield schema["minimum"], True
        yield schema["minimum"] - step, False
    if "exclusiveMinimum" in schema:
        yield schema["exclusiveMinimum"] + step, True
        yield schema["exclusiveMinimum"], False
    if "maximum" in schema:
        yield schema["maximum"], True
        yield schema["maximum"] * (1 + 1e-15) if isinstance(step, float) else schema["maximum"] + 1, False
    for keyword, surplus in (("min", -1), ("max", 1)):
        if f"{keyword}Length" in schema:
            yield "é" * schema[f"{keyword}Length"], True
            yield "é" * (schema[f"{keyword}Length"] + surplus), schema[f"{keyword}Length"] + surplus < 0
        if schema.get(f"{keyword}Items", MAX_FILLED) < MAX_FILLED:
            yield value[:1] * schema[f"{keyword}Items"], True
            yield value[:1] * (schema[f"{keyword}Items"] + surplus), False
        if f"{keyword}Properties" in schema:
            filling = next(iter(value.values()))
            yield {f"k{number}": filling for number in range(schema[f"{keyword}Properties"])}, True
            yield {f"k{number}": filling for number in range(schema[f"{keyword}Properties"] + surplus)}, False


CASES = [
    pytest.param(topic, path, schema, id=f"{topic}-{'.'.join(map(str, path))}")
    for topic in TOPICS
    for root in [event_schema(TOPICS[topic].event_type)]
    for path, schema in bounded(root, root, example(topic, "full"))
    if path not in GRAPH and path[:3] != (*GRAPH[1], 0)
]


@pytest.mark.parametrize(("topic", "path", "schema"), CASES)
def test_values_beyond_a_bound_are_rejected(topic: str, path: tuple[Any, ...], schema: Any) -> None:
    event_type = TOPICS[topic].event_type
    validator = jsonschema.Draft7Validator(event_schema(event_type))
    fields = example(topic, "full")
    container: Any = fields
    for step in path[:-1]:
        container = container[step]
    for changed, expected in list(at_and_beyond(schema, copy.deepcopy(container[path[-1]]))):
        container[path[-1]] = changed
        assert validator.is_valid(fields) == expected, changed
        try:
            decode(json.dumps(fields).encode(), event_type)
            taken = True
        except Rejected as error:
            taken = False
            assert "$." in str(error)
        assert taken == expected, changed


def test_every_integer_field_has_64_bit_bounds() -> None:
    def unbounded(schema: Any, where: str) -> Iterator[str]:
        if isinstance(schema, list):
            for option in schema:
                yield from unbounded(option, where)
        if isinstance(schema, dict):
            fits = schema.get("minimum", -(2**64)) >= -(2**63) and schema.get("maximum", 2**64) < 2**63
            if schema.get("type") == "integer" and not fits:
                yield where
            for key, inner in schema.items():
                if key != "Hardware":  # checks its own figures
                    yield from unbounded(inner, f"{where}.{key}")

    assert [field for topic in TOPICS.values() for field in unbounded(event_schema(topic.event_type), topic.name)] == []
