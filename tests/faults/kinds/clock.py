"""Clocks that are wrong, and clocks that move."""

import time
from datetime import UTC, datetime, timedelta

from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted
from tests.faults import trail
from tests.faults.fault import Fault
from tests.faults.scene import Scene
from tests.faults.workers import KINDS

FAR_S = 10**9
#: How far a worker's clock jumps; a broker refuses what claims to be written more than an hour ahead.
HOURS_S = 7_200, 36_000
DEADLINE_S = 60.0


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


def moved(scene: Scene) -> None:
    """Clocks of workers jump forwards or backwards by hours, each kind's by its own, then the other way, then back.

    Where a clock is ahead, brokers refuse what a joiner and a ranking worker write; all else goes on.
    """
    for signs in ((1, -1, 1), (-1, 1, -1)):
        ahead = {kind: sign * scene.rng.randint(*HOURS_S) for kind, sign in zip(KINDS, signs, strict=True)}
        for kind, seconds in ahead.items():
            scene.workers.set_clock(kind, seconds)
        scene.count()
        scene.sender.send_again()  # that there is work, whatever is sent meanwhile
        _await_batch(scene, ahead["history"])
    for kind in KINDS:
        scene.workers.set_clock(kind, 0)


def _await_batch(scene: Scene, ahead_s: int) -> None:
    """Wait until a batch was handled by a clock that is so far ahead, and as long again for other workers."""
    began = time.monotonic()
    while not any(round(batch.epoch_s - trail.epoch_s()) == ahead_s for batch in trail.follow(scene.folder)):
        if time.monotonic() - began > DEADLINE_S:
            raise TimeoutError(f"no worker has handled anything with its clock {ahead_s} s ahead")
        time.sleep(0.1)
    time.sleep(time.monotonic() - began)


FAULTS = [
    Fault("launchers' clocks wrong", wrong, pause_s=0.2),
    Fault("clocks of workers move", moved, clocks_move=True),
]
