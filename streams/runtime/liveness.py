"""Liveness of a consumer: progress against the ends of its partitions.

A consumer may stop fetching after a rebalance and look alive for ever, so being in the group proves nothing.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Clock = Callable[[], float]
Partition = tuple[str, int]

STALL_S = 300.0


@dataclass
class _Partition:
    position: int = -1
    end: int = -1
    moved_at: float = 0.0

    @property
    def behind(self) -> bool:
        return self.position < self.end


class Progress:
    """What a worker has done and what there is to do; safe to read from another thread.

    Parameters
    ----------
    clock
        Seconds on a monotonic clock.
    stall_s
        How long a partition may stand still before its end, and one batch be in hand.

    Examples
    --------
    >>> now = 0.0
    >>> progress = Progress(lambda: now, stall_s=60)
    >>> progress.assigned([("job-completed", 0)])
    >>> progress.ends({("job-completed", 0): 10})
    >>> now = 61.0
    >>> progress.stalled()
    [('job-completed', 0)]
    >>> progress.reached({("job-completed", 0): 10})
    >>> progress.stalled()
    []
    """

    def __init__(self, clock: Clock = time.monotonic, stall_s: float = STALL_S) -> None:
        self._clock = clock
        self._stall_s = stall_s
        self._lock = threading.Lock()
        self._partitions: dict[Partition, _Partition] = {}
        self._failing = False
        self._joined = False
        self._left_at = clock()
        self._taken_at = math.inf

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Take note of all partitions that the worker has from now on."""
        now = self._clock()
        with self._lock:
            self._joined = True
            self._partitions = {
                partition: self._partitions.get(partition, _Partition(moved_at=now)) for partition in partitions
            }

    def revoked(self) -> None:
        """Take note that the worker has no partition until it is told of some, or that it is to have none."""
        now = self._clock()
        with self._lock:
            self._joined, self._left_at = False, now

    def taken(self, anything: bool) -> None:
        """Take note of a batch that is in hand from now on, or of none."""
        with self._lock:
            self._taken_at = self._clock() if anything else math.inf

    def reached(self, positions: dict[Partition, int]) -> None:
        """Take note of the next offset of each partition: all before it is done and committed."""
        now = self._clock()
        with self._lock:
            self._failing = False
            for partition, position in positions.items():
                state = self._partitions.get(partition)
                if state is not None and position != state.position:
                    state.position, state.moved_at = position, now

    def ends(self, ends: dict[Partition, int]) -> None:
        """Take note of where partitions end."""
        now = self._clock()
        with self._lock:
            for partition, end in ends.items():
                state = self._partitions.get(partition)
                if state is not None:
                    if not state.behind:
                        state.moved_at = now  # it had nothing to do until now
                    state.end = end

    def failing(self) -> None:
        """Take note that a batch failed and is tried again."""
        with self._lock:
            self._failing = True

    def lag(self) -> dict[Partition, int]:
        """Count the messages that are left in each partition, where its position is known."""
        with self._lock:
            return {
                partition: max(0, state.end - state.position)
                for partition, state in self._partitions.items()
                if state.position >= 0
            }

    def stalled(self) -> list[Partition]:
        """List the partitions that stand still before their end: all of them if one batch hangs or fails on and on."""
        now = self._clock()
        with self._lock:
            if now - self._taken_at > self._stall_s:
                return list(self._partitions)
            return [
                partition
                for partition, state in self._partitions.items()
                if state.behind and now - state.moved_at > self._stall_s
            ]

    def fault(self) -> str | None:
        """Tell why the worker should be started anew, if it should.

        A group waits as long for a member that is slow as a partition may stand still, so being without any has twice
        the time.
        """
        if stalled := self.stalled():
            return f"no progress before the end of {stalled}"
        with self._lock:
            absent = not self._joined and self._clock() - self._left_at > 2 * self._stall_s
        return "not in the consumer group" if absent else None

    def ready(self) -> bool:
        """Tell whether the worker has joined its group and its last batch did not fail."""
        with self._lock:
            return self._joined and not self._failing
