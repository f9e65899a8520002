"""What a worker has to know of its topics beyond their messages: where they end, and whether they are the same."""

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
    """Asks brokers now and then, apart from fetching: a consumer that stands still would not tell.

    Parameters
    ----------
    settings
        Where the broker is.
    worker
        Label of the metrics.
    topics
        Names on the broker.
    progress
        Told where the partitions end.
    clock
        Seconds on a monotonic clock.

    Attributes
    ----------
    ids
        Id of each topic as it was at first.

    Raises
    ------
    TopicError
        If a topic does not exist.
    """

    def __init__(
        self, settings: Settings, worker: str, topics: Sequence[str], progress: Progress, clock: Clock = time.monotonic
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._progress = progress
        self._clock = clock
        self._admin = AdminClient(admin_config(settings))
        self.ids = topic_ids(settings, topics, self._admin)
        self._next_refresh_at = clock() + REFRESH_EVERY_S

    def is_due(self) -> bool:
        """Whether a refresh is due; true once per interval."""
        if self._clock() < self._next_refresh_at:
            return False
        self._next_refresh_at = self._clock() + REFRESH_EVERY_S
        return True

    def refresh(self, consumer: Consumer, assigned: Collection[Partition]) -> None:
        """Ask about the partitions that a consumer has; what brokers do not answer now, they will the next time.

        Raises
        ------
        TopicError
            If a topic was created again.
        """
        question = [TopicPartition(*partition, OFFSET_END) for partition in assigned]
        try:
            answers = consumer.offsets_for_times(question, timeout=REFRESH_TIMEOUT_S)
            ids = topic_ids(self._settings, self.ids, self._admin)
        except (KafkaException, TopicError) as error:
            log.warning("ends of partitions unknown", worker=self._worker, error=str(error))
            return
        again = sorted(topic for topic, topic_id in ids.items() if topic_id != self.ids[topic])
        if again:  # the client would go on at its old offset and miss all before
            begin = [TopicPartition(*partition, 0) for partition in assigned if partition[0] in again]
            consumer.commit(offsets=begin, asynchronous=False)
            raise TopicError(f"{', '.join(again)} was deleted and created again; start the worker anew")
        metrics.BROKER_ANSWERED.labels(self._worker).set_to_current_time()
        self._progress.ends({(answer.topic, answer.partition): answer.offset for answer in answers})
        for (topic, partition), lag in self._progress.lag().items():
            metrics.LAG.labels(self._worker, topic, str(partition)).set(lag)
