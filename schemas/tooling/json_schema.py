"""JSON Schemas, the AsyncAPI document and docs/events.md, generated from the structs and declarations.

The generated files are committed, so that other languages need no Python and reviews show every change of the
contract. :mod:`leap.schemas.tooling.check` verifies that they are up to date and backward compatible.
"""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from leap.schemas.errors import LeapError
from leap.schemas.events import Event
from leap.schemas.tooling.asyncapi import asyncapi
from leap.schemas.tooling.compatibility import breaking_changes
from leap.schemas.tooling.markdown import events_page
from leap.schemas.topics import Topic, load_topics

ROOT = Path(__file__).resolve().parent.parent.parent
JSON = "schemas/json"

_SECTION = re.compile(r"^(\w+)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(\w[\w, ]*)\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)


class BreakingChange(LeapError, ValueError):
    """A schema would reject, or read differently, messages of the same version sent before."""


def schema_path(topic: str, version: int) -> str:
    """Path of the schema of a topic's version, relative to the repository."""
    return f"{JSON}/{topic}.v{version}.json"


def event_schema(event_type: type[Event]) -> dict[str, Any]:
    """Self-contained JSON Schema (draft 7) of an event.

    Descriptions come from the docstrings of the structs. As in `decode`, unknown fields are accepted.
    """
    schema = msgspec.json.schema(event_type)
    definitions = schema["$defs"]
    for definition in definitions.values():
        definition.pop("additionalProperties", None)
        definition["description"], descriptions = _split(definition.get("description", ""))
        if "schema_version" in definition["properties"]:
            descriptions |= _split(inspect.getdoc(Event) or "")[1]
        for name, field in definition["properties"].items():
            if name in descriptions:
                field["description"] = descriptions[name]
    root = definitions.pop(schema["$ref"].rpartition("/")[2])
    root = {"$schema": "http://json-schema.org/draft-07/schema#", **root}
    return {**root, "$defs": definitions} if definitions else root


def generate(topics: Mapping[str, Topic]) -> dict[str, str]:
    """Content of every generated file, by path relative to the repository."""
    schemas = {topic.name: event_schema(topic.event_type) for topic in topics.values()}
    files = {
        schema_path(name, topics[name].version): json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }
    paths = {name: f"./json/{schema_path(name, topics[name].version).rpartition('/')[2]}" for name in schemas}
    files["schemas/asyncapi.yaml"] = asyncapi(topics, paths)
    files["docs/events.md"] = events_page(topics, schemas)
    return files


def find_breaks(generated: Mapping[str, str], baseline: Mapping[str, str]) -> list[str]:
    """Breaking changes from `baseline` to `generated`, both by path; one line per problem."""
    problems = []
    for path in (path for path in generated if path.startswith(JSON)):
        try:
            old = json.loads(baseline.get(path, generated[path]))
        except json.JSONDecodeError as error:
            problems.append(f"{path}: the earlier schema is not JSON ({error}) and cannot be compared")
            continue
        problems += [f"{path}: {problem}" for problem in breaking_changes(old, json.loads(generated[path]))]
    return problems


def on_disk(root: Path = ROOT) -> dict[str, str]:
    """The schemas on disk, by path."""
    return {f"{JSON}/{path.name}": path.read_text(encoding="utf-8") for path in (root / JSON).glob("*.json")}


def export(root: Path = ROOT, baseline: Mapping[str, str] | None = None) -> list[str]:
    """Write every generated file that is missing or out of date.

    Parameters
    ----------
    root
        The repository.
    baseline
        Schemas to stay compatible with, by path; by default those on disk.

    Returns
    -------
    list of str
        Paths written.

    Raises
    ------
    BreakingChange
        If a schema is incompatible with the one of the same version; nothing is written.
    """
    files = generate(load_topics(root / "schemas/topics"))
    if problems := find_breaks(files, on_disk(root) if baseline is None else baseline):
        raise BreakingChange("\n".join(problems))
    written = []
    for name, text in files.items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(name)
    return written


def _split(docstring: str) -> tuple[str, dict[str, str]]:
    """Summary of a numpydoc docstring, and the description of each field."""
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", docstring).replace("``", "`")
    descriptions: dict[str, str] = {}
    for title, body in _SECTION.findall(text):
        if title in ("Attributes", "Parameters"):
            for names, description in _ENTRY.findall(body):
                descriptions |= dict.fromkeys(names.split(", "), " ".join(description.split()))
    return " ".join(_SECTION.sub("", text).split()), descriptions
