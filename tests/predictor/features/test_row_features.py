"""The blocks of features that are needed whatever the recipe are the columns of the full matrix."""

import numpy as np
import pytest

from leap.predictor.artifacts.artifact import Artifact, load
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.features import history
from leap.predictor.features.batch import JobBatch
from leap.predictor.features.matrix import OF_JOB, RowFeatures
from leap.predictor.features.target_encoding import HARDWARE_TYPE, VENDOR
from leap.schemas.events import THROUGHPUT
from tests.builders import MODEL, submission

TYPES = ["fast", "basic", "no such type"]


@pytest.fixture(scope="module")
def artifact(artifact_store: LocalStore) -> Artifact:
    pointer = artifact_store.pointer(THROUGHPUT)
    assert pointer is not None
    return load(artifact_store.folder(THROUGHPUT, pointer.version))


@pytest.fixture
def features(artifact: Artifact) -> RowFeatures:
    submissions = [
        submission("a", job_name="team/job-3x", model_type="model-3", model=MODEL, batch_size=1e300),
        submission("b", job_name="never seen", model_type="strange"),
    ]
    job = np.repeat([0, 1], len(TYPES))
    return artifact.features(artifact.candidate_rows(JobBatch.from_events(submissions), job, TYPES * 2))


def columns(artifact: Artifact, features: RowFeatures, names: tuple[str, ...]) -> bytes:
    positions = [artifact.manifest.features.index(name) for name in names]
    return np.ascontiguousarray(features.matrix[:, positions]).tobytes()


def test_blocks_are_the_columns_of_the_matrix_bit_for_bit(artifact: Artifact, features: RowFeatures) -> None:
    job = features.rows.job
    assert columns(artifact, features, OF_JOB) == np.ascontiguousarray(features.of_job[job]).tobytes()
    assert columns(artifact, features, history.FEATURES) == np.ascontiguousarray(features.history).tobytes()


def test_what_is_unseen_is_what_the_matrix_flags(artifact: Artifact, features: RowFeatures) -> None:
    encoder = artifact.manifest.vocabulary
    unseen = encoder.unseen(features.rows.jobs)
    assert set(unseen) == {*encoder.coded} - {HARDWARE_TYPE, VENDOR}
    for field, flags in unseen.items():
        flagged = features.matrix[:, artifact.manifest.features.index(f"{field}_unseen")]
        np.testing.assert_array_equal(flagged, np.array(flags, dtype=np.float32)[features.rows.job])
