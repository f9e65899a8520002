"""What is generated: complete, valid by other people's rules, and the same each time."""

import json
import shutil
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import pytest
import yaml
from msgspec import Meta

from leap.schemas import events
from leap.schemas.events import Event
from leap.schemas.tooling.json_schema import ROOT, BreakingChange, event_schema, export, find_breaks, generate
from leap.schemas.topics import load_topics

TOPICS = load_topics()
FILES = generate(TOPICS)


@pytest.mark.parametrize("topic", TOPICS.values(), ids=list(TOPICS))
def test_a_schema_is_valid_complete_in_itself_and_lets_unknown_fields_pass(topic: Any) -> None:
    schema = event_schema(topic.event_type)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    assert 'additionalProperties": false' not in text
    assert {part.split('"')[0] for part in text.split('"$ref": "')[1:]} == {
        f"#/$defs/{name}" for name in schema.get("$defs", {})
    }


@pytest.mark.parametrize("topic", TOPICS.values(), ids=list(TOPICS))
def test_every_field_has_a_description(topic: Any) -> None:
    schema = event_schema(topic.event_type)
    for name, struct in {topic.event: schema, **schema.get("$defs", {})}.items():
        assert struct["description"].endswith(".") and "---" not in struct["description"]
        silent = [field for field, schema in struct["properties"].items() if not schema.get("description")]
        assert not silent or name == "Hardware", (name, silent)


def test_descriptions_are_read_from_the_docstring() -> None:
    class Sampled(Event, frozen=True, kw_only=True):
        """Two ``samples``
        of :class:`leap.schemas.events.Event`.

        Attributes
        ----------
        first, second
            Over two
            lines.
        third
            The ``last``.

        Raises
        ------
        ValueError
            Never.
        """

        first: int
        second: int
        third: int = 0

    schema = event_schema(Sampled)
    assert schema["description"] == "Two `samples` of `leap.schemas.events.Event`."
    descriptions = {name: field["description"] for name, field in schema["properties"].items()}
    assert (descriptions["first"], descriptions["second"], descriptions["third"]) == ("Over two lines.",) * 2 + (
        "The `last`.",
    )
    assert descriptions["unknown"].startswith("Fields of a newer producer")


def test_asyncapi_has_an_operation_per_producer_and_consumer() -> None:
    document = yaml.safe_load(FILES["schemas/asyncapi.yaml"])
    assert document["asyncapi"] == "3.0.0"
    assert document.keys() == {"asyncapi", "info", "defaultContentType", "channels", "operations"}  # no servers
    assert "://" not in FILES["schemas/asyncapi.yaml"]
    assert document["channels"].keys() == TOPICS.keys()
    done = {
        (operation["title"].split(f" {verb} ")[0], operation["action"], operation["channel"]["$ref"])
        for operation in document["operations"].values()
        for verb in [{"send": "writes", "receive": "reads"}[operation["action"]]]
    }
    assert done == {
        (who, action, f"#/channels/{topic.name}")
        for topic in TOPICS.values()
        for action, group in (("send", topic.producers), ("receive", topic.consumers))
        for who in group
    }


def test_the_asyncapi_document_carries_key_settings_and_schema_of_each_topic() -> None:
    document = yaml.safe_load(FILES["schemas/asyncapi.yaml"])
    for name, topic in TOPICS.items():
        channel = document["channels"][name]
        kafka = channel["bindings"]["kafka"]
        assert (channel["address"], kafka["topic"], kafka["partitions"]) == (name, name, topic.partitions)
        assert kafka["topicConfiguration"] == {
            "cleanup.policy": topic.cleanup.split(","),
            "retention.ms": topic.retention_days * 86_400_000,
            "max.message.bytes": topic.max_message_bytes,
        }
        message = channel["messages"][topic.event]
        assert message["bindings"]["kafka"]["key"]["description"] == topic.key
        path = ROOT / "schemas" / message["payload"]["schema"]["$ref"]
        assert json.loads(path.read_text(encoding="utf-8"))["title"] == topic.event


def test_asyncapi_references_resolve() -> None:
    document = yaml.safe_load(FILES["schemas/asyncapi.yaml"])
    for operation in document["operations"].values():
        for reference in (operation["channel"], *operation["messages"]):
            node = document
            for step in reference["$ref"].removeprefix("#/").split("/"):
                node = node[step]


def test_events_page_has_every_field_and_valid_links() -> None:
    page = FILES["docs/events.md"]
    sections = {part.split("\n")[0]: part for part in page.split("\n## ")[1:]}
    for topic in TOPICS.values():
        schema = event_schema(topic.event_type)
        for name, struct in {topic.event: schema, **schema.get("$defs", {})}.items():
            for field in struct["properties"].keys() - {"schema_version", "unknown"}:
                assert f"\n| `{field}`" in sections[name]
    links = {part.split(")")[0] for part in page.split("](#")[1:]}
    assert links <= {name.lower() for name in sections}
    assert "| `accelerators_per_trainer` *required* | integer | 1 to 10000000 | Accelerators per host. |" in page
    assert "| `batch_size` | number or null | above 0, at most 1e+30 |" in page


def test_export_writes_only_changed_files(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "schemas/topics", tmp_path / "schemas/topics")
    assert sorted(export(tmp_path)) == sorted(FILES)
    assert export(tmp_path) == []
    (tmp_path / "docs/events.md").write_text("old", encoding="utf-8")
    assert export(tmp_path) == ["docs/events.md"]
    assert (tmp_path / "docs/events.md").read_text(encoding="utf-8") == FILES["docs/events.md"]


def test_a_breaking_change_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class JobAllocated(Event, frozen=True, kw_only=True):
        """Without most of its fields.

        Attributes
        ----------
        attempt_id
            Shorter.
        """

        attempt_id: Annotated[str, Meta(max_length=100)]

    shutil.copytree(ROOT / "schemas/topics", tmp_path / "schemas/topics")
    export(tmp_path)
    monkeypatch.setattr(events, "JobAllocated", JobAllocated)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with pytest.raises(BreakingChange, match=r"job-allocated.v1.json: \$.attempt_id: maxLength is narrower, 100"):
        export(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
    assert "schemas/json/job-allocated.v1.json" in export(tmp_path, baseline={})


def test_unreadable_baseline_is_reported() -> None:
    (problem,) = find_breaks(FILES, {"schemas/json/dead-letter.v1.json": "<<<<<<< HEAD"})
    assert problem.startswith("schemas/json/dead-letter.v1.json: the earlier schema is not JSON")
