"""End offsets and topic ids of a worker's topics."""

import time
from collections.abc import Collection, Sequence

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from leap.streams.kafka.clients import admin_config
from leap.streams.kafka.topic_admin import TopicError, topic_ids
from leap.streams.runtime import metrics
from leap.streams.runtime.liveness import Clock, Partition, Progress
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

REFRESH_EVERY_S = 5.0
REFRESH_TIMEOUT_S = 1.0


class PartitionWatcher:
    """Polls end offsets and topic ids through separate requests, because a stalled consumer reports neither.

    Parameters
    ----------
    settings
        Where the broker is.
    worker
        Label of the metrics.
    topics
        Names on the broker.
    progress
        Receives the end offsets.
    clock
        Seconds on a monotonic clock.

    Attributes
    ----------
    ids
        Topic name to its id at startup.

    Raises
    ------
    TopicError
        If a topic does not exist.
    BrokerError
        If there is no broker.
    """

    def __init__(
        self, settings: Settings, worker: str, topics: Sequence[str], progress: Progress, clock: Clock = time.monotonic
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._progress = progress
        self._clock = clock
        self.ids = topic_ids(settings, topics)
        self._admin = AdminClient(admin_config(settings))
        self._next_refresh_at = clock() + REFRESH_EVERY_S

    def is_due(self) -> bool:
        """Whether a refresh is due; true once per interval."""
        if self._clock() < self._next_refresh_at:
            return False
        self._next_refresh_at = self._clock() + REFRESH_EVERY_S
        return True

    def refresh(self, consumer: Consumer, assigned: Collection[Partition]) -> None:
        """Update end offsets and lag, and compare topic ids; a failed request is repeated at the next refresh.

        Raises
        ------
        TopicError
            If a topic was recreated.
        """
        self._admin.poll(0)  # emits what the client has logged
        ends = [TopicPartition(*partition, OFFSET_END) for partition in assigned]
        try:
            answers = consumer.offsets_for_times(ends, timeout=REFRESH_TIMEOUT_S)
            ids = topic_ids(self._settings, self.ids, self._admin)
        except (KafkaException, TopicError) as error:
            log.warning("end offsets unknown", worker=self._worker, error=str(error))
            return
        recreated = sorted(topic for topic, topic_id in ids.items() if topic_id != self.ids[topic])
        if recreated:  # the client would continue at its old offset and skip all earlier messages
            begin = [TopicPartition(*partition, 0) for partition in assigned if partition[0] in recreated]
            consumer.commit(offsets=begin, asynchronous=False)
            raise TopicError(f"{', '.join(recreated)} was deleted and recreated; restart the worker")
        metrics.BROKER_ANSWERED.labels(self._worker).set_to_current_time()
        self._progress.ends({(answer.topic, answer.partition): answer.offset for answer in answers})
        for (topic, partition), lag in self._progress.lag().items():
            metrics.LAG.labels(self._worker, topic, str(partition)).set(lag)
