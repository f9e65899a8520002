"""Which attempts count: the same for statistics, partitions and all that is scored, and for the monitor."""

import msgspec
import numpy as np
import pytest

from leap.retrainer.dataset.feature_table import frame, log_target
from leap.schemas.codec import encode
from leap.schemas.events import SUCCEEDED, THROUGHPUT
from leap.streams.history.worker import observe
from leap.streams.kafka.message import Message
from leap.streams.monitor.attempt import Attempt, merge
from leap.streams.monitor.skew import Finished
from tests.builders import CATALOG, attempt, submission


@pytest.mark.parametrize(
    ("status", "measurements", "counts"),
    [
        (SUCCEEDED, {THROUGHPUT: 80.0}, True),
        (SUCCEEDED, {THROUGHPUT: 0.0}, False),
        (SUCCEEDED, {"other": 80.0}, False),
        ("failed", {THROUGHPUT: 80.0}, False),
        ("preempted", {THROUGHPUT: 80.0}, False),
    ],
)
def test_an_attempt_counts_everywhere_or_nowhere(status: str, measurements: dict[str, float], counts: bool) -> None:
    made = attempt(submission("a"), "fast", 80.0)
    made = msgspec.structs.replace(
        made, completed=msgspec.structs.replace(made.completed, status=status, measurements=measurements)
    )
    completed, finished, monitored = made.completed, Finished(), Attempt()
    finished.add(completed, 1.0)
    merge(monitored, completed, 1.0)
    message = Message("job-completed", "id", 0, 0, None, encode(completed), 0)
    told = {
        "event": completed.measured() == 80.0,
        "statistics": bool(observe(completed, message, CATALOG)),
        "partitions, learn, night, backtest, holdout": bool((~np.isnan(log_target(frame([made]), THROUGHPUT))).any()),
        "monitor": not np.isnan(monitored.measured),
        "skew": finished._count == 1,
    }
    assert set(told.values()) == {counts}, told
