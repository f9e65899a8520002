"""Where artifacts live, and the pointer that says which one is in production.

Layout: ``<root>/<target>/<version>/...`` and ``<root>/<target>/production.json``. Artifacts never change;
the pointer moves atomically, and only from where the mover believes it to be.
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from predictor.durable import sync, sync_folder
from predictor.manifest import FILE as MANIFEST
from predictor.manifest import ArtifactError, read_limited
from predictor.signing import FILE as SIGNATURES
from predictor.signing import SigningKey, TrustedKeys

POINTER = "production.json"
#: What a version may be called: one name of a folder, never one that leads out of its own.
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
Version = Annotated[str, Meta(pattern=rf"^{VERSION.pattern}\Z")]
#: Age of a half-written artifact that a killed process left: nothing takes so long to write.
ABANDONED_S = 86_400.0


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


class PointerMoved(RuntimeError):
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

    def sign(self, target: str, version: str, key: SigningKey) -> None:
        """Put the signature of a key beside those that an artifact has.

        Raises
        ------
        ArtifactError
            If there is no such version.
        """

    def add(self, target: str, folder: Path) -> None:
        """Take an artifact that :func:`predictor.artifact.write` wrote; readers see all of it or nothing."""

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


class LocalStore:
    """Artifacts in a directory of a local or shared POSIX file system.

    Parameters
    ----------
    trusted
        Keys of which one must have signed what is served; none takes all.
    """

    def __init__(self, root: Path, trusted: TrustedKeys | None = None) -> None:
        self.root = root
        self._trusted = trusted

    def versions(self, target: str) -> list[str]:
        """See :class:`ArtifactStore`."""
        names = (path.parent.name for path in (self.root / target).glob(f"*/{MANIFEST}"))
        return sorted(filter(VERSION.fullmatch, names))

    def folder(self, target: str, version: str) -> Path:
        """See :class:`ArtifactStore`."""
        folder = self.root / target / version
        if not VERSION.fullmatch(version) or not (folder / MANIFEST).is_file():
            raise missing(version, target, str(self.root))
        if self._trusted is not None:
            signatures = folder / SIGNATURES
            given = read_limited(signatures) if signatures.exists() else None
            self._trusted.check(read_limited(folder / MANIFEST), given, target, version)
        return folder

    def sign(self, target: str, version: str, key: SigningKey) -> None:
        """See :class:`ArtifactStore`."""
        key.sign_folder(LocalStore(self.root).folder(target, version))  # which need not be signed yet

    def add(self, target: str, folder: Path) -> None:
        """See :class:`ArtifactStore`."""
        place = self.root / target / folder.name
        if folder.resolve() == place.resolve() or place.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        for left in place.parent.glob(".draft-*"):
            if left.stat().st_mtime < time.time() - ABANDONED_S:
                shutil.rmtree(left)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=place.parent))
        shutil.copytree(folder, draft, dirs_exist_ok=True)
        draft.touch()  # not the time of the folder that it was copied from
        sync_folder(draft)
        draft.rename(place)
        sync(place.parent)

    def remove(self, target: str, version: str) -> None:
        """See :class:`ArtifactStore`."""
        place = self.root / target / version
        if VERSION.fullmatch(version) and place.is_dir():
            doomed = place.with_name(f".draft-{version}")
            place.rename(doomed)
            shutil.rmtree(doomed)

    def pointer(self, target: str) -> Pointer | None:
        """See :class:`ArtifactStore`."""
        try:
            return read_pointer(read_limited(self.root / target / POINTER))
        except FileNotFoundError:
            return None

    def move(self, target: str, pointer: Pointer, expected: Pointer | None) -> None:
        """See :class:`ArtifactStore`."""
        self.folder(target, pointer.version)
        with self._locked(target):
            check_expected(replaceable(self, target), expected, target)
            place = self.root / target / POINTER
            draft = place.with_name(f".{POINTER}.draft")
            with draft.open("wb") as file:
                file.write(msgspec.json.encode(pointer))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(place)
            sync(place.parent)

    @contextmanager
    def _locked(self, target: str) -> Iterator[None]:
        with (self.root / target / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


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


def replaceable(store: ArtifactStore, target: str) -> Pointer | None:
    """The pointer as whoever is to put another in its place needs it: one that cannot be read is none."""
    try:
        return store.pointer(target)
    except ArtifactError:
        return None


def check_expected(found: Pointer | None, expected: Pointer | None, target: str) -> None:
    """Raise `PointerMoved` unless `found` is `expected`."""
    if found != expected:
        raise PointerMoved(
            f"production of {target!r} is at {_named(found)}, not at {_named(expected)}; another writer won"
        )


def _named(pointer: Pointer | None) -> str:
    return f"{pointer.version}{' (pinned)' if pointer.pinned else ''}" if pointer else "nothing"


def without_password(url: str) -> str:
    """A path or URL, or a text with some, as it may be shown.

    >>> without_password("s3://key:secret@bucket/leap"), without_password(".leap/artifacts")
    ('s3://bucket/leap', '.leap/artifacts')
    """
    return re.sub(r"(?<=://)\S*@", "", url)


def open_store(url: str, cache: Path | None = None, trusted_keys: str = "") -> ArtifactStore:
    """The store at a path or at any fsspec URL (``s3://bucket/prefix``).

    Parameters
    ----------
    cache
        Where artifacts of a remote store are kept; a directory of this user by default.
    trusted_keys
        File of public keys (:class:`predictor.signing.TrustedKeys`), of which one must have signed what is
        served; empty takes all.

    Raises
    ------
    predictor.signing.KeyFileError
        If the file of keys cannot be used.
    predictor.places.PlaceError
        If the URL cannot be used.
    """
    trusted = TrustedKeys(Path(trusted_keys)) if trusted_keys else None
    if "://" not in url:
        return LocalStore(Path(url), trusted)
    from predictor.remote_store import RemoteStore  # fsspec is not paid for by a launcher with local artifacts

    return RemoteStore(url, cache or Path.home() / ".cache" / "leap", trusted)


def prune(store: ArtifactStore, target: str, keep: int) -> list[str]:
    """Remove all but the newest `keep`, the one in production and the one to roll back to; returns the removed."""
    pointer = store.pointer(target)
    needed = {pointer.version, pointer.previous} if pointer else set()
    doomed = [version for version in store.versions(target)[:-keep] if version not in needed]
    for version in doomed:
        store.remove(target, version)
    return doomed
