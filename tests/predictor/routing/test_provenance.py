"""What is outside training is said, and nothing else is."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from leap.predictor.artifacts.artifact import Artifact, load
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.ranking import Policy, rank
from leap.retrainer.dataset.training_set import RANGED, ranges_of
from leap.schemas.events import THROUGHPUT, JobSubmitted
from leap.schemas.launch import ModelDefinition, Operator
from tests.artifacts import NIGHT, past
from tests.builders import MIDNIGHT, submission

KNOWN = submission("q", job_name="team/job-3x", model_type="model-3")


@pytest.fixture(scope="module")
def artifact(artifact_store: LocalStore) -> Artifact:
    pointer = artifact_store.pointer(THROUGHPUT)
    assert pointer is not None
    return load(artifact_store.folder(THROUGHPUT, pointer.version))


def outside(artifact: Artifact, job: JobSubmitted) -> set[str]:
    answer = rank(artifact, [job], Policy(), MIDNIGHT)[0]
    found = {one.outside for one in answer.ranked}
    assert len(found) == 1
    return set(found.pop())


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({}, set()),
        ({"batch_size": None}, {"batch_size"}),
        ({"sequence_length": 512.0}, {"sequence_length", "tokens_per_accelerator"}),
        ({"activation_checkpointing": False}, {"activation_checkpointing"}),
        ({"tensor_parallel": 1}, {"tensor_parallel"}),
        ({"precision": "fp4"}, {"precision"}),
        ({"optimizer": "muon"}, {"optimizer"}),
        ({"sharding": "zero3"}, {"sharding"}),
        ({"extra": {"run_id": "r-17", "team": "ads"}}, set()),
    ],
)
def test_configuration(artifact: Artifact, stated: dict[str, Any], said: set[str]) -> None:
    job = msgspec.structs.replace(KNOWN, config=msgspec.structs.replace(KNOWN.config, **stated))
    assert outside(artifact, job) == said


def test_no_batch_where_none_was_trained_on(artifact: Artifact) -> None:
    job = msgspec.structs.replace(KNOWN, config=msgspec.structs.replace(KNOWN.config, batch_size=None))
    never = artifact.manifest.ranges | {"batch_size": artifact.manifest.ranges["sequence_length"]}
    manifest = msgspec.structs.replace(artifact.manifest, ranges=never)
    assert outside(replace(artifact, manifest=manifest), job) == set()


def test_a_definition_where_none_was_trained_on(artifact: Artifact) -> None:
    huge = Operator(kind="linear", shape=(9,), parameters=10**9, flops=1e16, bytes=1e15)
    said = outside(artifact, msgspec.structs.replace(KNOWN, model=ModelDefinition(operators=(huge,))))
    assert said == {"operators", "parameters", "flops", "bytes", "activations"}


def test_nothing_that_was_trained_on_is_outside(artifact: Artifact) -> None:
    jobs = [
        msgspec.structs.replace(one.submitted, model=None)
        for one in past()
        if (NIGHT - one.submitted.submitted_at.date()).days > 2
    ]
    assert len(jobs) > 400
    answers = rank(artifact, jobs, Policy(), MIDNIGHT)
    assert {one.outside for answer in answers for one in answer.ranked} == {()}


def test_a_range_is_from_the_least_to_the_greatest_and_empty_where_nothing_was_stated() -> None:
    features = np.full((3, len(RANGED)), np.nan, dtype=np.float32)
    features[:, RANGED.index("flops")] = [3.0, np.nan, 1e9]
    ranges = ranges_of(features, RANGED)
    assert (ranges["flops"].low, ranges["flops"].high) == (3.0, 1e9)
    assert all(one.low > one.high for name, one in ranges.items() if name != "flops")
