"""Checks of the contract: declarations, generated files, examples and backward compatibility."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from leap.schemas import events
from leap.schemas.codec import Rejected, decode
from leap.schemas.events import Event
from leap.schemas.tooling.json_schema import ROOT, find_breaks, generate, on_disk, schema_path
from leap.schemas.topics import Topic, load_topics

EXAMPLES = "schemas/examples"
MIN_EXAMPLES = 2
REGENERATE = "run `leap schemas export` and commit the result"
NEW_VERSION = (
    "undo it, or make it a new version: VERSION of the struct, `version` of the topic's YAML, "
    f"examples under {EXAMPLES}/<topic>/v<N>, then `leap schemas export`"
)


def check(root: Path = ROOT, baseline: Mapping[str, str] | None = None) -> list[str]:
    """Run all checks.

    Parameters
    ----------
    root
        The repository.
    baseline
        Schemas of an earlier commit, by path, to stay compatible with; by default those in `root`.

    Returns
    -------
    list of str
        One line per problem, with its file and remedy; empty if there is none.
    """
    try:
        topics = load_topics(root / "schemas/topics")
        generated = generate(topics)
    except ValueError as error:
        return [f"{error}; correct the declaration"]
    present = on_disk(root)
    breaks = find_breaks(generated, present if baseline is None else baseline)
    return [
        *(f"{problem}; {NEW_VERSION}" for problem in breaks),
        *_undeclared(root, topics),
        *_stale(root, generated),
        *_out_of_sequence(topics, present),
        *_rewritten(topics, generated, present, baseline or {}),
        *_examples(root, topics),
    ]


def _undeclared(root: Path, topics: Mapping[str, Topic]) -> Iterator[str]:
    """Events without a topic, and files that look like declarations but are not read."""
    carried = {topic.event for topic in topics.values()}
    for name, value in vars(events).items():
        is_event = isinstance(value, type) and issubclass(value, Event) and value is not Event
        if is_event and name not in carried:
            yield f"schemas/events.py: no topic carries {name}; declare one in schemas/topics, or delete it"
    for path in sorted((root / "schemas/topics").iterdir()):
        if path.suffix != ".yaml":
            yield f"schemas/topics/{path.name}: is not read; name it <topic>.yaml, or delete it"


def _stale(root: Path, generated: Mapping[str, str]) -> Iterator[str]:
    for name, text in generated.items():
        path = root / name
        if not path.exists():
            yield f"{name}: is missing; {REGENERATE}"
        elif path.read_text(encoding="utf-8") != text:
            yield f"{name}: is out of date; {REGENERATE}"


def _out_of_sequence(topics: Mapping[str, Topic], present: Mapping[str, str]) -> Iterator[str]:
    """Versions run from 1 to the declared one, and every schema belongs to a topic."""
    expected = {
        schema_path(topic.name, version) for topic in topics.values() for version in range(1, topic.version + 1)
    }
    current = {schema_path(topic.name, topic.version) for topic in topics.values()}
    for name in sorted(expected - present.keys() - current):
        yield f"{name}: is missing; versions run from 1 to the declared one; restore it from git"
    for name in sorted(present.keys() - expected):
        yield f"{name}: belongs to no declaration; delete it, or correct `name` and `version` of its topic"


def _rewritten(
    topics: Mapping[str, Topic],
    generated: Mapping[str, str],
    present: Mapping[str, str],
    baseline: Mapping[str, str],
) -> Iterator[str]:
    """Published schemas that were deleted, and earlier versions that were changed."""
    for name, text in baseline.items():
        if name not in present:
            yield f"{name}: was published and is deleted; its messages may still be read: restore it"
        elif name not in generated and present[name] != text:
            yield f"{name}: an earlier version never changes; restore it"


def _examples(root: Path, topics: Mapping[str, Topic]) -> Iterator[str]:
    folders = {
        f"{EXAMPLES}/{topic.name}/v{version}": (topic, version)
        for topic in topics.values()
        for version in range(1, topic.version + 1)
    }
    for folder, (topic, version) in folders.items():
        paths = sorted((root / folder).glob("*.json"))
        if len(paths) < MIN_EXAMPLES:
            yield f"{folder}: {len(paths)} examples; write at least {MIN_EXAMPLES}, a minimal and a full one"
        for path in paths if version == topic.version else ():
            try:
                decode(path.read_bytes(), topic.event_type, topic.max_message_bytes)
            except Rejected as error:
                yield f"{folder}/{path.name}: {error}; correct the example"
    for path in sorted((root / EXAMPLES).rglob("*")):
        name = path.relative_to(root).as_posix()
        parent = path.parent.relative_to(root).as_posix()
        if path.is_file() and not (parent in folders and path.suffix == ".json"):
            yield f"{name}: belongs to no topic and version; move it to {EXAMPLES}/<topic>/v<N>/<name>.json"
