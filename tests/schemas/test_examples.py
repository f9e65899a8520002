"""Every example is taken by its JSON Schema and by the door, and shows something of its own."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leap.schemas.codec import Rejected, decode, encode
from leap.schemas.tooling.json_schema import ROOT, schema_path
from leap.schemas.topics import load_topics
from tests.schemas.examples import example_paths, topic_of

PATHS = example_paths()
IDS = [path.relative_to(path.parents[2]).as_posix() for path in PATHS]
TOPICS = sorted(load_topics())


def schema_of(path: Path) -> dict[str, Any]:
    text = (ROOT / schema_path(topic_of(path).name, int(path.parent.name[1:]))).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def taken(fields: Any, path: Path) -> tuple[bool, bool]:
    """Whether the schema takes a message, and whether the door does."""
    valid = bool(jsonschema.Draft7Validator(schema_of(path)).is_valid(fields))
    try:
        decode(json.dumps(fields).encode(), topic_of(path).event_type)
    except Rejected:
        return valid, False
    return valid, True


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_examples_round_trip(path: Path) -> None:
    fields = json.loads(path.read_bytes())
    assert taken(fields, path) == (True, True)
    event_type = topic_of(path).event_type
    event = decode(path.read_bytes(), event_type)
    again = decode(encode(event), event_type)
    assert (again.unknown, type(again)) == (event.unknown, event_type)


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_schema_and_decoder_reject_a_missing_required_field(path: Path) -> None:
    fields = json.loads(path.read_bytes())
    for name in schema_of(path)["required"]:
        assert taken({key: value for key, value in fields.items() if key != name}, path) == (False, False), name


@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_schema_and_decoder_reject_a_value_of_another_type(path: Path) -> None:
    fields = json.loads(path.read_bytes())
    for name in fields.keys() & schema_of(path)["properties"].keys():
        assert taken(fields | {name: [[]]}, path) == (False, False), name


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_has_a_minimal_and_a_full_example(topic: str) -> None:
    minimal, full = (
        next(p for p in PATHS if topic_of(p).name == topic and p.stem == name) for name in ("minimal", "full")
    )
    schema = schema_of(full)
    assert json.loads(minimal.read_bytes()).keys() <= {*schema["required"], "no_opinion"}
    missing = schema["properties"].keys() - json.loads(full.read_bytes()).keys() - {"unknown", "no_opinion"}
    assert not missing
