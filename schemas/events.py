"""All Kafka events, one struct each.

Times are UTC. Throughput is in samples/s, prices in USD per accelerator-hour. Unknown fields are
collected in ``unknown`` by :mod:`leap.schemas.codec`, so that a newer launcher does not break an older worker.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from leap.schemas.base import Event, Time
from leap.schemas.hardware import Hardware
from leap.schemas.launch import Amount, Count, LaunchConfig, ModelDefinition, Name, Positive, Text
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
    "Shape",
    "Time",
]

MAX_CANDIDATES = 1_000
MAX_TARGETS = 64
MAX_SHAPES = 64
THROUGHPUT = "throughput"
SUCCEEDED = "succeeded"

Objective = Literal["throughput_per_cost", "fastest", "cheapest_by_deadline"]


class JobSubmitted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A launcher is about to start an attempt. Key: attempt_id.

    Attributes
    ----------
    attempt_id
        Unique id of the attempt; a retry of the same job is another attempt.
    job_name
        Name given by the user; the family is derived from it unless stated.
    model_type
        Type of model, for example ``llama2_70b_lora``.
    submitted_at
        Time of submission.
    config
        Launch configuration.
    candidates
        Hardware types that the attempt may use, by any name that the catalog knows.
    model
        Operators of the model, or totals alone; kept by `model_type`, so that later attempts need not repeat it.
    pinned
        Hardware type chosen by the user: recorded, never overridden.
    objective
        Ranking objective; the service's default if absent.
    samples
        Number of samples to train on, for ``cheapest_by_deadline``.
    deadline
        Latest time to finish, for ``cheapest_by_deadline``.
    family
        Family of the job, taken as it is; derived from `job_name` if absent.
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
    family: Name | None = None


class JobAllocated(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The scheduler gave an attempt its hardware. Key: attempt_id.

    Attributes
    ----------
    attempt_id
        As in the submission.
    hardware_type
        Allocated hardware type, by any name that the catalog knows.
    hosts
        Number of hosts.
    accelerators
        Number of accelerators over all hosts.
    allocated_at
        Time of the allocation.
    """

    attempt_id: Name
    hardware_type: Name
    hosts: Annotated[int, Meta(ge=1, le=10_000_000)]
    accelerators: Annotated[int, Meta(ge=1, le=10_000_000)]
    allocated_at: Time


class Shape(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A shape that an attempt ran in, as in `JobAllocated`.

    Attributes
    ----------
    hosts
        Number of hosts.
    accelerators
        Number of accelerators over all hosts.
    batch_size
        Samples per optimizer step and host; as asked if absent.
    measurements
        What was measured in this shape; needed where an attempt had several.
    """

    hosts: Count
    accelerators: Count
    batch_size: Positive | None = None
    measurements: Annotated[dict[Name, Amount], Meta(max_length=MAX_TARGETS)] = {}


class JobCompleted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt ended. Key: family.

    Attributes
    ----------
    attempt_id
        As in the submission.
    job_name, model_type
        As in the submission, so that statistics need no join.
    hardware_type
        Hardware type that it ran on, by any name that the catalog knows.
    started_at, finished_at
        Start and end of training.
    status
        Leap learns from ``succeeded`` only.
    accelerator_hours
        Duration in hours times number of accelerators.
    measurements
        Prediction target to measured value; ``throughput`` in samples/s is the first target.
    family
        As in the submission; whoever states it there states it here.
    shapes
        Shapes that it ran in, first to last. Without any, it ran as allocated or, without an allocation, as asked.

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
    family: Name | None = None
    shapes: Annotated[tuple[Shape, ...], Meta(max_length=MAX_SHAPES)] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.finished_at < self.started_at:
            raise ValueError("finished_at is before started_at")

    @property
    def shape(self) -> Shape | None:
        """The last shape, which is what is learned; None if none is stated."""
        return self.shapes[-1] if self.shapes else None

    @property
    def of_shape(self) -> dict[str, float]:
        """Measurements of the last shape: those of the attempt, unless it had several."""
        return self.shapes[-1].measurements if len(self.shapes) > 1 else self.measurements

    def measured(self, target: str = THROUGHPUT) -> float | None:
        """What is learned of the attempt: the measured target if it succeeded and that is above 0.

        Statistics, nights, `learn`, `backtest`, `holdout` and the monitor count an attempt by this alone.
        """
        value = (self.of_shape if self.shapes else self.measurements).get(target, 0.0)
        return value if self.status == SUCCEEDED and value > 0.0 else None


class PreferenceList(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a submission: a preference, never a constraint. Key: attempt_id.

    Attributes
    ----------
    attempt_id, model_type, pinned, candidates
        As in the submission.
    family
        Family of its job, as stated or derived.
    ranked
        Hardware types in order of preference, best first.
    excluded
        Hardware types that are not ranked, each with a reason.
    no_opinion
        Why `ranked` is empty; null if it is not.
    objective
        Objective that `ranked` is sorted by.
    artifact
        Version of the artifact used.
    accelerators
        Accelerators that were asked for, with which `ranked` is predicted and the history per accelerator scaled.
    served_history
        History feature to its values, one per candidate in the order of `candidates`; null is missing.
    flops
        FLOP of the model's forward pass per sample, stated or kept of its model type; null if not known.
    shadow
        Recorded only, not to be acted on.
    decided_at
        Time of the ranking.
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
    accelerators: Annotated[int, Meta(ge=1, le=10**14)] | None = None
    candidates: tuple[Name, ...] = ()
    served_history: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    flops: float | None = None
    shadow: bool = False
    decided_at: Time


class JobAttempt(Event, frozen=True, kw_only=True, omit_defaults=True):
    """One finished attempt, joined: a row of the feature table. Key: family.

    Attributes
    ----------
    attempt_id
        Id of the attempt.
    family
        Family of the job, as the submission states it or as derived from its name.
    submitted
        The submission; its model definition is replaced by `architecture`.
    completed
        The completion.
    allocated
        The allocation, if the scheduler reported it.
    architecture
        Summary values of the model definition, if there is one.
    hardware
        Specification of the hardware type that it ran on, if in the catalog, which names it in all parts of a row.
    predicted
        Throughput predicted at launch for that hardware type, samples/s, if any.
    artifact
        Version of the artifact that predicted it.
    served_history
        History feature to the value served for that hardware type; null is missing.
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
    """A training run published an artifact. Key: target.

    Attributes
    ----------
    target
        Prediction target.
    artifact
        Version of the artifact.
    promoted
        Whether it was promoted to production.
    reason
        Reason for the decision.
    metrics
        Metric to its value on the held-out day.
    published_at
        Time of the decision.
    """

    target: Name
    artifact: Name
    promoted: bool
    reason: Text
    metrics: dict[str, float] = field(default_factory=dict)
    published_at: Time


class DeadLetter(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An invalid message with its original bytes. Key: that of the message.

    Attributes
    ----------
    topic, partition, offset
        Position of the message.
    value, key
        The original bytes (base64 in JSON); null if the message had none.
    reason
        What is wrong, and where in the message.
    worker
        Worker that rejected it.
    rejected_at
        Time of the rejection.
    """

    topic: Name
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    value: bytes | None
    key: bytes | None = None
    reason: Annotated[str, Meta(max_length=2048)]
    worker: Text
    rejected_at: Time
