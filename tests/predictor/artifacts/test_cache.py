"""What a remote store keeps on this machine is a copy of what it has, or is fetched again."""

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.fsspec_store import RemoteStore
from leap.predictor.artifacts.manifest import ArtifactError, FileEntry, decode, encode
from leap.predictor.artifacts.open import open_store
from leap.schemas.events import THROUGHPUT
from tests.forks import in_child


def test_the_cache_of_a_remote_store_does_not_grow(trained: Path, tmp_path: Path) -> None:
    store = RemoteStore(f"memory://{uuid.uuid4().hex}", tmp_path / "cache")
    names = [f"v{number}" for number in range(7)]
    for name in names:
        store.add(THROUGHPUT, shutil.copytree(trained, tmp_path / "made" / name))
    for name in names:
        store.folder(THROUGHPUT, name)
    [kept] = (tmp_path / "cache").glob(f"*/{THROUGHPUT}")
    assert sorted(path.name for path in kept.iterdir()) == names[-4:]


def shortened(place: Path) -> None:
    (place / "trees.json").write_bytes((place / "trees.json").read_bytes()[:-1])


def torn_manifest(place: Path) -> None:
    (place / "manifest.json").write_bytes((place / "manifest.json").read_bytes()[:-1])


def one_bit(place: Path) -> None:
    data = bytearray((place / "catalog.json").read_bytes())
    data[-2] ^= 1
    (place / "catalog.json").write_bytes(data)


def one_bit_vouched_for(place: Path) -> None:
    one_bit(place)
    manifest = decode((place / "manifest.json").read_bytes())
    files = manifest.files | {"catalog.json": FileEntry.of(place / "catalog.json")}
    (place / "manifest.json").write_bytes(encode(msgspec.structs.replace(manifest, files=files)))


def one_more(place: Path) -> None:
    (place / "structured.json").write_bytes(b"[]")


def a_link(place: Path) -> None:
    (place / "catalog.json").rename(place.parent / "catalog.json")
    (place / "catalog.json").symlink_to(place.parent / "catalog.json")


@pytest.mark.parametrize("damage", [shortened, torn_manifest, one_bit, one_bit_vouched_for, one_more, a_link])
def test_a_damaged_copy_in_the_cache_is_fetched_again(
    trained: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    root = f"memory://{uuid.uuid4().hex}"
    store = open_store(root, tmp_path / "cache")
    store.add(THROUGHPUT, trained)
    damage(store.folder(THROUGHPUT, trained.name))
    again = open_store(root, tmp_path / "cache").folder(THROUGHPUT, trained.name)
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in trained.iterdir()
    }
    assert artifacts.load(again).manifest.version == trained.name


def other_content(trained: Path, place: Path) -> Path:
    """An artifact with the name of another, and a catalog of its own."""
    shutil.copytree(trained, place / trained.name)
    one_bit_vouched_for(place / trained.name)
    return place / trained.name


def test_stores_that_share_a_cache_serve_each_its_own(trained: Path, tmp_path: Path) -> None:
    urls = [f"memory://{uuid.uuid4().hex}/leap" for _ in range(2)]
    one, another = (open_store(url, tmp_path / "cache") for url in urls)
    one.add(THROUGHPUT, trained)
    another.add(THROUGHPUT, other_content(trained, tmp_path / "other"))
    first = one.folder(THROUGHPUT, trained.name)
    second = another.folder(THROUGHPUT, trained.name)
    for place, source in ((first, trained), (second, tmp_path / "other" / trained.name)):
        assert (place / "catalog.json").read_bytes() == (source / "catalog.json").read_bytes()
    assert open_store(f"{urls[0]}/", tmp_path / "cache").folder(THROUGHPUT, trained.name) == first


def test_what_the_store_has_under_a_name_counts_and_not_what_it_had(trained: Path, tmp_path: Path) -> None:
    """A bucket of the same name elsewhere, or one that was filled anew, has the same URL."""
    store = open_store(f"memory://{uuid.uuid4().hex}", tmp_path / "cache")
    store.add(THROUGHPUT, trained)
    store.folder(THROUGHPUT, trained.name)
    store.remove(THROUGHPUT, trained.name)
    with pytest.raises(ArtifactError, match="no artifact"):
        store.folder(THROUGHPUT, trained.name)
    other = other_content(trained, tmp_path / "other")
    store.add(THROUGHPUT, other)
    found = store.folder(THROUGHPUT, trained.name)
    assert (found / "catalog.json").read_bytes() == (other / "catalog.json").read_bytes()


@pytest.mark.filterwarnings("ignore:.*multi-?threaded")
def test_a_forked_child_reads_the_store_itself(s3: str, trained: Path, tmp_path: Path) -> None:
    store = open_store(f"{s3}/{uuid.uuid4().hex}", tmp_path / "cache")
    store.add(THROUGHPUT, trained)
    assert store.versions(THROUGHPUT) == [trained.name]
    assert in_child(lambda: store.folder(THROUGHPUT, store.versions(THROUGHPUT)[0]).name) == trained.name
