"""Where artifacts live, and the pointer that says which one is in production.

Layout: ``<root>/<target>/<version>/...`` and ``<root>/<target>/production.json``. Artifacts never change;
the pointer moves atomically, and only from where the mover believes it to be.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.signing import SigningKey
from leap.schemas.errors import LeapError

POINTER = "production.json"
#: What a version may be called: one name of a folder, never one that leads out of its own.
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
Version = Annotated[str, Meta(pattern=rf"^{VERSION.pattern}\Z")]


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """What is in production for one target.

    Attributes
    ----------
    previous
        What was before, for a rollback.
    pinned
        An operator holds it here: nights do not move it.
    """

    version: Version
    previous: Version | None = None
    reason: str
    moved_at: datetime
    pinned: bool = False


class PointerMoved(LeapError, RuntimeError):
    """Somebody else moved the pointer first; read it again and decide anew."""


class ArtifactStore(Protocol):
    """What the night writes to and serving reads from; one contract suite covers every implementation."""

    def versions(self, target: str) -> list[str]:
        """All versions of a target, oldest first."""

    def folder(self, target: str, version: str) -> Path:
        """A local directory with the artifact's files.

        Raises
        ------
        ArtifactError
            If there is no such version, or it must be signed by a trusted key and is not.
        """

    def manifest(self, target: str, version: str) -> bytes:
        """Its manifest alone, whoever signed it.

        Raises
        ------
        ArtifactError
            If there is no such version.
        """

    def sign(self, target: str, version: str, key: SigningKey) -> None:
        """Put the signature of a key beside those that an artifact has.

        Raises
        ------
        ArtifactError
            If there is no such version.
        """

    def add(self, target: str, folder: Path) -> None:
        """Take a folder of :func:`leap.predictor.artifacts.artifact.write`; readers see all of it or nothing."""

    def remove(self, target: str, version: str) -> None:
        """Delete an artifact; one that is not there is no error."""

    def pointer(self, target: str) -> Pointer | None:
        """What is in production, if anything is."""

    def move(self, target: str, pointer: Pointer, expected: Pointer | None) -> None:
        """Move production to `pointer` if it is at `expected` now, pinned or not as there; torn is at nothing.

        Raises
        ------
        ArtifactError
            As `folder`, of ``pointer.version``.
        PointerMoved
            If it is not.
        """


def missing(version: str, target: str, root: str) -> ArtifactError:
    """The error for a version that is not there."""
    return ArtifactError(f"no artifact {version!r} of target {target!r} under {root}; see `leap artifact list`")


def read_pointer(data: bytes) -> Pointer:
    """Decode a pointer file.

    Raises
    ------
    ArtifactError
        If it is not one.
    """
    try:
        return msgspec.json.decode(data, type=Pointer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(f"{POINTER}: {error}; promote an artifact again") from error


def pointer_or_none(store: ArtifactStore, target: str) -> Pointer | None:
    """The pointer as whoever is to put another in its place needs it: one that cannot be read is none."""
    try:
        return store.pointer(target)
    except ArtifactError:
        return None


def check_expected(current: Pointer | None, expected: Pointer | None, target: str) -> None:
    """Raise `PointerMoved` unless `current` is `expected`."""
    if current != expected:
        raise PointerMoved(
            f"production of {target!r} is at {_named(current)}, not at {_named(expected)}; another writer won"
        )


def _named(pointer: Pointer | None) -> str:
    return f"{pointer.version}{' (pinned)' if pointer.pinned else ''}" if pointer else "nothing"


def prune(store: ArtifactStore, target: str, keep: int) -> list[str]:
    """Remove all but the newest `keep`, the one in production and the one to roll back to; returns the removed."""
    pointer = store.pointer(target)
    needed = {pointer.version, pointer.previous} if pointer else set()
    doomed = [version for version in store.versions(target)[:-keep] if version not in needed]
    for version in doomed:
        store.remove(target, version)
    return doomed
