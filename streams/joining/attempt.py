"""Parts of an attempt, and joining them into a row independently of their order.

A part is stored as text that begins with its rank; of two versions of a part the one with the greater rank wins. That
merge is commutative, associative and idempotent, so duplicates, redelivery and reordering give the same row.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from leap.predictor.features.architecture import summary
from leap.predictor.features.job_family import family_of
from leap.schemas.codec import MAX_DECODED_BYTES, E, decode
from leap.schemas.events import JobAllocated, JobAttempt, JobCompleted, JobSubmitted, PreferenceList
from leap.schemas.hardware import Catalog

Part = JobSubmitted | JobAllocated | JobCompleted | PreferenceList
Parts = Mapping[str, str]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DIGITS = 19
ZERO = 10**18  # offset that keeps ranks non-negative
RANK = DIGITS + 16
#: Clock skew tolerated between a list and the start of its attempt; too short for an attempt to finish, be joined and
#: enter training.
GRACE_S = 60.0


class Submission(msgspec.Struct, frozen=True, array_like=True):
    """A submission with its model definition replaced by the summary."""

    event: JobSubmitted
    architecture: dict[str, float] | None


class ServedPrediction(msgspec.Struct, frozen=True, array_like=True):
    """Predictions and history that a preference list served per hardware type.

    Attributes
    ----------
    predicted
        Hardware type to predicted samples/s.
    history
        Hardware type to the values of the history features, in the order of `features`.
    """

    artifact: str | None
    predicted: dict[str, float]
    features: tuple[str, ...]
    history: dict[str, tuple[float | None, ...]]


def event_time(event: Part) -> datetime:
    """Event time."""
    match event:
        case JobSubmitted():
            return event.submitted_at
        case JobAllocated():
            return event.allocated_at
        case JobCompleted():
            return event.finished_at
        case PreferenceList():
            return event.decided_at


def to_part(event: Part) -> tuple[str, str]:
    """Name and stored text of an event as a part.

    The latest submission, allocation and completion win, because they correct earlier ones; of preference lists the
    earliest wins, because that is the one that was served.
    """
    rank = _microseconds(event_time(event))
    match event:
        case JobSubmitted():
            architecture = summary(event.model) if event.model is not None else None
            submission = Submission(msgspec.structs.replace(event, model=None), architecture)
            return "submitted", _ranked(rank, submission)
        case JobAllocated():
            return "allocated", _ranked(rank, event)
        case JobCompleted():
            return "completed", _ranked(rank, event)
        case PreferenceList():
            return "served", _ranked(-rank, _served(event))


def merge_part(parts: dict[str, str], name: str, value: str) -> None:
    """Merge a part into those of its attempt, as ``merge.lua`` does in the store."""
    if parts.get(name, "")[:RANK] < value[:RANK]:
        parts[name] = value


def in_time(decided_at: float, allocated_at: float | None, started_at: float | None) -> bool:
    """Whether a list was decided before its attempt was allocated or, without an allocation, before it started.

    A later list was not served: a worker that catches up ranks attempts that have long finished, with an artifact that
    may have been trained on them. Times are seconds since 1970; None means not yet.
    """
    began = started_at if allocated_at is None else allocated_at
    return began is None or decided_at <= began + GRACE_S


def join_parts(parts: Parts, catalog: Catalog) -> JobAttempt:
    """Join the parts into a row; a preference list is only used if it was decided in time.

    Raises
    ------
    KeyError
        If the submission or the completion is missing.
    """
    event, architecture = _submission(parts["submitted"][RANK:])
    submitted = decode(event, JobSubmitted, MAX_DECODED_BYTES)
    completed = _decoded(parts["completed"], JobCompleted)
    hardware_type = completed.hardware_type
    allocated = _decoded(parts["allocated"], JobAllocated) if "allocated" in parts else None
    served = None
    allocated_at = allocated.allocated_at.timestamp() if allocated else None
    if "served" in parts and in_time(_decided_at(parts["served"]), allocated_at, completed.started_at.timestamp()):
        served = _served_from(parts["served"][RANK:])
    return JobAttempt(
        attempt_id=completed.attempt_id,
        family=family_of(submitted),
        submitted=submitted,
        completed=completed,
        allocated=allocated,
        architecture=architecture,
        hardware=catalog.specification(hardware_type),
        predicted=served.predicted.get(hardware_type) if served else None,
        artifact=served.artifact if served else None,
        served_history=(
            dict(zip(served.features, served.history.get(hardware_type, ()), strict=False)) if served else {}
        ),
    )


_encode = msgspec.json.Encoder().encode
# As `Submission`, but the event is validated by `decode`: a newer worker may have stored fields unknown to this one.
_submission = msgspec.json.Decoder(tuple[msgspec.Raw, dict[str, float] | None]).decode
_served_from = msgspec.json.Decoder(ServedPrediction).decode


def _decoded(part: str, event_type: type[E]) -> E:
    return decode(part[RANK:].encode(), event_type, MAX_DECODED_BYTES)


def _served(event: PreferenceList) -> ServedPrediction:
    predicted = {
        candidate.hardware_type: candidate.throughput
        for candidate in event.excluded
        if candidate.throughput is not None
    }
    predicted |= {candidate.hardware_type: candidate.throughput for candidate in event.ranked}
    rows = zip(*event.served_history.values(), strict=False)
    return ServedPrediction(
        artifact=event.artifact,
        predicted=predicted,
        features=tuple(event.served_history),
        history=dict(zip(event.candidates, rows, strict=False)),
    )


def _decided_at(part: str) -> float:
    """Time of a preference list, whose rank is its negative."""
    return (ZERO - int(part[:DIGITS])) / 1e6


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _ranked(rank: int, event: msgspec.Struct) -> str:
    """Text that starts with a sortable rank, and a digest as the tie-break."""
    value = _encode(event)
    digest = hashlib.blake2b(value, digest_size=8).hexdigest()
    return f"{ZERO + rank:0{DIGITS}d}{digest}{value.decode()}"
