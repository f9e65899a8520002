"""Topic and message key of a launcher's events."""

from leap.predictor.features.job_family import family_of
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED

JobEvent = JobSubmitted | JobAllocated | JobCompleted


def address(event: JobEvent) -> tuple[str, bytes]:
    """Topic (without prefix) and key: the attempt id, or the family for a completion."""
    match event:
        case JobSubmitted():
            return SUBMITTED, event.attempt_id.encode()
        case JobAllocated():
            return ALLOCATED, event.attempt_id.encode()
        case JobCompleted():
            return COMPLETED, family_of(event).encode()
