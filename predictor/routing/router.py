"""The launch path in process: rank a job, never raise, never wait longer than the deadline.

``Router(store).rank(job)`` is what a launcher calls. It keeps the last artifact that loaded; whatever fails
is an empty list with its reason, and a count.
"""

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.store import ArtifactStore
from leap.predictor.routing.ranking import DEADLINE_EXCEEDED, FAILED, NO_ARTIFACT, Policy, no_opinion, rank
from leap.predictor.routing.rollout import premium_efficiency
from leap.predictor.storage.urls import redact_url
from leap.schemas.events import THROUGHPUT, JobSubmitted, PreferenceList

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 0.05


def _now() -> datetime:
    return datetime.now(UTC)


class Router:
    """Ranks submissions with the artifact in production.

    Parameters
    ----------
    store
        Where artifacts and the pointer are.
    target
        Prediction target whose artifact line is served.
    policy
        Called once a batch; returns what is in force. By default nothing is switched, and premium types are kept as
        LEAP_PREMIUM_EFFICIENCY says.
    deadline
        Seconds that `rank` may take; past it the list is empty.
    version
        Serve this artifact whatever the pointer says (replay).

    Attributes
    ----------
    counts
        Lists by outcome: ``ranked`` or the reason for no opinion; ``late`` counts answers past the deadline.
    followed_at
        When the artifact that answers was last seen to be the one in production; none until then.

    Raises
    ------
    ValueError
        If LEAP_PREMIUM_EFFICIENCY is needed and is no share.
    """

    def __init__(
        self,
        store: ArtifactStore,
        target: str = THROUGHPUT,
        policy: Callable[[], Policy] | None = None,
        deadline: float = DEADLINE_SECONDS,
        version: str | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.followed_at: datetime | None = None
        self._store = store
        self._target = target
        self._policy = policy or partial(Policy, premium_efficiency=premium_efficiency(os.environ))
        self._deadline = deadline
        self._version = version
        self._clock = clock
        self._artifact: Artifact | None = None
        self._lock = threading.Lock()
        self._start_thread()

    def _start_thread(self) -> None:
        self._process = os.getpid()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leap-rank")

    @property
    def artifact(self) -> Artifact | None:
        """The artifact that answers now."""
        return self._artifact

    def refresh(self) -> bool:
        """Follow the pointer; whether the artifact changed. An artifact that does not load changes nothing."""
        try:
            return self.load()
        except Exception as error:  # whatever the store does, serving goes on with what it has
            self.counts["refresh failed"] += 1
            log.warning("artifact not refreshed, keeping the last good one: %s", redact_url(str(error)))
            return False

    def load(self) -> bool:
        """As `refresh`, but raises what the store does, for whoever waits for an answer."""
        with self._lock:
            wanted = self._version
            if wanted is None:
                pointer = self._store.pointer(self._target)
                wanted = pointer.version if pointer else None
            changed = False
            if wanted is not None and not (self._artifact and self._artifact.manifest.version == wanted):
                self._artifact = artifacts.load(self._store.folder(self._target, wanted))
                log.info("artifact in use: %s", wanted)
                changed = True
            self.followed_at = self._clock()
            return changed

    def rank(self, job: JobSubmitted) -> PreferenceList:
        """The preference list of one job, within the deadline. Never raises."""
        try:
            if self._process != os.getpid():  # threads do not survive a fork
                self._start_thread()
            answer = self._executor.submit(self.rank_many, [job])
        except Exception as error:  # no thread to be had, or the interpreter is going down
            return self._failed(job, error)
        try:
            return answer.result(timeout=self._deadline)[0]
        except TimeoutError:
            if not answer.cancel():
                answer.add_done_callback(self._late)
            self.counts[DEADLINE_EXCEEDED] += 1
            return no_opinion(job, DEADLINE_EXCEEDED, self._clock())
        except Exception as error:
            return self._failed(job, error)

    def rank_many(self, jobs: Sequence[JobSubmitted]) -> list[PreferenceList]:
        """Preference lists of a batch, in its order, without a deadline. Never raises."""
        artifact, now = self._artifact, self._clock()
        if artifact is None:
            lists = [no_opinion(job, NO_ARTIFACT, now) for job in jobs]
        else:
            try:
                lists = rank(artifact, jobs, self._policy(), now)
            except Exception as error:
                if len(jobs) == 1:
                    return [self._failed(jobs[0], error)]
                return [answer for job in jobs for answer in self.rank_many([job])]
        self.counts.update(answer.no_opinion or "ranked" for answer in lists)
        return lists

    def _failed(self, job: JobSubmitted, error: Exception) -> PreferenceList:
        self.counts[FAILED] += 1
        log.exception("attempt %s not ranked", job.attempt_id, exc_info=error)
        return no_opinion(job, f"{FAILED}: {type(error).__name__}", self._clock())

    def _late(self, answer: "Future[list[PreferenceList]]") -> None:
        self.counts["late"] += 1

    def follow(self, every: float, stop: threading.Event) -> threading.Thread:
        """Refresh in the background every `every` seconds until `stop`; returns the started thread."""

        def run() -> None:
            while not stop.wait(every):
                self.refresh()

        thread = threading.Thread(target=run, name="leap-refresh", daemon=True)
        thread.start()
        return thread
