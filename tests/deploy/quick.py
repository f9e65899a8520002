"""The ``leap`` command with the waits of its processes shortened, so that an alert takes seconds and not minutes.

What a job does that is named after a fault is the only other change: one that ranking cannot bear, one that it takes
long for.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from unittest.mock import patch

from leap import cli
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.routing.ranking import Policy, rank
from leap.retrainer.night import schedule
from leap.schemas.events import JobSubmitted, PreferenceList
from leap.streams.consumer import batch_loop, partition_watcher
from leap.streams.monitor import app as monitor_app
from leap.streams.ranking import worker as ranking

POISON, SLOW = "poison", "slow"
SLOW_S = 0.4


def _rank(artifact: Artifact, jobs: Sequence[JobSubmitted], policy: Policy, now: datetime) -> list[PreferenceList]:
    names = {job.job_name for job in jobs}
    if POISON in names:
        raise RuntimeError("a bug")
    if SLOW in names:
        time.sleep(SLOW_S)
    return rank(artifact, jobs, policy, now)


if __name__ == "__main__":
    batch_loop.LAST_RETRY_S = 0.3
    partition_watcher.REFRESH_EVERY_S = 0.2
    monitor_app.REFRESH_S = 0.5
    monitor_app.POSITIONS_EVERY = 1
    ranking.REFRESH_EVERY_S = 0.2
    schedule.RETRY_S = 2.0
    with patch("leap.predictor.routing.router.rank", _rank):
        cli.main()
