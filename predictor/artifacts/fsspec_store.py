"""Artifacts in any fsspec store (S3, GCS, HDFS, ...), kept in a local cache once read."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from leap.predictor.artifacts.manifest import FILE as MANIFEST
from leap.predictor.artifacts.manifest import FILE_NAME, MAX_MANIFEST_BYTES, ArtifactError, FileEntry, decode
from leap.predictor.artifacts.signing import FILE as SIGNATURES
from leap.predictor.artifacts.signing import SigningKey, TrustedKeys
from leap.predictor.artifacts.store import (
    POINTER,
    VERSION,
    Pointer,
    PointerMoved,
    check_expected,
    missing,
    pointer_or_none,
    read_pointer,
)
from leap.predictor.storage.bounded import bounded_read
from leap.predictor.storage.forks import watch_forks
from leap.predictor.storage.fsync import sync_folder
from leap.predictor.storage.urls import open_filesystem, redact_url

#: Artifacts of a target that stay in the cache: what serves, what is before and after it, and one to look at.
CACHED = 4


class RemoteStore:
    """See :class:`leap.predictor.artifacts.store.ArtifactStore`.

    The manifest is written last, so that a version without one is not there yet. On S3 the pointer moves by a
    conditional write. Elsewhere it is read, written and read back: of two movers in the same moment the later
    write stands, and the earlier may believe that it won.

    The cache is a folder for each URL, and a copy in it counts only while it is what the store's manifest says.
    """

    def __init__(self, url: str, cache: Path, trusted: TrustedKeys | None = None) -> None:
        self._opened, self._root = open_filesystem(url)
        self._address = url
        self._url = redact_url(url)
        self._cache = cache / hashlib.sha256(self._url.rstrip("/").encode()).hexdigest()[:16]
        self._trusted = trusted
        watch_forks(self)

    def after_fork(self) -> None:
        """Open the store anew when it is next needed: connections and the threads behind them stay with the parent."""
        self._opened = None

    @property
    def _files(self) -> Any:
        if self._opened is None:
            self._opened, _ = open_filesystem(self._address)
        return self._opened

    def _path(self, *parts: str) -> str:
        return "/".join((self._root.rstrip("/"), *parts))

    def versions(self, target: str) -> list[str]:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        self._files.invalidate_cache()
        names = (path.split("/")[-2] for path in self._files.glob(self._path(target, "*", MANIFEST)))
        return sorted(filter(VERSION.fullmatch, names))

    def folder(self, target: str, version: str) -> Path:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        manifest = self._checked(target, version)
        location = self._cache / target / version
        if not _is_copy(location, manifest):
            self._fetch(target, version, manifest, location)
        return location

    def _checked(self, target: str, version: str) -> bytes:
        """The manifest of a version that is there, signed where it must be."""
        data = self.manifest(target, version)
        if self._trusted is not None:
            self._trusted.check(data, self._small(target, version, SIGNATURES), target, version)
        return data

    def manifest(self, target: str, version: str) -> bytes:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        data = self._small(target, version, MANIFEST) if VERSION.fullmatch(version) else None
        if data is None:
            raise missing(version, target, self._url)
        return data

    def _fetch(self, target: str, version: str, manifest: bytes, location: Path) -> None:
        """Bring an artifact into the cache; nothing is read that is longer than its manifest says."""
        files = decode(manifest).files
        location.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=location.parent))
        try:
            for name, entry in files.items():
                path = self._path(target, version, name)
                if self._files.size(path) != entry.bytes:
                    raise ArtifactError(f"{path}: not the {entry.bytes} bytes that the manifest names; publish again")
                self._files.get_file(path, str(draft / name))
            (draft / MANIFEST).write_bytes(manifest)
            sync_folder(draft)
            if location.exists() and not _is_copy(location, manifest):
                shutil.rmtree(location)
            if not location.exists():
                draft.rename(location)
            cached = sorted(location.parent.glob("[!.]*"), key=lambda path: path.stat().st_mtime)
            for old in cached[:-CACHED]:
                shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _small(self, target: str, version: str, name: str) -> bytes | None:
        """A manifest or what is smaller, if it is there, or one byte more than may be."""
        try:
            return bytes(self._files.cat_file(self._path(target, version, name), start=0, end=MAX_MANIFEST_BYTES + 1))
        except FileNotFoundError:
            return None

    def sign(self, target: str, version: str, key: SigningKey) -> None:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        signatures = key.sign(self.manifest(target, version), self._small(target, version, SIGNATURES))
        self._files.pipe_file(self._path(target, version, SIGNATURES), signatures)

    def add(self, target: str, folder: Path) -> None:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        location = self._path(target, folder.name)
        if self._files.exists(f"{location}/{MANIFEST}"):
            return
        for path in sorted(folder.iterdir()):
            if FILE_NAME.fullmatch(path.name) and path.name != MANIFEST:
                self._files.pipe_file(f"{location}/{path.name}", path.read_bytes())
        self._files.pipe_file(f"{location}/{MANIFEST}", (folder / MANIFEST).read_bytes())

    def remove(self, target: str, version: str) -> None:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        location = self._path(target, version)
        if VERSION.fullmatch(version) and self._files.exists(f"{location}/{MANIFEST}"):
            self._files.rm_file(f"{location}/{MANIFEST}")
            self._files.rm(location, recursive=True)

    def pointer(self, target: str) -> Pointer | None:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        self._files.invalidate_cache()
        try:
            return read_pointer(
                bytes(self._files.cat_file(self._path(target, POINTER), start=0, end=MAX_MANIFEST_BYTES + 1))
            )
        except FileNotFoundError:
            return None

    def move(self, target: str, pointer: Pointer, expected: Pointer | None) -> None:
        """See :class:`leap.predictor.artifacts.store.ArtifactStore`."""
        self._checked(target, pointer.version)
        condition = self._unchanged(target)  # before the pointer is read: a move in between makes the write fail
        check_expected(pointer_or_none(self, target), expected, target)
        try:
            self._files.pipe_file(self._path(target, POINTER), msgspec.json.encode(pointer), **condition)
        except OSError as error:
            if not _refused(error):
                raise
        current = self.pointer(target)
        if current != pointer:  # a write that was tried again is refused for its own sake
            raise PointerMoved(f"production of {target!r} moved to {current and current.version}; another writer won")

    def _unchanged(self, target: str) -> dict[str, str]:
        """Arguments of a write that succeeds only while the pointer is as it is now, where the store has them."""
        if "s3" not in self._files.protocol:
            return {}
        self._files.invalidate_cache()
        try:
            return {"IfMatch": self._files.info(self._path(target, POINTER))["ETag"]}
        except FileNotFoundError:
            return {"IfNoneMatch": "*"}


def _is_copy(location: Path, manifest: bytes) -> bool:
    """Whether a folder in the cache holds this manifest, the files that it names as it names them, and nothing else."""
    try:
        if bounded_read(location / MANIFEST, MAX_MANIFEST_BYTES) != manifest:
            return False
        files = decode(manifest).files
        return {path.name for path in location.iterdir() if not path.is_symlink()} == {MANIFEST, *files} and all(
            FileEntry.of(location / name) == entry for name, entry in files.items()
        )
    except (OSError, ArtifactError):
        return False


def _refused(error: OSError) -> bool:
    """Whether S3 refused a conditional write."""
    response = getattr(error.__cause__, "response", {})
    return response.get("Error", {}).get("Code") in ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")
