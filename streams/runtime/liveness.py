"""Liveness of a consumer: position against the end offset of each partition.

Group membership proves nothing: a consumer can stop fetching after a rebalance and still send heartbeats.
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
    """A worker's positions and the end offsets of its partitions; thread-safe.

    Parameters
    ----------
    clock
        Seconds on a monotonic clock.
    stall_s
        Seconds that a partition with lag may go without progress, and that one batch may take.

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
        """Record the new assignment: all partitions that the worker now owns."""
        now = self._clock()
        with self._lock:
            self._joined = True
            self._partitions = {
                partition: self._partitions.get(partition, _Partition(moved_at=now)) for partition in partitions
            }

    def revoked(self) -> None:
        """Record that the worker has left its assignment, until the next `assigned` (which may be empty)."""
        now = self._clock()
        with self._lock:
            self._joined, self._left_at = False, now

    def taken(self, in_flight: bool) -> None:
        """Record whether a batch is in flight from now on."""
        with self._lock:
            self._taken_at = self._clock() if in_flight else math.inf

    def reached(self, positions: dict[Partition, int]) -> None:
        """Record the position of each partition: all earlier offsets are processed and committed."""
        now = self._clock()
        with self._lock:
            self._failing = False
            for partition, position in positions.items():
                state = self._partitions.get(partition)
                if state is not None and position != state.position:
                    state.position, state.moved_at = position, now

    def ends(self, ends: dict[Partition, int]) -> None:
        """Record the end offsets of partitions."""
        now = self._clock()
        with self._lock:
            for partition, end in ends.items():
                state = self._partitions.get(partition)
                if state is not None:
                    if not state.behind:
                        state.moved_at = now  # it was caught up until now
                    state.end = end

    def failing(self) -> None:
        """Record that a batch failed and is being retried."""
        with self._lock:
            self._failing = True

    def lag(self) -> dict[Partition, int]:
        """Lag in messages of each partition whose position is known."""
        with self._lock:
            return {
                partition: max(0, state.end - state.position)
                for partition, state in self._partitions.items()
                if state.position >= 0
            }

    def stalled(self) -> list[Partition]:
        """Partitions with lag but no progress; all of them if one batch hangs or keeps failing."""
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
        """Why the worker should be restarted, or None.

        A rebalance may last as long as the stall limit (a slow member), so absence from the group is only a fault
        after twice that.
        """
        if stalled := self.stalled():
            return f"no progress on {stalled} despite lag"
        with self._lock:
            absent = not self._joined and self._clock() - self._left_at > 2 * self._stall_s
        return "not in the consumer group" if absent else None

    def ready(self) -> bool:
        """Whether the worker has joined its group and its last batch did not fail."""
        with self._lock:
            return self._joined and not self._failing
