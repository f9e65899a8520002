"""The ranking worker: turns submissions into preference lists. It depends on no service but Kafka at run time."""

import threading
from collections.abc import Sequence
from datetime import datetime

import structlog

from leap.predictor.artifacts.open import open_store
from leap.predictor.routing.ranking import NO_OPINIONS, Policy
from leap.predictor.routing.router import Router
from leap.schemas.codec import Rejected, decode, encode
from leap.schemas.events import THROUGHPUT, JobSubmitted
from leap.schemas.topics import PREFERENCES, SUBMITTED
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.ranking.rollout_store import SwitchFollower, SwitchStore
from leap.streams.redis_store.client import connect
from leap.streams.runtime import metrics
from leap.streams.runtime.settings import Settings
from leap.streams.runtime.tracing import Step, trace_id

log = structlog.get_logger(__name__)

WORKER = "ranking"
#: Jobs ranked together. A larger batch hardly increases throughput, and a list waits for its whole batch.
BATCH_SIZE = 64
REFRESH_EVERY_S = 2.0


class Ranking:
    """Ranks batches of submissions. Invalid messages become dead letters.

    A redelivered batch is ranked again: a scheduler may see two lists of an attempt, which differ only in their time,
    and in the artifact if that changed meanwhile.
    """

    def __init__(self, router: Router, producer: CheckedProducer, dead_letters: DeadLetters, topic: str) -> None:
        self._router = router
        self._producer = producer
        self._dead_letters = dead_letters
        self._topic = topic

    def handle(self, batch: Sequence[Message]) -> None:
        """Send a preference list for every submission of a batch."""
        submissions, steps = [], []
        for message in batch:
            if not message.concerns(WORKER):
                continue
            try:
                submissions.append(decode(message.value, JobSubmitted))
                steps.append(Step("rank", message.trace))
            except Rejected as rejected:
                self._dead_letters.add(message, str(rejected))
        for answer, step in zip(self._router.rank_decoded(submissions), steps, strict=True):
            outcome = answer.no_opinion or "ranked"
            metrics.LISTS.labels(outcome.partition(":")[0]).inc()
            self._producer.produce(self._topic, encode(answer), answer.attempt_id.encode(), trace=step.headers)
            step.end(attempt=answer.attempt_id, family=answer.family or "", outcome=outcome)
            log.debug(
                "list", attempt=answer.attempt_id, family=answer.family, outcome=outcome, trace=trace_id(step.headers)
            )


def open_ranking(settings: Settings, stop: threading.Event) -> tuple[Ranking, CheckedProducer]:
    """The ranking and its producer; artifact and switches are followed in the background until `stop`."""
    switches = SwitchFollower(lambda: SwitchStore(connect(settings.redis_url), settings.redis_prefix))
    router = Router(
        open_store(settings.artifacts, trusted_keys=settings.trusted_keys),
        policy=lambda: Policy(switches.current, settings.premium_efficiency),
    )
    if not router.refresh():
        log.warning("no artifact in production: every list is empty until a training run publishes one")
    for outcome in ("ranked", *NO_OPINIONS):
        metrics.LISTS.labels(outcome)
    metrics.ARTIFACT_MADE.labels(THROUGHPUT).set_function(lambda: _seconds(_made(router)))
    metrics.ARTIFACT_FOLLOWED.labels(THROUGHPUT).set_function(lambda: _seconds(router.followed_at))
    metrics.ARTIFACT_REFUSED.labels(THROUGHPUT).set_function(lambda: float(router.refused is not None))
    switches.follow(stop)
    router.follow(REFRESH_EVERY_S, stop)
    producer = CheckedProducer(settings)
    dead_letters = DeadLetters(settings, producer, WORKER)
    return Ranking(router, producer, dead_letters, settings.topic(PREFERENCES)), producer


def _made(router: Router) -> datetime | None:
    return router.artifact.manifest.created_at if router.artifact else None


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def ranking_loop(settings: Settings, stop: threading.Event) -> BatchLoop:
    """The worker's loop, ready to run."""
    ranking, producer = open_ranking(settings, stop)
    return BatchLoop(
        settings,
        WORKER,
        [settings.topic(SUBMITTED)],
        ranking.handle,
        outputs=producer,
        batch_size=BATCH_SIZE,
    )
