"""Parts of an attempt for the tests of the joiner, and the row that they make."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from leap.schemas.events import (
    ExcludedCandidate,
    JobAllocated,
    JobAttempt,
    JobCompleted,
    JobSubmitted,
    PreferenceList,
    RankedCandidate,
)
from leap.schemas.hardware import load_catalog
from leap.schemas.launch import LaunchConfig, ModelDefinition, Operator
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.joining.attempt import Part, join_parts, merge_part, to_part

START = datetime(2024, 3, 1, 8, tzinfo=UTC)
HARDWARE = "A100-SXM-80GB"
CATALOG = load_catalog()
MODEL = ModelDefinition(operators=(Operator(kind="matmul", shape=(8,), parameters=72, flops=128.0, bytes=352.0),))
TOPICS = {
    JobSubmitted: SUBMITTED, JobAllocated: ALLOCATED, JobCompleted: COMPLETED, PreferenceList: PREFERENCES
}  # fmt: skip


def submission(attempt_id: str = "a-1", hours: int = 0, **more: object) -> JobSubmitted:
    event = JobSubmitted(
        attempt_id=attempt_id,
        job_name="bert-20240301",
        model_type="bert",
        submitted_at=START + timedelta(hours=hours),
        config=LaunchConfig(num_trainers=2, accelerators_per_trainer=8, unknown={"queue": 10**30}),
        candidates=("A30", HARDWARE),
        model=MODEL,
    )
    return msgspec.structs.replace(event, **more)


def allocation(attempt_id: str = "a-1", hours: int = 0) -> JobAllocated:
    allocated_at = START + timedelta(hours=hours)
    return JobAllocated(
        attempt_id=attempt_id, hardware_type=HARDWARE, hosts=2, accelerators=16, allocated_at=allocated_at
    )


def completion(attempt_id: str = "a-1", hours: int = 1, **more: object) -> JobCompleted:
    event = JobCompleted(
        attempt_id=attempt_id,
        job_name="bert-20240301",
        hardware_type=HARDWARE,
        started_at=START,
        finished_at=START + timedelta(hours=hours),
        status="succeeded",
        measurements={"throughput": 800.0 + hours},
    )
    return msgspec.structs.replace(event, **more)


def preference(attempt_id: str = "a-1", hours: int = 0) -> PreferenceList:
    return PreferenceList(
        attempt_id=attempt_id,
        ranked=(
            RankedCandidate(
                hardware_type=HARDWARE, throughput=790.0 + hours, cost_per_hour=16.0, throughput_per_cost=49.4,
                score=49.4, basis="family history",
            ),
        ),
        excluded=(ExcludedCandidate(hardware_type="A30", reason="memory", throughput=120.0),),
        artifact=f"throughput-{hours}",
        candidates=("A30", HARDWARE),
        served_history={"history_mean": (None, 6.5), "history_count": (3.0, 4.0)},
        decided_at=START + timedelta(hours=hours),
    )  # fmt: skip


def row_of(parts: Iterable[Part]) -> JobAttempt:
    merged: dict[str, str] = {}
    for part in parts:
        merge_part(merged, *to_part(part))
    return join_parts(merged, CATALOG)


def parts_of(name: str) -> list[Part]:
    return [submission(name), allocation(name), completion(name), preference(name)]


def all_parts(count: int) -> list[Part]:
    return [part for number in range(count) for part in parts_of(f"a-{number}")]


VERSIONS: list[Part] = [
    *(submission(hours=hours) for hours in (0, 1)),
    submission(hours=1, job_name="bert-other"),
    *(allocation(hours=hours) for hours in (-400_000, 0, 1)),
    *(completion(hours=hours) for hours in (1, 2)),
    completion(hours=2, status="failed"),
    *(preference(hours=hours) for hours in (0, 1)),
]
