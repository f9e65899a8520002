"""Small jobs, catalogs and attempts for the tests."""

from datetime import UTC, datetime, timedelta

from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobAttempt, JobCompleted, JobSubmitted, Objective
from leap.schemas.hardware import Catalog, Hardware
from leap.schemas.launch import LaunchConfig, ModelDefinition, Operator

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)

CATALOG = Catalog(
    [
        Hardware(
            name=name,
            vendor=vendor,
            fp16_tflops=tflops,
            memory_gb=memory,
            memory_bandwidth_gb_s=bandwidth,
            price_per_hour=price,
            price_source="test" if price else None,
            price_date="2026-01-01" if price else None,
            premium=premium,
        )
        for name, vendor, tflops, memory, bandwidth, price, premium in (
            ("basic", "Acme", 100.0, 16.0, 900.0, 1.0, False),
            ("fast", "Acme", 400.0, 80.0, 3000.0, 3.0, False),
            ("newest", "Bolt", 900.0, 180.0, 8000.0, 10.0, True),
            ("unpriced", "Bolt", 300.0, 64.0, 2000.0, None, False),
        )
    ]
)

MODEL = ModelDefinition(
    operators=(
        Operator(kind="embedding", shape=(16,), parameters=1600, bytes=64.0, attributes={"rows": 100, "dim": 16}),
        Operator(kind="linear", shape=(32,), parameters=544, flops=1024.0, bytes=2400.0),
        Operator(kind="relu", shape=(32,), flops=32.0, bytes=256.0),
        Operator(kind="linear", shape=(1,), parameters=33, flops=64.0, bytes=300.0),
    ),
    edges=((0, 1), (1, 2), (2, 3), (0, 3)),
    precision="bf16",
)


def submission(
    attempt_id: str = "a-1",
    job_name: str = "ads/ranker",
    model_type: str = "dlrm",
    at: datetime = MIDNIGHT,
    candidates: tuple[str, ...] = ("basic", "fast", "newest"),
    trainers: int = 2,
    batch_size: float = 64.0,
    model: ModelDefinition | None = None,
    pinned: str | None = None,
    objective: Objective | None = None,
    samples: float | None = None,
    deadline: datetime | None = None,
) -> JobSubmitted:
    """A valid submission."""
    config = LaunchConfig(
        num_trainers=trainers, accelerators_per_trainer=8, batch_size=batch_size, data_readers=32.0, precision="bf16"
    )
    return JobSubmitted(
        attempt_id=attempt_id,
        job_name=job_name,
        model_type=model_type,
        submitted_at=at,
        config=config,
        candidates=candidates,
        model=model,
        pinned=pinned,
        objective=objective,
        samples=samples,
        deadline=deadline,
    )


def attempt(submitted: JobSubmitted, hardware_type: str, throughput: float, hours: float = 1.0) -> JobAttempt:
    """The attempt that ran `hours` on a hardware type right after its submission and succeeded."""
    completed = JobCompleted(
        attempt_id=submitted.attempt_id,
        job_name=submitted.job_name,
        model_type=submitted.model_type,
        hardware_type=hardware_type,
        started_at=submitted.submitted_at,
        finished_at=submitted.submitted_at + timedelta(hours=hours),
        status=SUCCEEDED,
        measurements={THROUGHPUT: throughput},
    )
    return JobAttempt(
        attempt_id=submitted.attempt_id, family=submitted.job_name, submitted=submitted, completed=completed
    )
