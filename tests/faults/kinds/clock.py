"""Launchers whose clocks are wrong."""

from datetime import UTC, datetime, timedelta

from schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted
from tests.faults.fault import Fault
from tests.faults.scene import Scene

FAR_S = 10**9


def wrong(scene: Scene) -> None:
    """One completion from the far past, which counts, and one from the future, which must not."""
    scene.count()
    for sign, kept in ((-1, scene.extra), (1, scene.refused)):
        at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=sign * scene.rng.randrange(10**6, FAR_S))
        event = JobCompleted(
            attempt_id=f"wrong-{len(scene.extra) + len(scene.refused)}",
            job_name="team/job-1x",
            model_type="model-1",
            hardware_type="basic",
            started_at=at - timedelta(hours=1),
            finished_at=at,
            status=SUCCEEDED,
            measurements={THROUGHPUT: scene.rng.lognormvariate(8, 1.5)},
        )
        scene.sender.send(event)
        kept.append(event)


FAULTS = [Fault("clocks wrong", wrong, pause_s=0.2)]
