"""Where a launcher's events go: topic and key."""

from leap.predictor.features.job_family import family
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED

JobEvent = JobSubmitted | JobAllocated | JobCompleted


def address(event: JobEvent) -> tuple[str, bytes]:
    """Declared topic and key of an event: the attempt, or for a completion its family."""
    match event:
        case JobSubmitted():
            return SUBMITTED, event.attempt_id.encode()
        case JobAllocated():
            return ALLOCATED, event.attempt_id.encode()
        case JobCompleted():
            return COMPLETED, family(event.job_name).encode()
