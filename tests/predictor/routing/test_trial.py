"""A new artifact ranks what it carries as examples before it replaces the one in service."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.store import Pointer
from leap.predictor.routing import trial
from leap.predictor.routing.ranking import Policy, rank
from leap.predictor.routing.router import Router
from leap.predictor.routing.trial import FILE, MAX_BYTES, MAX_EXAMPLES
from leap.schemas.codec import decode
from leap.schemas.events import THROUGHPUT, JobSubmitted, PreferenceList
from tests.artifacts import night_over, past
from tests.builders import MIDNIGHT, submission
from tests.commands import invoke


@pytest.fixture(scope="module")
def structured(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    store, _ = night_over(tmp_path_factory.mktemp("structured"), past(), recipe="structured")
    return store


@pytest.fixture
def store(structured: LocalStore, tmp_path: Path) -> LocalStore:
    """A copy of the store, with one artifact in production."""
    return LocalStore(shutil.copytree(structured.root, tmp_path / "artifacts"))


def serving(store: LocalStore) -> Pointer:
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    return pointer


def promoted(store: LocalStore, change: Callable[[Path], None]) -> str:
    """An artifact with changed files, every digest right, which production now is; its version."""
    pointer = serving(store)
    source = store.folder(THROUGHPUT, pointer.version)
    about = artifacts.load(source).manifest

    def write_files(draft: Path) -> None:
        for path in source.iterdir():
            if path.name not in ("manifest.json", artifacts.CATALOG_FILE):
                shutil.copyfile(path, draft / path.name)
        change(draft)

    later = msgspec.structs.replace(about, version="", files={}, created_at=about.created_at + timedelta(seconds=1))
    version = artifacts.write(source.parent, later, artifacts.load(source).catalog, write_files).name
    store.move(THROUGHPUT, Pointer(version=version, reason="test", moved_at=MIDNIGHT), pointer)
    return version


def examples(folder: Path) -> list[dict[str, dict[str, object]]]:
    found: list[dict[str, dict[str, object]]] = msgspec.json.decode((folder / FILE).read_bytes())
    return found


def scaled_arrays(draft: Path) -> None:
    """Weights of the model as another training would leave them: they load, and rank."""
    for path in draft.glob("structured_*.npy"):
        array = np.load(path)
        if array.dtype == np.float64 and array.size:
            np.save(path, array * 1.01)


def text(data: bytes) -> Callable[[Path], None]:
    def write(draft: Path) -> None:
        (draft / FILE).write_bytes(data)

    return write


def one_number(draft: Path) -> None:
    found = examples(draft)
    ranked = found[2]["answer"]["ranked"]
    assert isinstance(ranked, list)
    ranked[0]["throughput"] *= 1 + 2e-6
    (draft / FILE).write_bytes(msgspec.json.encode(found))


def one_less(draft: Path) -> None:
    found = examples(draft)
    ranked = found[-1]["answer"]["ranked"]
    assert isinstance(ranked, list)
    ranked.pop()
    (draft / FILE).write_bytes(msgspec.json.encode(found))


def too_many(draft: Path) -> None:
    (draft / FILE).write_bytes(msgspec.json.encode(examples(draft)[:1] * (MAX_EXAMPLES + 1)))


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "other weights": (scaled_arrays, "example-[1-8] is answered otherwise: .* was"),
    "another number": (one_number, "example-3 is answered otherwise"),
    "one less": (one_less, r"example-8 is answered otherwise: \w+ \(.*\), was None"),
    "no JSON": (text(b"{"), "its examples are not ranked"),
    "no submission": (text(b'[{"submission":{"attempt_id":"x"},"answer":{}}]'), "missing required field `job_name`"),
    "too many": (too_many, "its examples are not ranked: .*length <= 8"),
    "too large": (text(b" " * (MAX_BYTES + 1)), "over the limit of 1048576 bytes"),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_answers_otherwise_does_not_replace_what_serves(
    store: LocalStore, change: Callable[[Path], None], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    router = Router(store, deadline=None)
    assert router.refresh()
    before, answer = serving(store).version, router.rank(submission())
    version = promoted(store, change)
    artifacts.load(store.folder(THROUGHPUT, version))  # every digest is right
    assert not router.refresh()
    assert (router.counts["refresh failed"], router.refused) == (1, version)
    assert "keeping the last good one" in caplog.text
    again = router.rank(submission())
    assert (again.artifact, again.ranked) == (before, answer.ranked)
    with pytest.raises(ArtifactError, match=reason):
        trial.load(store.folder(THROUGHPUT, version))


def test_an_exception_in_the_trial_is_a_reason(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[PreferenceList]:
        raise IndexError("bug in a feature")

    monkeypatch.setattr(trial, "rank", broken)
    router = Router(store)
    with pytest.raises(ArtifactError, match="not ranked: IndexError: bug in a feature; promote another artifact"):
        router.load()
    assert router.artifact is None


def test_an_artifact_made_without_examples_is_served(store: LocalStore) -> None:
    version = promoted(store, lambda draft: (draft / FILE).unlink())
    router = Router(store)
    assert router.refresh()
    assert router.artifact is not None
    assert router.artifact.manifest.version == version


def test_examples_are_held_out_jobs_and_what_the_model_says_of_them(store: LocalStore) -> None:
    folder = store.folder(THROUGHPUT, serving(store).version)
    artifact, found = artifacts.load(folder), examples(folder)
    assert len(found) == MAX_EXAMPLES
    for number, example in enumerate(found, 1):
        job = decode(msgspec.json.encode(example["submission"]), JobSubmitted)
        assert (job.attempt_id, job.candidates.count("unpriced")) == (f"example-{number}", 0)
        assert job.job_name.startswith("team/job-")
        assert set(job.candidates) == {"basic", "fast", "newest"}
        expected = decode(msgspec.json.encode(example["answer"]), PreferenceList)
        [answer] = rank(replace(artifact), [job], Policy(), artifact.manifest.created_at)
        assert [one.hardware_type for one in answer.ranked] == [one.hardware_type for one in expected.ranked] != []


@pytest.mark.parametrize("command", ["verify", "promote"])
def test_commands_try_it_too(store: LocalStore, command: str) -> None:
    good, version = serving(store).version, promoted(store, one_number)
    for tried, code in ((version, 1), (good, 0)):
        result = invoke("artifact", command, tried, "--artifacts", str(store.root))
        assert result.exit_code == code, result.output
    assert serving(store).version == (good if command == "promote" else version)
