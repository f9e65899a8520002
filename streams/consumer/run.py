"""Run a loop as a process: health, metrics, an end within 10 s of SIGTERM, and one when it is stuck."""

import gc
import math
import signal
import sys
import threading
import time
from contextlib import ExitStack

import structlog

from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

# With what the interpreter takes to end, 10 s.
STOP_S = 8.0
# Batches are many objects and hardly a cycle: at the default of 700 a fifth of a worker's time goes into
# looking for some (measured of the history worker).
COLLECT_EVERY = 50_000
# Whoever comes back from a socket waits so long for the interpreter while another thread computes: at the default
# of 5 ms a history worker that decodes while the store answers loses a seventh of its speed (measured).
SWITCH_S = 0.0005

# The Kafka client waits for times of day. If the clock goes back by hours its waits take as much longer (seen: it
# fetched and sent nothing), so a worker begins anew rather than after it is found stuck.
CLOCK_BACK_S = 10.0


class StuckError(RuntimeError):
    """The loop makes no progress; whoever supervises the process starts it anew."""


def tune_interpreter() -> None:
    """Set what is global to a process the way a worker's batches and threads want it."""
    gc.set_threshold(COLLECT_EVERY)
    sys.setswitchinterval(SWITCH_S)


def run_worker(loop: BatchLoop, settings: Settings) -> bool:
    """Work until SIGTERM or SIGINT; to be called from the main thread.

    The loop runs in a thread of its own, so that a signal is heard while it waits for a broker or a store.
    What is not committed when time runs out is done again by the next worker.

    Returns
    -------
    bool
        Whether the loop came to its end in time.

    Raises
    ------
    StuckError
        If there is work and for five minutes none of it is done, be it that the client has stopped fetching,
        that a batch hangs, or that it fails again and again; or if for ten the worker has not been in its group. So
        an outage restarts a worker now and then: it cannot tell that from a fault of its own, and its batch comes
        again. At once if the clock goes back by more than 10 s.
    Exception
        What ended the loop.
    """
    tune_interpreter()
    failures: list[Exception] = []

    def work() -> None:
        try:
            loop.run()
        except Exception as error:
            failures.append(error)

    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            previous = signal.signal(number, lambda *_: loop.stop())
            stack.callback(signal.signal, number, previous)
        if settings.metrics_port:
            stack.enter_context(health_server(settings.metrics_port, loop.progress))
        thread = threading.Thread(target=work, name=loop.worker, daemon=True)
        thread.start()
        latest = -math.inf
        while thread.is_alive() and not loop.stopping:
            thread.join(0.1)
            if fault := loop.progress.fault():
                raise StuckError(f"{loop.worker}: {fault}")
            ahead = time.time() - time.monotonic()
            latest = max(latest, ahead)
            if latest - ahead > CLOCK_BACK_S:
                raise StuckError(f"{loop.worker}: the clock went back by {latest - ahead:.0f} s")
        thread.join(STOP_S)
        if failures:
            raise failures[0]
        if not thread.is_alive() and not loop.stopping:  # the client raises its own errors as what nothing catches
            raise StuckError(f"{loop.worker}: its loop has ended")
        if thread.is_alive():
            log.error("stopped in the middle of a batch", worker=loop.worker, after_s=STOP_S)
        return not thread.is_alive()
