"""A launcher that tells Leap about one attempt and follows its advice where there is any.

Run it with the workers of ``docker compose up`` or beside ``leap demo``; it reads the LEAP_ variables. With the
broker away it launches all the same.
"""

import os
import uuid
from datetime import UTC, datetime

from leap import JobAllocated, JobCompleted, JobSubmitted, LaunchConfig, Launcher, Settings

OWN_CHOICE = "A100-SXM-80GB"
DEADLINE_S = 1.0


def train(hardware_type: str) -> float:
    """Stand in for the training; returns samples/s."""
    return 2450.0


def main() -> None:
    """Launch one attempt."""
    attempt_id = str(uuid.uuid4())
    job_name = f"resnet-50-imagenet-{datetime.now(UTC):%Y-%m-%d}"
    config = LaunchConfig(num_trainers=2, accelerators_per_trainer=8, batch_size=256, precision="bf16")
    with Launcher(Settings.from_environment(os.environ), follow_preferences=True) as leap:
        leap.submitted(
            JobSubmitted(
                attempt_id=attempt_id,
                job_name=job_name,
                model_type="resnet",
                submitted_at=datetime.now(UTC),
                config=config,
                candidates=(OWN_CHOICE, "H100-SXM-80GB", "L40S"),
            )
        )
        preference = leap.preference(attempt_id, DEADLINE_S)
        if preference.ranked and not preference.shadow:
            hardware_type = preference.ranked[0].hardware_type
            print(f"Leap prefers {hardware_type}")
        else:
            hardware_type = OWN_CHOICE
            print(f"no opinion ({preference.no_opinion or 'shadow'}): {hardware_type}")
        started_at = datetime.now(UTC)
        leap.allocated(
            JobAllocated(
                attempt_id=attempt_id,
                hardware_type=hardware_type,
                hosts=config.num_trainers,
                accelerators=config.accelerators,
                allocated_at=started_at,
            )
        )
        throughput = train(hardware_type)
        leap.completed(
            JobCompleted(
                attempt_id=attempt_id,
                job_name=job_name,
                model_type="resnet",
                hardware_type=hardware_type,
                started_at=started_at,
                finished_at=datetime.now(UTC),
                status="succeeded",
                measurements={"throughput": throughput},
            )
        )
        left = leap.close()
        print(f"{leap.counts.delivered} events delivered, {left} lost")


if __name__ == "__main__":
    main()
