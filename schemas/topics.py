"""Topic declarations, one YAML file each under ``schemas/topics``."""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from leap.schemas import events
from leap.schemas.events import Event
from leap.schemas.safe_yaml import read_yaml

FOLDER = Path(__file__).parent / "topics"
DAY_MS = 86_400_000


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Declaration of a topic: its event, producers, consumers and broker configuration.

    Attributes
    ----------
    event
        Name of the struct in :mod:`leap.schemas.events`.
    key
        Content of the message key. It only determines the partition; correctness does not depend on it.
    retention_days
        Retention in days; not used with compaction alone.
    max_message_bytes
        Maximum message size on the broker.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,127}$")]
    event: str
    version: Annotated[int, Meta(ge=1)]
    description: str
    producers: Annotated[tuple[str, ...], Meta(min_length=1)]
    consumers: tuple[str, ...]
    key: str
    partitions: Annotated[int, Meta(ge=1, le=4096)]
    retention_days: Annotated[int, Meta(ge=1, le=3650)]
    cleanup: Literal["delete", "compact", "compact,delete"]
    compatibility: Literal["backward"]
    max_message_bytes: Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)] = 1_048_576

    @property
    def retention_ms(self) -> int:
        """Retention in milliseconds."""
        return self.retention_days * DAY_MS

    @property
    def event_type(self) -> type[Event]:
        """Event type of the topic."""
        event_type = getattr(events, self.event, None)
        if not (isinstance(event_type, type) and issubclass(event_type, Event) and event_type is not Event):
            raise ValueError(f"{self.event} is not an event of leap.schemas.events")
        return event_type


@cache
def load_topics(folder: Path = FOLDER) -> dict[str, Topic]:
    """Read all declarations.

    Returns
    -------
    dict
        Topic name to its declaration, sorted by name.

    Raises
    ------
    ValueError
        If a file is not a valid declaration; the message names the file and the field.
    """
    topics = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            topic = msgspec.convert(read_yaml(path), Topic)
            if topic.version != topic.event_type.VERSION:
                raise ValueError(f"version {topic.version}, but {topic.event} is {topic.event_type.VERSION}")
            if topic.name != path.stem:
                raise ValueError(f"is named {topic.name}; file and topic must have the same name")
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        topics[topic.name] = topic
    return topics


SUBMITTED = "job-submitted"
ALLOCATED = "job-allocated"
COMPLETED = "job-completed"
PREFERENCES = "preference-list"
ATTEMPTS = "job-attempt"
ARTIFACTS = "artifact-published"
DEAD_LETTERS = "dead-letter"
