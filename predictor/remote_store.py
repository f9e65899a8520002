"""Artifacts in any fsspec store (S3, GCS, HDFS, ...), kept in a local cache once read."""

import shutil
import tempfile
from pathlib import Path

import fsspec
import msgspec

from predictor.manifest import FILE as MANIFEST
from predictor.manifest import FILE_NAME, decode
from predictor.store import POINTER, Pointer, check_expected, missing, read_pointer


class RemoteStore:
    """See :class:`predictor.store.ArtifactStore`.

    The manifest is written last, so that a version without one is not there yet. Where the store has no
    compare-and-set, two movers in the same moment are told apart by reading the pointer back.
    """

    def __init__(self, url: str, cache: Path) -> None:
        self._files, self._root = fsspec.core.url_to_fs(url)
        self._cache = cache
        self._url = url

    def _path(self, *parts: str) -> str:
        return "/".join((self._root.rstrip("/"), *parts))

    def versions(self, target: str) -> list[str]:
        """See :class:`predictor.store.ArtifactStore`."""
        self._files.invalidate_cache()
        return sorted(path.split("/")[-2] for path in self._files.glob(self._path(target, "*", MANIFEST)))

    def folder(self, target: str, version: str) -> Path:
        """See :class:`predictor.store.ArtifactStore`."""
        place = self._cache / target / version
        if (place / MANIFEST).is_file():
            return place
        if "/" in version or not self._files.exists(self._path(target, version, MANIFEST)):
            raise missing(version, target, self._url)
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=place.parent))
        try:
            data = self._files.cat_file(self._path(target, version, MANIFEST))
            for name in decode(data).files:
                self._files.get_file(self._path(target, version, name), str(draft / name))
            (draft / MANIFEST).write_bytes(data)
            if not place.exists():
                draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return place

    def add(self, target: str, folder: Path) -> None:
        """See :class:`predictor.store.ArtifactStore`."""
        place = self._path(target, folder.name)
        if self._files.exists(f"{place}/{MANIFEST}"):
            return
        for path in sorted(folder.iterdir()):
            if FILE_NAME.fullmatch(path.name) and path.name != MANIFEST:
                self._files.pipe_file(f"{place}/{path.name}", path.read_bytes())
        self._files.pipe_file(f"{place}/{MANIFEST}", (folder / MANIFEST).read_bytes())

    def remove(self, target: str, version: str) -> None:
        """See :class:`predictor.store.ArtifactStore`."""
        place = self._path(target, version)
        if "/" not in version and self._files.exists(f"{place}/{MANIFEST}"):
            self._files.rm_file(f"{place}/{MANIFEST}")
            self._files.rm(place, recursive=True)

    def pointer(self, target: str) -> Pointer | None:
        """See :class:`predictor.store.ArtifactStore`."""
        self._files.invalidate_cache()
        try:
            return read_pointer(self._files.cat_file(self._path(target, POINTER)))
        except FileNotFoundError:
            return None

    def move(self, target: str, pointer: Pointer, expected: str | None) -> None:
        """See :class:`predictor.store.ArtifactStore`."""
        if not self._files.exists(self._path(target, pointer.version, MANIFEST)):
            raise missing(pointer.version, target, self._url)
        check_expected(self.pointer(target), expected, target)
        self._files.pipe_file(self._path(target, POINTER), msgspec.json.encode(pointer))
        check_expected(self.pointer(target), pointer.version, target)
