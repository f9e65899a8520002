"""Hardware types of events by their names in the catalog, however the launcher wrote them."""

from typing import Any, TypeVar

from msgspec.structs import replace

from leap.schemas.events import Event, JobAllocated, JobCompleted, JobSubmitted, PreferenceList
from leap.schemas.hardware import Catalog

E = TypeVar("E", bound=Event)


def resolved(event: E, catalog: Catalog) -> E:
    """The event with every hardware type under its canonical name; a name that the catalog does not know stays.

    Candidates of a submission that are one type are one candidate; those of a list stay as many as its features are of.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from leap.schemas.hardware import load_catalog
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> event = JobAllocated(attempt_id="a-1", hardware_type="Tesla T4", hosts=1, accelerators=1, allocated_at=at)
    >>> resolved(event, load_catalog()).hardware_type
    'T4'
    """
    canonical = catalog.canonical
    changed: dict[str, Any]
    match event:
        case JobSubmitted():
            changed = {"candidates": tuple(dict.fromkeys(map(canonical, event.candidates)))}
        case JobAllocated() | JobCompleted():
            changed = {"hardware_type": canonical(event.hardware_type)}
        case PreferenceList():
            changed = {"candidates": tuple(map(canonical, event.candidates))}
            for name in ("ranked", "excluded"):
                found = tuple(
                    candidate
                    if (known := canonical(candidate.hardware_type)) == candidate.hardware_type
                    else replace(candidate, hardware_type=known)
                    for candidate in getattr(event, name)
                )
                changed[name] = found
        case _:
            return event
    if isinstance(event, JobSubmitted | PreferenceList) and event.pinned is not None:
        changed["pinned"] = canonical(event.pinned)
    if all(getattr(event, name) == value for name, value in changed.items()):
        return event
    return replace(event, **changed)
