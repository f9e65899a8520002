"""Artifacts in a directory."""

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from leap.predictor.artifacts.manifest import FILE as MANIFEST
from leap.predictor.artifacts.manifest import MAX_MANIFEST_BYTES
from leap.predictor.artifacts.signing import FILE as SIGNATURES
from leap.predictor.artifacts.signing import MAX_SIGNATURES_BYTES, SigningKey, TrustedKeys
from leap.predictor.artifacts.store import (
    POINTER,
    VERSION,
    Pointer,
    check_expected,
    missing,
    pointer_or_none,
    read_pointer,
)
from leap.predictor.storage.bounded import bounded_read
from leap.predictor.storage.fsync import sync, sync_folder
from leap.predictor.storage.whole_file import naming, write_whole

#: Age of a half-written artifact that a killed process left: nothing takes so long to write.
ABANDONED_S = 86_400.0


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
            given = bounded_read(signatures, MAX_SIGNATURES_BYTES) if signatures.exists() else None
            self._trusted.check(bounded_read(folder / MANIFEST, MAX_MANIFEST_BYTES), given, target, version)
        return folder

    def manifest(self, target: str, version: str) -> bytes:
        """See :class:`ArtifactStore`."""
        return bounded_read(LocalStore(self.root).folder(target, version) / MANIFEST, MAX_MANIFEST_BYTES)

    def sign(self, target: str, version: str, key: SigningKey) -> None:
        """See :class:`ArtifactStore`."""
        key.sign_folder(LocalStore(self.root).folder(target, version))  # which need not be signed yet

    def add(self, target: str, folder: Path) -> None:
        """See :class:`ArtifactStore`."""
        location = self.root / target / folder.name
        if folder.resolve() == location.resolve() or location.exists():
            return
        location.parent.mkdir(parents=True, exist_ok=True)
        for left in location.parent.glob(".draft-*"):
            if left.stat().st_mtime < time.time() - ABANDONED_S:
                shutil.rmtree(left)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=location.parent))
        try:
            with naming(location):
                for path in folder.iterdir():
                    shutil.copy(path, draft)
                sync_folder(draft)
            shutil.copymode(folder, draft)
            draft.rename(location)
            sync(location.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def remove(self, target: str, version: str) -> None:
        """See :class:`ArtifactStore`."""
        location = self.root / target / version
        if VERSION.fullmatch(version) and location.is_dir():
            doomed = location.with_name(f".draft-{version}")
            location.rename(doomed)
            shutil.rmtree(doomed)

    def pointer(self, target: str) -> Pointer | None:
        """See :class:`ArtifactStore`."""
        try:
            return read_pointer(bounded_read(self.root / target / POINTER, MAX_MANIFEST_BYTES))
        except FileNotFoundError:
            return None

    def move(self, target: str, pointer: Pointer, expected: Pointer | None) -> None:
        """See :class:`ArtifactStore`."""
        self.folder(target, pointer.version)
        with self._locked(target):
            check_expected(pointer_or_none(self, target), expected, target)
            location = self.root / target / POINTER
            write_whole(location, msgspec.json.encode(pointer))
            sync(location.parent)

    @contextmanager
    def _locked(self, target: str) -> Iterator[None]:
        with (self.root / target / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
