"""One contract for the files of a night: local, and any place that fsspec reaches."""

import uuid
from pathlib import Path

import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.open import open_store
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, report_name
from leap.retrainer.storage.files import Files, open_files
from leap.schemas.events import THROUGHPUT
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG


@pytest.fixture(params=["local", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Root of an empty place."""
    if request.param == "local":
        return str(tmp_path / "files")
    root = "memory:/" if request.param == "memory" else request.getfixturevalue("s3")
    return f"{root}/{uuid.uuid4().hex}"


@pytest.fixture
def files(place: str) -> Files:
    return open_files(place)


def test_what_is_written_is_read_back(files: Files, place: str) -> None:
    files.write("day=1/a.bin", b"one")
    files.write("day=1/a.bin", b"other")
    again = open_files(place)
    assert again.read("day=1/a.bin") == b"other"
    assert again.size("day=1/a.bin") == 5


def test_names_are_relative_sorted_and_match_the_pattern(files: Files) -> None:
    for name in ("day=2/a.bin", "day=1/a.bin", "day=1/b.bin", "other/a.bin"):
        files.write(name, b"x")
    assert files.names("day=*/a.bin") == ["day=1/a.bin", "day=2/a.bin"]
    assert files.names("nothing/*") == []


def test_removed_files_are_gone_and_absent_ones_no_error(files: Files) -> None:
    files.write("day=1/a.bin", b"x")
    files.remove("day=1/a.bin")
    files.remove("day=1/a.bin")
    assert files.names("*") == files.names("day=*/a.bin") == []
    with pytest.raises(FileNotFoundError):
        files.read("day=1/a.bin")


def test_of_two_that_create_a_file_one_did(files: Files, place: str) -> None:
    assert files.create("a/lock", b"first")
    assert not open_files(place).create("a/lock", b"second")
    assert files.read("a/lock") == b"first"


def test_a_night_runs_wherever_its_files_are(place: str, tmp_path: Path) -> None:
    partitions = Partitions(f"{place}/partitions")
    partitions.ingest(past())
    store = open_store(f"{place}/artifacts", cache=tmp_path / "cache")
    plan = Plan(night=NIGHT, recipes=("boosted",), margin=100.0, window_days=7, keep_days=8)
    reports = [Night(partitions, store, CATALOG).run(plan) for _ in range(2)]
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert (pointer.previous, pointer.version) == (None, reports[1].artifact), "before this night there was nothing"
    assert artifacts.load(store.folder(THROUGHPUT, pointer.version)).manifest.recipe == "boosted"
    assert partitions.files.names(report_name(THROUGHPUT, NIGHT))
    assert partitions.files.names(f"statistics/{THROUGHPUT}/*/*")
    assert len(partitions.days()) == 8
