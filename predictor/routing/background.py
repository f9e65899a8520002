"""A thread for calls that somebody waits for only so long."""

import threading
from collections.abc import Callable
from concurrent.futures import Future  # alone: the pools beside it are waited for when the interpreter ends
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import finalize

T = TypeVar("T")
Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class BackgroundThread:
    """Runs calls one after the other in a thread that begins with the first, and ends with this object.

    It is a daemon: a call that never returns does not keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: Calls = SimpleQueue()
        self._starting = threading.Lock()
        self._started = False
        finalize(self, self._calls.put, None).atexit = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call.

        Raises
        ------
        RuntimeError
            If no thread can be started.
        """
        with self._starting:
            if not self._started:
                threading.Thread(target=_run, args=(self._calls,), name=self._name, daemon=True).start()
                self._started = True
        answer: Future[T] = Future()
        self._calls.put((answer, call))
        return answer


def _run(calls: Calls) -> None:
    while (queued := calls.get()) is not None:
        answer, call = queued
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)
        del queued, answer, call  # or the last one would live until the next comes
