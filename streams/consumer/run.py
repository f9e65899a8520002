"""Run a loop as a process: health, metrics, shutdown within 10 s of SIGTERM, exit when stuck."""

import gc
import math
import signal
import sys
import threading
import time
from contextlib import ExitStack

import structlog

from leap.schemas.errors import LeapError
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

# Plus the interpreter's own shutdown: 10 s.
STOP_S = 8.0
# Batches allocate many objects but hardly any cycles: at the default threshold of 700 the history worker spends a
# fifth of its time in garbage collection (measured).
GC_THRESHOLD = 50_000
# A thread returning from I/O waits up to this long for the GIL: at the default of 5 ms the history worker, which
# decodes while Redis works, loses a seventh of its throughput (measured).
SWITCH_S = 0.0005

# librdkafka's timeouts use the wall clock. If that goes back by hours, its waits take as much longer (observed: no
# fetch and no send), so the worker exits immediately rather than after the stall limit.
CLOCK_BACK_S = 10.0


class StuckError(LeapError, RuntimeError):
    """The loop makes no progress; the process supervisor has to restart it."""


def tune_interpreter() -> None:
    """Set the process-wide GC threshold and thread switch interval for workers and replays."""
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_S)


def run_worker(loop: BatchLoop, settings: Settings) -> bool:
    """Run until SIGTERM or SIGINT; call from the main thread.

    The loop runs in a thread of its own, so that signals are handled while it waits for a broker or Redis. A batch
    not committed before the deadline is redelivered to the next worker.

    Returns
    -------
    bool
        Whether the loop ended in time.

    Raises
    ------
    StuckError
        If there is lag but no progress for five minutes (the client stopped fetching, or a batch hangs or keeps
        failing), or if the worker has not been in its group for ten. An outage therefore restarts workers from time
        to time: they cannot tell it from a fault of their own. Immediately if the clock goes back by more than 10 s.
    Exception
        Whatever ended the loop.
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
        _supervise(loop, thread)
        thread.join(STOP_S)
    if failures:
        raise failures[0]
    ended = not thread.is_alive()
    if ended and not loop.stopping:  # the client raises errors that `work` does not catch
        raise StuckError(f"{loop.worker}: its loop has ended")
    if not ended:
        log.error("stopped in the middle of a batch", worker=loop.worker, after_s=STOP_S)
    return ended


def _supervise(loop: BatchLoop, thread: threading.Thread) -> None:
    """Return once the loop ends or is asked to stop; raise `StuckError` if it makes no progress."""
    latest = -math.inf
    while thread.is_alive() and not loop.stopping:
        thread.join(0.1)
        if fault := loop.progress.fault():
            raise StuckError(f"{loop.worker}: {fault}")
        ahead = time.time() - time.monotonic()
        latest = max(latest, ahead)
        if latest - ahead > CLOCK_BACK_S:
            raise StuckError(f"{loop.worker}: the clock went back by {latest - ahead:.0f} s")
