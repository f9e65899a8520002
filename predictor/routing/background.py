"""A thread for calls that somebody waits for only so long."""

import threading
from collections.abc import Callable
from concurrent.futures import Future  # alone: the pools beside it are waited for when the interpreter ends
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import finalize

from leap.schemas.errors import LeapError

T = TypeVar("T")
Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]

#: Threads that are left behind, each with a call that hangs; with one more that does, calls are refused.
MAX_LEFT_BEHIND = 2


class Hanging(LeapError, RuntimeError):
    """As many calls hang as there may be threads; the next that returns lets others run."""


class BackgroundThread:
    """Runs calls one after the other in a thread that begins with the first, and ends with this object.

    A call that was given up while it ran is left behind with its thread, and those after it run in another. Threads are
    daemons: a call that never returns does not keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: Calls = SimpleQueue()
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._left_behind: list[_Worker] = []
        finalize(self, self._calls.put, None).atexit = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call.

        Raises
        ------
        Hanging
            If too many calls hang.
        RuntimeError
            If no thread can be started.
        """
        with self._lock:
            if not self._has_thread():
                raise Hanging(f"{MAX_LEFT_BEHIND + 1} calls hang")
        answer: Future[T] = Future()
        self._calls.put((answer, call))
        return answer

    def give_up(self, answer: Future[T]) -> bool:
        """Wait no longer for a call, which then never runs; whether it runs already, and others do not wait for it."""
        if answer.cancel():
            return False
        with self._lock:
            if self._worker and self._worker.running is answer:
                self._worker.is_late = True
                self._has_thread()
        return True

    def _has_thread(self) -> bool:
        """Start a thread if there is none, or the one there is hangs; False where that may not be."""
        if self._worker and not (self._worker.is_late and self._worker.running):
            return True
        self._left_behind = [worker for worker in self._left_behind if worker.running]
        if self._worker:
            if len(self._left_behind) >= MAX_LEFT_BEHIND:
                return False
            self._worker.is_left_behind = True
            self._left_behind.append(self._worker)
            self._worker = None
        worker = _Worker(self._calls, self._lock)
        threading.Thread(target=worker.run, name=self._name, daemon=True).start()
        self._worker = worker
        return True


class _Worker:
    """What one thread does.

    Attributes
    ----------
    running
        The answer that it works on.
    is_late, is_left_behind
        Whether that was given up, and whether another thread has taken over, so that this one ends with it.
    """

    def __init__(self, calls: Calls, lock: threading.Lock) -> None:
        self._calls, self._lock = calls, lock
        self.running: Future[Any] | None = None
        self.is_late = self.is_left_behind = False

    def run(self) -> None:
        """Run calls until there is None, or this thread was left behind."""
        while not self.is_left_behind and (queued := self._calls.get()) is not None:
            answer, call = queued
            if answer.set_running_or_notify_cancel():
                self.running = answer
                try:
                    answer.set_result(call())
                except BaseException as error:
                    answer.set_exception(error)
                with self._lock:
                    self.running, self.is_late = None, False
            del queued, answer, call  # or the last one would live until the next comes
