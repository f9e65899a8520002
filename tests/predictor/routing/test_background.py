"""The thread behind a deadline, and what a forked child has of a router."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.store import Pointer
from leap.predictor.routing import ranking
from leap.predictor.routing import router as router_module
from leap.predictor.routing.background import MAX_LEFT_BEHIND, BackgroundThread
from leap.predictor.routing.ranking import Policy
from leap.predictor.routing.router import Router
from leap.schemas.events import JobSubmitted, PreferenceList
from tests.builders import submission
from tests.forks import in_child

HANGS = """
import sys, threading
from pathlib import Path
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing import router as module
from tests.builders import submission

assert threading.active_count() == 1, "importing starts nothing"
router = module.Router(LocalStore(Path(sys.argv[1])), deadline=0.05)
assert router.refresh()
assert threading.active_count() == 1, "nor does a router that nobody has asked"
module.rank = lambda *_: threading.Event().wait()
print(router.rank(submission()).no_opinion)
"""


def test_a_ranking_that_never_ends_does_not_keep_the_process(artifact_store: LocalStore) -> None:
    command = [sys.executable, "-c", HANGS, str(artifact_store.root)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "deadline exceeded\n", "")


def test_without_a_deadline_there_is_no_thread(artifact_store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    router = Router(artifact_store, deadline=None)
    router.refresh()
    monkeypatch.setattr(threading, "Thread", None)
    assert router.rank(submission()).no_opinion is None


def test_a_thread_runs_calls_in_turn_and_ends_with_its_owner() -> None:
    owner = BackgroundThread("test-owner")
    answers = [owner.submit(lambda number=number: (number, threading.current_thread())) for number in range(3)]  # type: ignore[misc]
    found = [answer.result(60) for answer in answers]
    assert [number for number, _ in found] == [0, 1, 2]
    [thread] = {thread for _, thread in found}
    assert (thread.name, thread.daemon) == ("test-owner", True)
    with pytest.raises(ZeroDivisionError):
        owner.submit(lambda: 1 // 0).result(60)
    del owner
    thread.join(60)
    assert not thread.is_alive()


def test_a_ranking_that_hangs_holds_up_no_other(artifact_store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that hangs leaves a thread behind, up to a few; then the answer is empty at once, until one returns."""
    router, release, real = Router(artifact_store, deadline=2.0), threading.Event(), ranking.rank
    assert router.refresh()

    def hang(artifact: Artifact, jobs: Sequence[JobSubmitted], policy: Policy, now: datetime) -> list[PreferenceList]:
        if jobs[0].attempt_id.startswith("hangs"):
            release.wait(60)
        return real(artifact, jobs, policy, now)

    monkeypatch.setattr(router_module, "rank", hang)
    with monkeypatch.context() as patched:
        patched.setattr(router, "_deadline", 0.05)
        for number in range(MAX_LEFT_BEHIND):
            assert router.rank(submission(f"hangs-{number}")).no_opinion == "deadline exceeded"
    assert router.rank(submission("a")).no_opinion is None
    waiting = ThreadPoolExecutor(2)
    with monkeypatch.context() as patched:
        patched.setattr(router, "_deadline", 0.05)
        assert router.rank(submission("hangs-last")).no_opinion == "deadline exceeded"
        begun = time.monotonic()
        assert router.rank(submission("b")).no_opinion == "earlier rankings hang"
        assert time.monotonic() - begun < 0.05, "at once"
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("leap-rank") == MAX_LEFT_BEHIND + 1
    release.set()
    while router.counts["late"] <= MAX_LEFT_BEHIND:
        time.sleep(0.01)
    assert [answer.no_opinion for answer in waiting.map(router.rank, map(submission, "cd"))] == [None, None]
    waiting.shutdown()
    while [thread.name for thread in threading.enumerate()].count("leap-rank") > 1:
        time.sleep(0.01)


def test_what_is_queued_behind_a_call_that_hangs_runs_when_that_is_given_up() -> None:
    owner, release = BackgroundThread("test-owner"), threading.Event()
    hanging = owner.submit(release.wait)
    behind = owner.submit(lambda: "ran")
    while not hanging.running():
        time.sleep(0.001)
    assert owner.give_up(hanging)
    assert behind.result(60) == "ran"
    release.set()
    assert hanging.result(60)


def test_no_thread_to_be_had_is_a_reason(artifact_store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    router = Router(artifact_store)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert router.rank(submission()).no_opinion == "internal error: RuntimeError"
    monkeypatch.undo()
    assert router.rank(submission()).no_opinion in ("no artifact", "deadline exceeded")


class Slow(LocalStore):
    """A store that answers when it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked, self.release = threading.Event(), threading.Event()

    def pointer(self, target: str) -> Pointer | None:
        """See :class:`ArtifactStore`."""
        self.asked.set()
        self.release.wait(60)
        return super().pointer(target)


@pytest.mark.filterwarnings("ignore:.*multi-?threaded")
def test_a_child_forked_while_the_pointer_is_read_reads_it_itself(artifact_store: LocalStore) -> None:
    store = Slow(artifact_store.root)
    router = Router(store, deadline=60.0)
    refreshing = threading.Thread(target=router.refresh)
    refreshing.start()
    assert store.asked.wait(60)

    def ranked() -> str:
        store.release = threading.Event()  # the parent's may be locked too
        store.release.set()
        return f"{router.refresh()} {router.rank(submission()).no_opinion}"

    assert in_child(ranked) == "True None"
    store.release.set()
    refreshing.join(60)
    assert router.artifact is not None
