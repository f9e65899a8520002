"""An artifact that is not whole, not ours or not of this version is refused, and says why."""

import hashlib
import json
import shutil
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.history.snapshot import HASHES_FILE
from leap.predictor.models.serving import load as load_model
from leap.schemas.events import THROUGHPUT

MODEL_FILE = "trees_5.npy"


@pytest.fixture
def folder(artifact_store: LocalStore, tmp_path: Path) -> Path:
    """A copy of the artifact, to be damaged."""
    [version] = artifact_store.versions(THROUGHPUT)
    copy = tmp_path / version
    shutil.copytree(artifact_store.folder(THROUGHPUT, version), copy)
    return copy


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def refused(folder: Path, match: str) -> None:
    with pytest.raises(ArtifactError, match=match):
        artifacts.load(folder)


def test_a_whole_artifact_loads(folder: Path) -> None:
    artifact = artifacts.load(folder)
    assert artifact.manifest.version == folder.name
    assert artifact.manifest.rows > 300
    assert len(artifact.snapshot) > 12
    assert set(artifact.manifest.files) == {path.name for path in folder.iterdir()} - {"manifest.json"}


def test_a_torn_file_is_refused(folder: Path) -> None:
    model = folder / MODEL_FILE
    model.write_bytes(model.read_bytes()[:-1])
    refused(folder, "not the .* bytes that the manifest names; fetch it again")


def test_a_changed_byte_is_refused(folder: Path) -> None:
    data = bytearray((folder / HASHES_FILE).read_bytes())
    data[-1] ^= 1
    (folder / HASHES_FILE).write_bytes(data)
    refused(folder, "digest is not the manifest's")


def test_a_missing_file_is_refused(folder: Path) -> None:
    (folder / MODEL_FILE).unlink()
    refused(folder, "No such file")


def test_a_link_to_another_file_is_refused(folder: Path) -> None:
    moved = folder.parent / "elsewhere.npy"
    (folder / MODEL_FILE).rename(moved)
    (folder / MODEL_FILE).symlink_to(moved)
    refused(folder, MODEL_FILE)


@pytest.mark.parametrize(
    "name", ["../model.onnx", "/etc/passwd", "a/b.npy", "model.pkl", ".json", "x.onnx/", "a\n.npy"]
)
def test_a_path_that_leaves_the_directory_is_refused(folder: Path, name: str) -> None:
    edit(folder, lambda manifest: manifest.update(files={name: {"bytes": 1, "sha256": "0" * 64}}))
    refused(folder, "not a file name of an artifact")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": 2}, "format 2, this version reads 1; upgrade or retrain"),
        ({"features_digest": "0" * 64}, "features are not those of this version"),
        ({"files": {}}, "is not in the manifest"),
        ({"rows": "many"}, r"Expected `int`, got `str` - at `\$.rows`"),
        ({"catalog_digest": "0" * 64}, "not the catalog that the manifest names"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(folder: Path, change: dict[str, object], match: str) -> None:
    edit(folder, lambda manifest: manifest.update(change))
    refused(folder, match)


def test_a_manifest_that_is_no_json_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"\xff{")
    refused(folder, "manifest.json")


def test_a_model_of_other_width_is_refused(folder: Path, artifact_store: LocalStore) -> None:
    manifest = artifacts.load(folder).manifest
    with pytest.raises(ValueError, match="features"):
        load_model(folder, len(manifest.features) + 1)


def test_writing_again_changes_nothing(folder: Path, tmp_path: Path) -> None:
    artifact = artifacts.load(folder)
    unnamed = msgspec.structs.replace(artifact.manifest, version="", files={})

    def write_files(draft: Path) -> None:
        for name in artifact.manifest.files.keys() - {"catalog.json"}:
            shutil.copyfile(folder / name, draft / name)

    first = artifacts.write(tmp_path / "out", unnamed, artifact.catalog, write_files)
    second = artifacts.write(tmp_path / "out", unnamed, artifact.catalog, write_files)
    assert first == second
    assert [path.name for path in (tmp_path / "out").iterdir()] == [first.name]
    assert np.array_equal(artifacts.load(first).snapshot.hashes, artifact.snapshot.hashes)


def test_a_writer_that_fails_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    artifact = artifacts.load(folder)

    def write_files(draft: Path) -> None:
        (draft / MODEL_FILE).write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        artifacts.write(tmp_path / "out", artifact.manifest, artifact.catalog, write_files)
    assert not list((tmp_path / "out").iterdir())


class Opened:
    """What a pickle in an artifact would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("a pickle was opened",))


def npy(head: str, body: bytes = b"") -> bytes:
    """A .npy file with this head."""
    text = head.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def saved(array: NDArray[Any], **options: bool) -> bytes:
    buffer = BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = BytesIO()
    np.savez_compressed(buffer, x=np.zeros(10_000_000))
    return buffer.getvalue()


HOSTILE: dict[str, tuple[str, bytes, str]] = {
    "8 TB": (HASHES_FILE, npy("{'descr': '<u8', 'fortran_order': True, 'shape': (1000000000000,)}"), "no array"),
    "more than 64 bits": (
        HASHES_FILE, npy("{'descr': '<u8', 'fortran_order': False, 'shape': (1180591620717411303424, 9)}"), "no array"
    ),
    "longer than its file": (
        HASHES_FILE, npy("{'descr': '<u8', 'fortran_order': False, 'shape': (200000,)}", b"x" * 80), "no array"
    ),
    "too many keys": (HASHES_FILE, saved(np.arange(2**21, dtype=np.uint64)), "2097152 x 5 float32 expected"),
    "objects": (HASHES_FILE, saved(np.array([Opened()], object), allow_pickle=True), "no array"),
    "a program for a head": (HASHES_FILE, npy("__import__('os').system('true')"), "no array"),
    "a head of 60 kB": (HASHES_FILE, npy("{" + "'a': 1, " * 7_000 + "}"), "no array"),
    "an archive of 80 MB": (HASHES_FILE, zipped(), "no array"),
    "a deep catalog": ("catalog.json", b"[" * 100_000, "not JSON"),
    "a catalog over its limit": ("catalog.json", b"[" + b" " * (1 << 20) + b"]", "more than 1048576"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "match"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_with_the_right_digest_is_refused(folder: Path, name: str, content: bytes, match: str) -> None:
    (folder / name).write_bytes(content)
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    edit(folder, lambda manifest: manifest["files"].update({name: entry}))
    tracemalloc.start()
    refused(folder, match)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_files_that_are_too_large_together_are_refused(folder: Path) -> None:
    entries = {f"structured_{number}.npy": {"bytes": 2**30, "sha256": "0" * 64} for number in range(3)}
    edit(folder, lambda manifest: manifest.update(files=entries))
    refused(folder, "files of 3221225472 bytes, over the limit of 2147483648")


def test_an_endless_manifest_is_refused_before_it_is_read(folder: Path) -> None:
    with (folder / "manifest.json").open("wb") as file:
        file.truncate(1 << 36)  # 64 GiB of nothing
    refused(folder, "manifest.json: over the limit")
