"""One contract for every store of artifacts: local, and any that fsspec reaches."""

import os
import shutil
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.fsspec_store import RemoteStore
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.open import open_store
from leap.predictor.artifacts.store import ArtifactStore, Pointer, PointerMoved, prune
from leap.schemas.events import THROUGHPUT

MakeStore = Callable[[], ArtifactStore]


@pytest.fixture(params=["local", "memory", "s3"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Opens the same store again and again, as other processes would."""
    if request.param == "local":
        return lambda: open_store(str(tmp_path / "artifacts"))
    root = "memory:/" if request.param == "memory" else request.getfixturevalue("s3")
    root += f"/{uuid.uuid4().hex}"
    return lambda: open_store(root, cache=tmp_path / "cache")


@pytest.fixture
def trained(artifact_store: LocalStore) -> Path:
    """Folder of a small artifact."""
    [version] = artifact_store.versions(THROUGHPUT)
    return artifact_store.folder(THROUGHPUT, version)


def pointer(version: str, previous: str | None = None) -> Pointer:
    return Pointer(version=version, previous=previous, reason="test", moved_at=datetime(2026, 1, 1, tzinfo=UTC))


def copies(store: ArtifactStore, trained: Path, tmp_path: Path, names: list[str]) -> None:
    """Add the artifact under several names."""
    for name in names:
        place = tmp_path / "made" / name
        shutil.copytree(trained, place)
        store.add(THROUGHPUT, place)


def test_what_is_added_is_read_back_whole(make_store: MakeStore, trained: Path) -> None:
    make_store().add(THROUGHPUT, trained)
    make_store().add(THROUGHPUT, trained)
    store = make_store()
    assert store.versions(THROUGHPUT) == [trained.name]
    assert store.versions("another") == []
    read = store.folder(THROUGHPUT, trained.name)
    assert {path.name: path.read_bytes() for path in read.iterdir()} == {
        path.name: path.read_bytes() for path in trained.iterdir()
    }


@pytest.mark.parametrize("version", ["nothing", "../throughput", "a/b", "", "v\n", "*"])
def test_a_version_that_is_not_there_is_an_error(make_store: MakeStore, version: str) -> None:
    with pytest.raises(ArtifactError, match="no artifact"):
        make_store().folder(THROUGHPUT, version)


@pytest.mark.parametrize("version", [".", ".."])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_no_version_leads_out_of_its_folder(trained: Path, tmp_path: Path, scheme: str, version: str) -> None:
    root, cache = tmp_path / "artifacts", tmp_path / "cache"
    store = open_store(f"{scheme}{root}", cache)
    copies(LocalStore(root), trained, tmp_path, ["v1"])
    store.folder(THROUGHPUT, "v1")
    shutil.copytree(trained, root / THROUGHPUT / version, dirs_exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArtifactError, match="no artifact"):
        store.folder(THROUGHPUT, version)
    with pytest.raises(ArtifactError, match="no artifact"):
        store.move(THROUGHPUT, pointer(version), expected=None)
    store.remove(THROUGHPUT, version)
    assert sorted(tmp_path.rglob("*")) == before
    for wrong in (pointer(version), pointer("v1", version)):
        (root / THROUGHPUT / "production.json").write_bytes(msgspec.json.encode(wrong))
        with pytest.raises(ArtifactError, match=r"production\.json: .* promote an artifact again"):
            store.pointer(THROUGHPUT)


def test_what_is_stored_under_another_name_is_not_served(make_store: MakeStore, trained: Path, tmp_path: Path) -> None:
    copies(make_store(), trained, tmp_path, ["v1"])
    with pytest.raises(ArtifactError, match=rf"v1: holds the artifact {trained.name}; put it in its place"):
        artifacts.load(make_store().folder(THROUGHPUT, "v1"))


def test_the_pointer_moves_only_from_where_it_is(make_store: MakeStore, trained: Path, tmp_path: Path) -> None:
    store = make_store()
    copies(store, trained, tmp_path, ["v1", "v2"])
    assert store.pointer(THROUGHPUT) is None
    store.move(THROUGHPUT, pointer("v1"), expected=None)
    with pytest.raises(PointerMoved, match="at v1, not at nothing"):
        make_store().move(THROUGHPUT, pointer("v2"), expected=None)
    assert make_store().pointer(THROUGHPUT) == pointer("v1")
    make_store().move(THROUGHPUT, pointer("v2", "v1"), expected=pointer("v1"))
    assert store.pointer(THROUGHPUT) == pointer("v2", "v1")


def test_a_pin_in_between_is_not_overrun(make_store: MakeStore, trained: Path, tmp_path: Path) -> None:
    store = make_store()
    copies(store, trained, tmp_path, ["v1", "v2"])
    store.move(THROUGHPUT, pointer("v1"), expected=None)
    pinned = msgspec.structs.replace(pointer("v1"), pinned=True)
    make_store().move(THROUGHPUT, pinned, expected=pointer("v1"))
    with pytest.raises(PointerMoved, match=r"at v1 \(pinned\), not at v1; another writer won"):
        store.move(THROUGHPUT, pointer("v2", "v1"), expected=pointer("v1"))
    assert store.pointer(THROUGHPUT) == pinned


def test_the_pointer_does_not_move_to_what_is_not_there(make_store: MakeStore) -> None:
    with pytest.raises(ArtifactError, match="no artifact"):
        make_store().move(THROUGHPUT, pointer("v1"), expected=None)


def test_prune_keeps_production_and_the_one_before_it(make_store: MakeStore, trained: Path, tmp_path: Path) -> None:
    store = make_store()
    copies(store, trained, tmp_path, [f"v{number}" for number in range(6)])
    store.move(THROUGHPUT, pointer("v2", "v0"), expected=None)
    assert prune(store, THROUGHPUT, keep=2) == ["v1", "v3"]
    assert make_store().versions(THROUGHPUT) == ["v0", "v2", "v4", "v5"]
    store.remove(THROUGHPUT, "not there")


@pytest.mark.parametrize("make_store", ["local", "s3"], indirect=True)
@pytest.mark.parametrize("first", [False, True], ids=["from another", "from nothing"])
def test_of_many_movers_one_wins(make_store: MakeStore, trained: Path, tmp_path: Path, first: bool) -> None:
    names = [f"v{number}" for number in range(9)]
    copies(make_store(), trained, tmp_path, names)
    before = None if first else pointer(names[-1])
    if before:
        make_store().move(THROUGHPUT, before, expected=None)
    won: list[str] = []
    together = threading.Barrier(8)

    def move(name: str) -> None:
        store = make_store()
        together.wait()
        try:
            store.move(THROUGHPUT, pointer(name), expected=before)
            won.append(name)
        except PointerMoved:
            pass

    threads = [threading.Thread(target=move, args=(name,)) for name in names[:8]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = make_store().pointer(THROUGHPUT)
    assert found is not None
    assert won == [found.version]


def test_a_move_between_reading_and_writing_is_seen_on_s3(
    s3: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = (RemoteStore(f"{s3}/{tmp_path.name}", tmp_path / "cache") for _ in range(2))
    copies(slow, trained, tmp_path, ["v1", "v2", "v3"])
    slow.move(THROUGHPUT, pointer("v1"), expected=None)
    read = slow.pointer

    def then_overtaken(target: str) -> Pointer | None:
        monkeypatch.undo()
        found = read(target)
        quick.move(THROUGHPUT, pointer("v2", "v1"), expected=pointer("v1"))
        return found

    monkeypatch.setattr(slow, "pointer", then_overtaken)
    with pytest.raises(PointerMoved, match="moved to v2; another writer won"):
        slow.move(THROUGHPUT, pointer("v3", "v1"), expected=pointer("v1"))
    assert quick.pointer(THROUGHPUT) == pointer("v2", "v1")


def test_the_cache_of_a_remote_store_does_not_grow(trained: Path, tmp_path: Path) -> None:
    store = RemoteStore(f"memory://{uuid.uuid4().hex}", tmp_path / "cache")
    names = [f"v{number}" for number in range(7)]
    copies(store, trained, tmp_path, names)
    for name in names:
        store.folder(THROUGHPUT, name)
    assert sorted(path.name for path in (tmp_path / "cache" / THROUGHPUT).iterdir()) == names[-4:]


def test_a_damaged_copy_in_the_cache_is_fetched_again(trained: Path, tmp_path: Path) -> None:
    root = f"memory://{uuid.uuid4().hex}"
    copies(open_store(root), trained, tmp_path, ["v1"])
    for name in ("trees.json", "manifest.json"):
        place = open_store(root, tmp_path / "cache").folder(THROUGHPUT, "v1")
        (place / name).write_bytes((place / name).read_bytes()[:-1])
        again = open_store(root, tmp_path / "cache").folder(THROUGHPUT, "v1")
        assert (again / name).read_bytes() == (trained / name).read_bytes()


def test_what_a_killed_process_left_half_written_goes(trained: Path, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "artifacts")
    copies(store, trained, tmp_path, ["v1"])
    old, new = (store.root / THROUGHPUT / f".draft-{name}" for name in ("old", "new"))
    for place in (old, new):
        place.mkdir()
    os.utime(old, (0, 0))
    copies(store, trained, tmp_path, ["v2"])
    assert (old.exists(), new.exists()) == (False, True)
    assert store.versions(THROUGHPUT) == ["v1", "v2"]


def test_a_torn_pointer_is_an_error_and_can_be_replaced(make_store: MakeStore, trained: Path, tmp_path: Path) -> None:
    store = make_store()
    copies(store, trained, tmp_path, ["v1", "v2"])
    if isinstance(store, LocalStore):
        (store.root / THROUGHPUT / "production.json").write_bytes(b'{"version":')
    elif isinstance(store, RemoteStore):
        store._files.pipe_file(store._path(THROUGHPUT, "production.json"), b'{"version":')
    with pytest.raises(ArtifactError, match="promote an artifact again"):
        store.pointer(THROUGHPUT)
    with pytest.raises(PointerMoved, match="at nothing, not at v1"):
        store.move(THROUGHPUT, pointer("v2", "v1"), expected=pointer("v1"))
    store.move(THROUGHPUT, pointer("v2"), expected=None)
    assert make_store().pointer(THROUGHPUT) == pointer("v2")
