"""An artifact that is not whole, not ours or not of this version is refused, and says why."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from predictor import artifact as artifacts
from predictor.manifest import ArtifactError
from predictor.model import GRAPH_FILE
from predictor.model import load as load_model
from predictor.snapshot import HASHES_FILE
from predictor.store import LocalStore
from schemas.events import THROUGHPUT


@pytest.fixture
def folder(artifact_store: LocalStore, tmp_path: Path) -> Path:
    """A copy of the artifact, to be damaged."""
    [version] = artifact_store.versions(THROUGHPUT)
    copy = tmp_path / version
    shutil.copytree(artifact_store.folder(THROUGHPUT, version), copy)
    return copy


def edit(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
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
    model = folder / GRAPH_FILE
    model.write_bytes(model.read_bytes()[:-1])
    refused(folder, "not the .* bytes that the manifest names; fetch it again")


def test_a_changed_byte_is_refused(folder: Path) -> None:
    data = bytearray((folder / HASHES_FILE).read_bytes())
    data[-1] ^= 1
    (folder / HASHES_FILE).write_bytes(data)
    refused(folder, "digest is not the manifest's")


def test_a_missing_file_is_refused(folder: Path) -> None:
    (folder / GRAPH_FILE).unlink()
    refused(folder, "No such file")


def test_a_link_to_another_file_is_refused(folder: Path) -> None:
    moved = folder.parent / "elsewhere.onnx"
    (folder / GRAPH_FILE).rename(moved)
    (folder / GRAPH_FILE).symlink_to(moved)
    refused(folder, GRAPH_FILE)


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
        for name in (GRAPH_FILE, HASHES_FILE, "history_statistics.npy"):
            shutil.copyfile(folder / name, draft / name)

    first = artifacts.write(tmp_path / "out", unnamed, artifact.catalog, write_files)
    second = artifacts.write(tmp_path / "out", unnamed, artifact.catalog, write_files)
    assert first == second
    assert [path.name for path in (tmp_path / "out").iterdir()] == [first.name]
    assert np.array_equal(artifacts.load(first).snapshot.hashes, artifact.snapshot.hashes)


def test_a_writer_that_fails_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    artifact = artifacts.load(folder)

    def write_files(draft: Path) -> None:
        (draft / GRAPH_FILE).write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        artifacts.write(tmp_path / "out", artifact.manifest, artifact.catalog, write_files)
    assert not list((tmp_path / "out").iterdir())
