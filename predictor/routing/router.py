"""The launch path in process: rank a job, never raise, never wait longer than the deadline.

``Router(store).rank(job)`` is what a launcher calls. It keeps the last artifact that loaded; whatever fails, or is
wrong with the job, is an empty list with its reason, and a count. Importing it starts no thread, nor does a router
before the first `rank` with a deadline, for which somebody must wait while another ranks.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Any

from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.store import ArtifactStore
from leap.predictor.routing import trial
from leap.predictor.routing.background import BackgroundThread, Hanging
from leap.predictor.routing.ranking import (
    DEADLINE_EXCEEDED,
    FAILED,
    HANGING,
    INVALID,
    NO_ARTIFACT,
    Policy,
    no_opinion,
    rank,
)
from leap.predictor.routing.refusal import refusal
from leap.predictor.routing.trial import TrialError
from leap.predictor.storage.forks import watch_forks
from leap.predictor.storage.urls import redact_url
from leap.schemas.codec import Rejected
from leap.schemas.events import THROUGHPUT, JobSubmitted, PreferenceList
from leap.schemas.validation import validated

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 0.05

Fields = Mapping[str, Any]


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
        Called once a batch; returns what is in force. By default nothing is switched, and a premium type stays if
        its score reaches the best standard one's.
    deadline
        Seconds that `rank` may take; past it the list is empty. None waits as long as it takes, without a thread.
    version
        Serve this artifact whatever the pointer says (replay).

    Attributes
    ----------
    counts
        Lists by outcome: ``ranked`` or the reason for no opinion; ``late`` counts answers past the deadline.
    followed_at
        When the artifact that answers was last seen to be the one in production; none until then.
    refused
        Version of the artifact in production that its trial has refused; none if it serves.
    """

    def __init__(
        self,
        store: ArtifactStore,
        target: str = THROUGHPUT,
        policy: Callable[[], Policy] | None = None,
        deadline: float | None = DEADLINE_SECONDS,
        version: str | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.followed_at: datetime | None = None
        self.refused: str | None = None
        self._store = store
        self._target = target
        self._policy = policy or Policy
        self._deadline = deadline
        self._version = version
        self._clock = clock
        self._artifact: Artifact | None = None
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """Begin with a free lock and no thread; a forked child that follows the pointer calls `follow` again."""
        self._lock = threading.Lock()
        self._thread = BackgroundThread("leap-rank")

    @property
    def artifact(self) -> Artifact | None:
        """The artifact that answers now."""
        return self._artifact

    def refresh(self) -> bool:
        """Follow the pointer; whether the artifact changed. One that fails to load, or its trial, changes nothing."""
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
                folder = self._store.folder(self._target, wanted)
                try:
                    self._artifact = trial.load(folder)
                except TrialError:
                    self.refused = wanted
                    raise
                log.info("artifact in use: %s", wanted)
                changed = True
            self.followed_at, self.refused = self._clock(), None
            return changed

    def rank(self, job: JobSubmitted | Fields) -> PreferenceList:
        """The preference list of one job, within the deadline. Never raises.

        Parameters
        ----------
        job
            The submission, or its fields. One that is not valid is refused, before it could hold up another.
        """
        until = time.monotonic() + (self._deadline or 0.0)
        checked = self._checked(job)
        if isinstance(checked, PreferenceList):
            return checked
        if self._deadline is None:
            return self._rank([checked])[0]
        try:
            answer = self._thread.submit(partial(self._rank, [checked]))
        except Hanging:
            self.counts[HANGING] += 1
            return no_opinion(checked, HANGING, self._clock())
        except Exception as error:  # no thread to be had, or the interpreter is going down
            return self._failed(job, error)
        try:
            return answer.result(timeout=max(0.0, until - time.monotonic()))[0]
        except TimeoutError:
            if self._thread.give_up(answer):
                answer.add_done_callback(self._late)
            self.counts[DEADLINE_EXCEEDED] += 1
            return no_opinion(checked, DEADLINE_EXCEEDED, self._clock())
        except Exception as error:
            return self._failed(job, error)

    def rank_many(self, jobs: Sequence[JobSubmitted | Fields]) -> list[PreferenceList]:
        """Preference lists of a batch, in its order, without a deadline or a thread. Never raises."""
        checked = [self._checked(job) for job in jobs]
        lists = iter(self._rank([job for job in checked if isinstance(job, JobSubmitted)]))
        return [job if isinstance(job, PreferenceList) else next(lists) for job in checked]

    def rank_decoded(self, jobs: Sequence[JobSubmitted]) -> list[PreferenceList]:
        """As `rank_many`, of jobs that :func:`leap.schemas.codec.decode` has just made, and not checked again."""
        return self._rank(jobs)

    def _checked(self, job: JobSubmitted | Fields) -> JobSubmitted | PreferenceList:
        try:
            return validated(job, JobSubmitted)
        except Rejected as rejected:
            self.counts[INVALID] += 1
            return refusal(job, f"{INVALID}: {rejected}; see `leap schemas show job-submitted`", self._clock())
        except Exception as error:
            return self._failed(job, error)

    def _rank(self, jobs: Sequence[JobSubmitted]) -> list[PreferenceList]:
        artifact, now = self._artifact, self._clock()
        if artifact is None:
            lists = [no_opinion(job, NO_ARTIFACT, now) for job in jobs]
        else:
            try:
                lists = rank(artifact, jobs, self._policy(), now)
            except Exception as error:
                if len(jobs) == 1:
                    return [self._failed(jobs[0], error)]
                return [answer for job in jobs for answer in self._rank([job])]
        self.counts.update(answer.no_opinion or "ranked" for answer in lists)
        return lists

    def _failed(self, job: object, error: Exception) -> PreferenceList:
        self.counts[FAILED] += 1
        answer = refusal(job, f"{FAILED}: {type(error).__name__}", self._clock())
        log.exception("attempt %s not ranked", answer.attempt_id, exc_info=error)
        return answer

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
