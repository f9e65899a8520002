"""Topic declarations: read strictly, so that a slip of the pen is an error and not another setting."""

from pathlib import Path

import msgspec
import pytest
import yaml

from leap.schemas import events, topics
from leap.schemas.topics import Topic, load_topics

DECLARATION = {
    "name": "job-allocated",
    "event": "JobAllocated",
    "version": 1,
    "description": "The scheduler gave an attempt its hardware.",
    "producers": ["scheduler"],
    "consumers": ["attempt joiner"],
    "key": "attempt_id",
    "partitions": 12,
    "retention_days": 35,
    "cleanup": "delete",
    "compatibility": "backward",
    "max_message_bytes": 65536,
}


def declare(folder: Path, text: str) -> Path:
    path = folder / "job-allocated.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_declaration_is_parsed(tmp_path: Path) -> None:
    declare(tmp_path, yaml.safe_dump(DECLARATION))
    (topic,) = load_topics(tmp_path).values()
    assert msgspec.to_builtins(topic) | {"producers": ["scheduler"], "consumers": ["attempt joiner"]} == DECLARATION
    assert topic.event_type is events.JobAllocated
    assert topic.retention_ms == 35 * 24 * 3600 * 1000


def test_the_declared_topics_are_those_with_a_name_in_the_module() -> None:
    named = {value for name, value in vars(topics).items() if name.isupper() and isinstance(value, str)}
    assert set(load_topics()) == named


def test_every_topic_accepts_the_maximum_message_size() -> None:
    assert all(topic.max_message_bytes >= 1_048_576 for topic in load_topics().values())


def test_input_topics_outlast_the_training_window() -> None:
    assert all(topic.retention_days > 30 for topic in load_topics().values())


@pytest.mark.parametrize("key", Topic.__struct_fields__)
def test_a_misspelt_key_is_an_error(tmp_path: Path, key: str) -> None:
    declaration = {f"{name}s" if name == key else name: value for name, value in DECLARATION.items()}
    path = declare(tmp_path, yaml.safe_dump(declaration))
    with pytest.raises(ValueError, match=rf"{path}: Object (contains unknown field `{key}s`|missing required field)"):
        load_topics(tmp_path)


@pytest.mark.parametrize("key", [key for key in Topic.__struct_fields__ if key != "max_message_bytes"])
def test_a_missing_key_is_an_error(tmp_path: Path, key: str) -> None:
    path = declare(tmp_path, yaml.safe_dump({name: value for name, value in DECLARATION.items() if name != key}))
    with pytest.raises(ValueError, match=f"{path}: Object missing required field `{key}`"):
        load_topics(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"partition": 3}, "unknown field `partition`"),
        ({"name": "Job_Allocated"}, "regex"),
        ({"name": "job-completed"}, "is named job-completed; file and topic must have the same name"),
        ({"event": "JobAlocated"}, "JobAlocated is not an event"),
        ({"event": "Event"}, "Event is not an event"),
        ({"event": "Hardware"}, "Hardware is not an event"),
        ({"event": "Time"}, "Time is not an event"),
        ({"version": 2}, "version 2, but JobAllocated is 1"),
        ({"version": 0}, "Expected `int` >= 1"),
        ({"producers": []}, "length >= 1"),
        ({"partitions": 0}, "Expected `int` >= 1"),
        ({"partitions": 4097}, "Expected `int` <= 4096"),
        ({"partitions": "12"}, "Expected `int`, got `str`"),
        ({"retention_days": 0}, "Expected `int` >= 1"),
        ({"cleanup": "compacted"}, "Invalid enum value 'compacted'"),
        ({"compatibility": "none"}, "Invalid enum value 'none'"),
        ({"max_message_bytes": 100}, "Expected `int` >= 1024"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_an_error_that_names_file_and_field(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    path = declare(tmp_path, yaml.safe_dump(DECLARATION | change))
    with pytest.raises(ValueError, match=f"{path}: .*{reason}"):
        load_topics(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "a: b: c", "\t", "name: !!python/object:os.system {}", "[" * 5000])
def test_invalid_declaration_file_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    path = declare(tmp_path, text)
    with pytest.raises(ValueError, match=str(path)):
        load_topics(tmp_path)
