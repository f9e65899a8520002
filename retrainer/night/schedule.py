"""The built-in schedule: one nightly run a day, a missed one made up for."""

import random
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time

import structlog

from leap.streams.runtime import metrics

log = structlog.get_logger(__name__)

#: When a night begins, UTC: late events of the day before are mostly in by then.
START = clock_time(0, 30)
#: So that the nights of many fleets do not begin in the same second.
JITTER_S = 600.0
RETRY_S = 900.0


def run_daily(
    run: Callable[[date], object],
    done: Callable[[date], bool],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run the night of every day, for ever.

    Parameters
    ----------
    run
        Runs the night of a date. If it fails it is tried again every `RETRY_S` seconds.
    done
        Whether the night of a date has run: one that was missed, because no process was there, runs at once.
    """
    while True:
        moment = now()
        due = moment.date() if moment.time() >= START else moment.date() - timedelta(days=1)
        if done(due):
            tomorrow = datetime.combine(due + timedelta(days=1), START, UTC)
            sleep((tomorrow - moment).total_seconds() + random.uniform(0.0, JITTER_S))
            continue
        try:
            run(due)
        except Exception:
            metrics.NIGHT_FAILURES.inc()
            log.exception("nightly training run failed; retrying", night=due.isoformat(), pause_s=RETRY_S)
            sleep(RETRY_S)
