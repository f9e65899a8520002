"""Every event that crosses Kafka, one struct each.

Times are UTC. Throughput is in samples/s, prices in USD per accelerator-hour. Unknown fields are
collected in ``unknown`` by :mod:`leap.schemas.codec`, so that a newer launcher does not break an older worker.
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from leap.schemas.base import Event, Time
from leap.schemas.hardware import Hardware
from leap.schemas.launch import Amount, LaunchConfig, ModelDefinition, Name, Positive, Text
from leap.schemas.preference_candidates import Basis, ExcludedCandidate, RankedCandidate

__all__ = [
    "MAX_CANDIDATES",
    "MAX_TARGETS",
    "SUCCEEDED",
    "THROUGHPUT",
    "ArtifactPublished",
    "Basis",
    "DeadLetter",
    "Event",
    "ExcludedCandidate",
    "JobAllocated",
    "JobAttempt",
    "JobCompleted",
    "JobSubmitted",
    "Objective",
    "PreferenceList",
    "RankedCandidate",
    "Time",
]

MAX_CANDIDATES = 1_000
MAX_TARGETS = 64
THROUGHPUT = "throughput"
SUCCEEDED = "succeeded"

Objective = Literal["throughput_per_cost", "fastest", "cheapest_by_deadline"]


class JobSubmitted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A launcher is about to start an attempt. Key: attempt_id.

    Attributes
    ----------
    attempt_id
        Unique to this attempt: a retry of the same job is another attempt.
    job_name
        As the user wrote it; its family is derived from it.
    model_type
        Kind of model, for example ``llama2_70b_lora``.
    submitted_at
        When the launcher asked.
    config
        What it will run.
    candidates
        Hardware types that the attempt may use.
    model
        Operators of the model, where the launcher can describe them.
    pinned
        The user's own choice of hardware type: recorded, never overruled.
    objective
        How to rank; the service's default when absent.
    samples
        What the job will train on, for ``cheapest_by_deadline``.
    deadline
        When it must have finished, for ``cheapest_by_deadline``.
    """

    attempt_id: Name
    job_name: Name
    model_type: Name
    submitted_at: Time
    config: LaunchConfig
    candidates: Annotated[tuple[Name, ...], Meta(max_length=MAX_CANDIDATES)] = ()
    model: ModelDefinition | None = None
    pinned: Name | None = None
    objective: Objective | None = None
    samples: Positive | None = None
    deadline: Time | None = None


class JobAllocated(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The scheduler gave an attempt its hardware. Key: attempt_id.

    Attributes
    ----------
    attempt_id
        That of the submission.
    hardware_type
        What it got, by its name in the catalog.
    hosts
        Machines that it got.
    accelerators
        Accelerators over all hosts.
    allocated_at
        When it got them.
    """

    attempt_id: Name
    hardware_type: Name
    hosts: Annotated[int, Meta(ge=1, le=10_000_000)]
    accelerators: Annotated[int, Meta(ge=1, le=10_000_000)]
    allocated_at: Time


class JobCompleted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt ended. Key: family.

    Attributes
    ----------
    attempt_id
        That of the submission.
    job_name, model_type
        As in the submission, so that statistics need no join.
    hardware_type
        What it ran on, by its name in the catalog.
    started_at, finished_at
        When training began and ended.
    status
        Leap learns from ``succeeded`` only.
    accelerator_hours
        Hours times accelerators that the attempt held.
    measurements
        Prediction target to measured value; ``throughput`` in samples/s is the first target.

    Raises
    ------
    ValueError
        If it finished before it started.
    """

    attempt_id: Name
    job_name: Name
    hardware_type: Name
    started_at: Time
    finished_at: Time
    status: Name
    model_type: Name | None = None
    accelerator_hours: Amount | None = None
    measurements: Annotated[dict[Name, Amount], Meta(max_length=MAX_TARGETS)] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.finished_at < self.started_at:
            raise ValueError("finished_at is before started_at")


class PreferenceList(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a submission: a preference, never a constraint. Key: attempt_id.

    Attributes
    ----------
    attempt_id, model_type, pinned, candidates
        Those of the submission.
    family
        Family of its job name.
    ranked
        Hardware types to use, best first.
    excluded
        Hardware types not to use, each with its reason.
    no_opinion
        Why `ranked` is empty; none when it is not.
    objective
        What `ranked` is sorted by.
    artifact
        Version of the artifact that ranked.
    served_history
        History feature to its values, one per candidate in the order of `candidates`; null is missing.
    shadow
        Decided and recorded, not to be acted on.
    decided_at
        When it was ranked.
    """

    attempt_id: Name
    family: Text = ""
    model_type: Text = ""
    ranked: tuple[RankedCandidate, ...] = ()
    excluded: tuple[ExcludedCandidate, ...] = ()
    no_opinion: Text | None = None
    objective: Objective = "throughput_per_cost"
    pinned: Name | None = None
    artifact: Text | None = None
    candidates: tuple[Name, ...] = ()
    served_history: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    shadow: bool = False
    decided_at: Time


class JobAttempt(Event, frozen=True, kw_only=True, omit_defaults=True):
    """One finished attempt, joined: a row of the feature table. Key: family.

    Attributes
    ----------
    attempt_id
        That of the three events.
    family
        Family of the job name.
    submitted
        The submission; its model definition is replaced by `architecture`.
    completed
        The completion.
    allocated
        The allocation, where a scheduler reported one.
    architecture
        Summary values of the model definition, where one was given.
    hardware
        Specification in force of the hardware type that it ran on, where the catalog has it.
    predicted
        Throughput predicted at launch for that hardware type, samples/s, if it was.
    artifact
        Version of the artifact that predicted it.
    served_history
        History feature to the value that was served for that hardware type; null is missing.
    """

    attempt_id: Name
    family: Text
    submitted: JobSubmitted
    completed: JobCompleted
    allocated: JobAllocated | None = None
    architecture: dict[str, float] | None = None
    hardware: Hardware | None = None
    predicted: float | None = None
    artifact: Text | None = None
    served_history: dict[str, float | None] = field(default_factory=dict)


class ArtifactPublished(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A night wrote an artifact. Key: target.

    Attributes
    ----------
    target
        Prediction target that it is for.
    artifact
        Its version.
    promoted
        Whether production moved to it.
    reason
        Why it did or did not.
    metrics
        Metric to its value on the held-out day.
    published_at
        When it was decided.
    """

    target: Name
    artifact: Name
    promoted: bool
    reason: Text
    metrics: dict[str, float] = field(default_factory=dict)
    published_at: Time


class DeadLetter(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A message that could not be used, whole. Key: that of the message.

    Attributes
    ----------
    topic, partition, offset
        Where it stood.
    value, key
        The original bytes (base64 on the wire); none for a message without them.
    reason
        What was wrong with it, and where in it.
    worker
        Who rejected it.
    rejected_at
        When.
    """

    topic: Name
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    value: bytes | None
    key: bytes | None = None
    reason: Annotated[str, Meta(max_length=2048)]
    worker: Text
    rejected_at: Time
