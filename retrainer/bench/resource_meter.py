"""What a process uses, and when it ends."""

import os
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread


def end_with_parent() -> None:
    """A process whose parent was killed would fit on, and beside the run that goes on in its place."""
    parent = parent_process()

    def wait() -> None:
        if parent:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


@dataclass
class ResourceMeter:
    """Adds up CPU and wall-clock seconds of the blocks that it is around, and keeps their peak of memory."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mib: float = 0.0

    def __enter__(self) -> "ResourceMeter":
        self._wall, self._cpu = time.monotonic(), _cpu_s()
        if sys.platform == "linux":
            with suppress(OSError):  # where a container forbids it, the peak is that of the whole process
                Path("/proc/self/clear_refs").write_text("5")
        return self

    def __exit__(self, *raised: object) -> None:
        self.cpu_s += _cpu_s() - self._cpu
        self.wall_s += time.monotonic() - self._wall
        self.peak_mib = max(self.peak_mib, _peak_mib())


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _peak_mib() -> float:
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes
