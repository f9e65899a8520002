"""Worker processes under a supervisor that starts each anew when it has ended."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leap.streams.embedded import WATCH
from leap.streams.runtime.settings import Settings

KINDS = ("history", "joiner", "ranking")
AGAIN_AFTER_S = 0.2
# They promise 10 s; the rest is for a busy machine.
STOP_S = 15.0
CLOCK = Path(__file__).with_name("clock.c")


class Workers:
    """Any number of workers of each kind.

    Attributes
    ----------
    ended
        How many ended with which status without being told to; -9 is killed.
    mortality
        Share of batches between whose write and commit a worker kills itself; changed, it holds for those that start.

    Parameters
    ----------
    clocks_move
        Their wall clocks can be set.
    """

    def __init__(self, settings: Settings, folder: Path, mortality: float, clocks_move: bool) -> None:
        self.ended: Counter[int] = Counter()
        self.mortality = mortality
        self._settings = settings
        self._folder = folder
        self._clocks_move = clocks_move
        self._running: list[_Supervised] = []

    def add(self, kind: str) -> None:
        """Start one more."""
        self._running.append(_Supervised(self, kind))

    def remove(self, kind: str) -> None:
        """Have one end as a supervisor would, by SIGTERM."""
        worker = next(worker for worker in self._running if worker.kind == kind)
        self._running.remove(worker)
        worker.stop()

    def kill(self, rng: random.Random) -> None:
        """Kill any one with -9."""
        rng.choice(self._running).kill()

    def set_clock(self, kind: str, ahead_s: int) -> None:
        """Move the wall clock of all of a kind."""
        with self._clock(kind).open("r+b") as file:  # they have it in memory
            file.write(ahead_s.to_bytes(8, sys.byteorder, signed=True))

    def logged(self, event: str) -> int:
        """How often all have logged something."""
        return sum(log.read_text().count(event) for log in self._folder.glob("*.log"))

    @contextmanager
    def running(self, counts: dict[str, int]) -> Iterator[None]:
        """Start so many of each kind; stop all at the end of the block."""
        if self._clocks_move:
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", self._folder / "clock.so", CLOCK], check=True)
        for kind, count in counts.items():
            self._clock(kind).write_bytes(bytes(8))
            for _ in range(count):
                self.add(kind)
        try:
            yield
        finally:
            stopping = [threading.Thread(target=worker.stop) for worker in self._running]
            for thread in stopping:
                thread.start()
            for thread in stopping:
                thread.join()
            self._running = []

    def start(self, kind: str) -> subprocess.Popen[bytes]:
        """Start a process, which ends when this one does."""
        command = [sys.executable, "-m", "tests.faults.worker", kind, str(self.mortality), str(self._folder)]
        with (self._folder / f"{kind}.log").open("ab") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", WATCH, "sh", *command],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | self._settings.to_environment() | self._movable(kind),
            )  # fmt: skip

    def _clock(self, kind: str) -> Path:
        return self._folder / f"{kind}.clock"

    def _movable(self, kind: str) -> dict[str, str]:
        if not self._clocks_move:
            return {}
        return {"LD_PRELOAD": str(self._folder / "clock.so"), "TEST_CLOCK": str(self._clock(kind))}


class _Supervised:
    """One worker, started again until it is stopped."""

    def __init__(self, workers: Workers, kind: str) -> None:
        self.kind = kind
        self._workers = workers
        self._stopping = False
        self._lock = threading.Lock()
        self._process = workers.start(kind)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            assert self._process.stdin is not None
            self._process.stdin.close()  # the shell sends SIGTERM
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            self.kill()
            raise RuntimeError(f"a {self.kind} worker did not end within {STOP_S} s of SIGTERM")

    def _watch(self) -> None:
        while True:
            status = self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            with self._lock:
                if self._stopping:
                    return
                self._workers.ended[-9 if status == 128 + signal.SIGKILL else status] += 1
                time.sleep(AGAIN_AFTER_S)
                self._process = self._workers.start(self.kind)
