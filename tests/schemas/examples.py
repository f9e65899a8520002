"""The committed examples, for tests that need valid events of every kind."""

from pathlib import Path
from typing import Any

import msgspec

from leap.schemas.tooling.check import EXAMPLES
from leap.schemas.tooling.json_schema import ROOT
from leap.schemas.topics import Topic, load_topics


def example_paths() -> list[Path]:
    """Every example of every topic and version."""
    return sorted((ROOT / EXAMPLES).rglob("*.json"))


def topic_of(path: Path) -> Topic:
    """The topic that an example belongs to."""
    return load_topics()[path.parent.parent.name]


def example(topic: str, name: str = "minimal") -> dict[str, Any]:
    """One example of the current version, decoded afresh."""
    path = ROOT / EXAMPLES / topic / f"v{load_topics()[topic].version}" / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
