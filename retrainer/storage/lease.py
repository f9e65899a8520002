"""At most one run at a time on the same partitions: a lock beside local ones, and in a remote store a lease.

No process holds a lease: who has it gives signs of life.
"""

import fcntl
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from leap.retrainer.storage.files import Files, open_files
from leap.schemas.errors import LeapError

log = structlog.get_logger(__name__)

#: A sign of life is given so often, and a holder that gave none for so long has died. Clocks of the machines may
#: differ by the rest.
BEAT_S = 30.0
DEAD_S = 180.0


class Busy(LeapError, RuntimeError):
    """Another night is running on the same partitions."""


@contextmanager
def night_lock(root: str | Path) -> Iterator[Callable[[], None]]:
    """Hold the lock of the partitions under `root`; yields what raises `Busy` once it is held no longer.

    Raises
    ------
    Busy
        If another process holds it.
    """
    if isinstance(root, str) and "://" in root:
        with leased(root) as assert_held:
            yield assert_held
        return
    path = Path(root) / ".night.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another night is running on {root}; this one does nothing") from None
        yield lambda: None


@contextmanager
def leased(root: str, now: Callable[[], float] = time.time) -> Iterator[Callable[[], None]]:
    """Hold the lock of a place in a remote store; yields what raises `Busy` where another has taken over.

    Each holder has a file of its own number, ``locks/<number>``, with its last sign of life. The next number after
    one that has died is taken by creating it, which of many succeeds for one; those before are removed. So a holder
    that stood still for too long finds another number than its own, or none.

    Raises
    ------
    Busy
        If another process holds it, or has died too lately to know.
    """
    files = open_files(root)
    number = 0
    for name in files.names("locks/*"):
        number = int(name.rsplit("/", 1)[1])
        age = now() - _last_sign(files, name)
        if age < DEAD_S:
            raise Busy(
                f"another night is running on {root}, its last sign of life is {max(age, 0.0):.0f} s old; this one "
                f"does nothing. If it was killed, try again in {DEAD_S:.0f} s"
            )
    mine = f"locks/{number + 1:012d}"
    if not files.create(mine, _sign(now)):
        raise Busy(f"another night has begun on {root} in the same moment; this one does nothing")
    for name in files.names("locks/*"):
        if name < mine:
            files.remove(name)
    over = threading.Event()
    beat = threading.Thread(target=_beat, args=(files, mine, over, now), daemon=True)
    beat.start()

    def assert_held() -> None:
        if files.names("locks/*")[-1:] != [mine]:
            raise Busy(f"this night stood still for over {DEAD_S:.0f} s, and another on {root} took over; it ends here")

    try:
        yield assert_held
    finally:
        over.set()
        beat.join()
        files.remove(mine)


def _beat(files: Files, name: str, over: threading.Event, now: Callable[[], float]) -> None:
    while not over.wait(BEAT_S):
        try:
            if files.names("locks/*")[-1:] != [name]:  # another took over while this process stood still
                return
            files.write(name, _sign(now))
        except Exception:  # the clients of object stores raise what they like
            log.exception("no sign of life could be given; another night may begin", lock=name)


def _sign(now: Callable[[], float]) -> bytes:
    return f"{now():.0f} {socket.gethostname()}".encode()


def _last_sign(files: Files, name: str) -> float:
    try:
        return float(files.read(name).split()[0])
    except (FileNotFoundError, IndexError, ValueError):  # released meanwhile, or not written by a night
        return 0.0
