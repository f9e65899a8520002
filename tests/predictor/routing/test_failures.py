"""Whatever fails on the launch path: an answer at once, with the right reason and count, and no exception."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.features import ratios
from leap.predictor.features.batch import Floats, JobBatch
from leap.predictor.routing.ranking import Policy
from leap.predictor.routing.router import Router
from leap.schemas.events import THROUGHPUT
from tests.builders import MODEL, submission

NOW = datetime(2026, 3, 11, tzinfo=UTC)
JOB = submission("new", job_name="team/job-3x", model_type="model-3", at=NOW, model=MODEL)
TYPES = len(JOB.candidates)
MODEL_FILE = "trees_5.npy"


@pytest.fixture
def store(artifact_store: LocalStore, tmp_path: Path) -> LocalStore:
    """A copy of the store, to be damaged."""
    shutil.copytree(artifact_store.root, tmp_path / "artifacts")
    return LocalStore(tmp_path / "artifacts")


def serving(store: LocalStore, policy: Callable[[], Policy] = Policy) -> Router:
    made = Router(store, policy=policy, clock=lambda: NOW, deadline=60.0)
    made.refresh()
    return made


def edit_manifest(folder: Path, **change: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def wrong_digest(folder: Path) -> None:
    data = bytearray((folder / MODEL_FILE).read_bytes())
    data[-1] ^= 1
    (folder / MODEL_FILE).write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "torn artifact": lambda folder: (folder / MODEL_FILE).write_bytes(b"torn"),
    "missing file": lambda folder: (folder / MODEL_FILE).unlink(),
    "wrong digest": wrong_digest,
    "wrong feature hash": lambda folder: edit_manifest(folder, features_digest="0" * 64),
    "format of the future": lambda folder: edit_manifest(folder, format=99),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "pointer torn": lambda folder: (folder.parent / "production.json").write_bytes(b"{"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_an_artifact_that_cannot_be_served_is_no_artifact(store: LocalStore, damage: Callable[[Path], object]) -> None:
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    damage(store.folder(THROUGHPUT, pointer.version))
    router = serving(store)
    answer = router.rank(JOB)
    assert (answer.ranked, answer.no_opinion) == ((), "no artifact")
    assert router.counts == {"refresh failed": 1, "no artifact": 1}


def test_no_candidates(store: LocalStore) -> None:
    router = serving(store)
    assert router.rank(submission("x", candidates=())).no_opinion == "no candidates"
    assert router.counts == {"no candidates": 1}


def test_hardware_that_nobody_knows_is_excluded_and_the_rest_ranked(store: LocalStore) -> None:
    router = serving(store)
    answer = router.rank(submission("x", candidates=("no such type", "fast", "also none")))
    assert [one.hardware_type for one in answer.ranked] == ["fast"]
    assert {one.reason for one in answer.excluded} == {"no specification in the catalog"}
    assert router.rank(submission("y", candidates=("no such type",))).no_opinion == "all candidates excluded"
    assert router.counts == {"ranked": 1, "all candidates excluded": 1}


def test_features_that_are_missing_are_still_ranked(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(jobs: JobBatch) -> Floats:
        return np.full((len(jobs), len(ratios.FEATURES)), np.nan)

    router = serving(store)
    monkeypatch.setattr(ratios, "features", missing)
    assert router.rank(JOB).ranked
    assert router.counts == {"ranked": 1}


def test_a_bug_in_a_feature(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(jobs: JobBatch) -> Floats:
        raise IndexError("bug in a feature")

    router = serving(store)
    monkeypatch.setattr(ratios, "features", broken)
    assert router.rank(JOB).no_opinion == "internal error: IndexError"
    assert router.counts == {"internal error": 1}


def test_a_bug_in_the_switches(store: LocalStore) -> None:
    def broken() -> Policy:
        raise KeyError("switches")

    router = serving(store, broken)
    assert router.rank(JOB).no_opinion == "internal error: KeyError"


def test_hardware_without_a_price_is_excluded_with_what_is_known(store: LocalStore) -> None:
    answer = serving(store).rank(submission("x", candidates=("unpriced",)))
    assert [(one.hardware_type, one.reason) for one in answer.excluded] == [("unpriced", "no price in the catalog")]
    assert answer.excluded[0].throughput is not None, "what is known is still said"
