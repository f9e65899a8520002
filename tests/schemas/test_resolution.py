"""Events under the names of the catalog."""

from datetime import UTC, datetime

from leap.schemas.events import (
    ExcludedCandidate,
    JobAllocated,
    JobCompleted,
    PreferenceList,
    RankedCandidate,
)
from leap.schemas.hardware import load_catalog
from leap.schemas.resolution import resolved
from tests.builders import submission

CATALOG = load_catalog()
AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_submission_has_each_type_once() -> None:
    job = submission(candidates=("Tesla T4", "L4", "nvidia-tesla-t4", "strange"), pinned="nvidia-l4")
    found = resolved(job, CATALOG)
    assert (found.candidates, found.pinned) == (("T4", "L4", "strange"), "L4")


def test_what_ran_is_named_as_listed() -> None:
    allocated = JobAllocated(attempt_id="a", hardware_type="h100", hosts=1, accelerators=8, allocated_at=AT)
    completed = JobCompleted(
        attempt_id="a", job_name="j", hardware_type="GH200 96GB", started_at=AT, finished_at=AT, status="failed"
    )
    assert resolved(allocated, CATALOG).hardware_type == "H100-SXM-80GB"
    assert resolved(completed, CATALOG).hardware_type == "GH200-96GB"


def test_list_keeps_as_many_candidates_as_it_has_features() -> None:
    answer = PreferenceList(
        attempt_id="a",
        ranked=(RankedCandidate(hardware_type="A100", throughput=1.0, score=1.0, basis="similar jobs"),),
        excluded=(ExcludedCandidate(hardware_type="Tesla T4", reason="r"),),
        candidates=("A100", "Tesla T4", "T4"),
        decided_at=AT,
    )
    found = resolved(answer, CATALOG)
    assert [one.hardware_type for one in found.ranked] == ["A100-SXM-40GB"]
    assert [one.hardware_type for one in found.excluded] == ["T4"]
    assert found.candidates == ("A100-SXM-40GB", "T4", "T4")


def test_event_that_has_the_names_already_is_the_same() -> None:
    job = submission(candidates=("T4", "strange"))
    assert resolved(job, CATALOG) is job
