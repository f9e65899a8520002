"""Damaged arrays with right digests are refused, with the file's name, or rank like any others.

``LEAP_MUTATIONS=100000`` tries so many; two hundred of each recipe by default.
"""

import os
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.routing import ranking
from leap.predictor.routing.ranking import Policy
from leap.schemas.codec import decode, encode
from leap.schemas.events import THROUGHPUT, PreferenceList
from tests.artifacts import night_over, past
from tests.builders import MODEL, submission
from tests.predictor.artifacts.mutations import mutate, write

NOW = datetime(2026, 3, 11, tzinfo=UTC)
RECIPES = ("structured", "boosted", "paper")
TRIES = int(os.environ.get("LEAP_MUTATIONS", "600")) // len(RECIPES)
JOBS = [
    submission("known", job_name="team/job-3x", model_type="model-3", at=NOW, model=MODEL),
    submission("new", job_name="brand/new", model_type="model-?", batch_size=1e6, at=NOW, candidates=("fast", "?")),
]


@pytest.fixture(scope="module", params=RECIPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of each recipe, to be damaged."""
    root = tmp_path_factory.mktemp(request.param)
    store, report = night_over(root, past(), recipe=request.param)
    copy = root / "copy" / report.artifact
    shutil.copytree(store.folder(THROUGHPUT, report.artifact), copy)
    return copy


@pytest.mark.timeout(0)
def test_a_damaged_array_is_refused_or_ranks(folder: Path) -> None:
    outcomes: Counter[str] = Counter()
    whole = (folder / "manifest.json").read_bytes()
    for seed in range(TRIES):
        name, before = mutate(folder, seed)
        try:
            artifact = artifacts.load(folder)
        except ArtifactError as error:
            assert re.search(rf"{name.partition('_')[0]}\w*\.(npy|json)", str(error)), f"seed {seed}: {error}"
            outcomes["refused"] += 1
        else:
            for answer in ranking.rank(artifact, JOBS, Policy(), NOW):
                assert decode(encode(answer), PreferenceList).attempt_id == answer.attempt_id, f"seed {seed}: {name}"
            outcomes["ranked"] += 1
        write(folder, name, before)
        (folder / "manifest.json").write_bytes(whole)
    assert outcomes["refused"] > TRIES / 4 and outcomes["ranked"] > TRIES / 10, outcomes
    print(f"{outcomes}", end=" ")
