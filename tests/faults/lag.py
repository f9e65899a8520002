"""How far the consumer groups are behind."""

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from schemas.topics import ALLOCATED, COMPLETED, PREFERENCES, SUBMITTED
from streams.kafka import admin_config, consumer_config
from streams.settings import Settings

GROUPS = {
    "history": (COMPLETED,),
    "joiner": (SUBMITTED, ALLOCATED, COMPLETED, PREFERENCES),
    "ranking": (SUBMITTED,),
}
TIMEOUT_S = 10.0


class Lag:
    """Counts the messages before the end of each topic that a group has not committed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin = AdminClient(admin_config(settings))
        self._consumers = {group: Consumer(consumer_config(settings, group)) for group in GROUPS}

    def __call__(self) -> int | None:
        """Count; None while brokers do not answer."""
        try:
            return sum(self._behind(group) for group in GROUPS)
        except KafkaException:
            return None

    def _behind(self, group: str) -> int:
        found = self._admin.list_topics(timeout=TIMEOUT_S).topics
        partitions = [
            (name, number) for name in map(self._settings.topic, GROUPS[group]) for number in found[name].partitions
        ]
        consumer = self._consumers[group]
        done = consumer.committed([TopicPartition(*one) for one in partitions], timeout=TIMEOUT_S)
        ends = consumer.offsets_for_times([TopicPartition(*one, OFFSET_END) for one in partitions], timeout=TIMEOUT_S)
        return sum(abs(end.offset - max(0, one.offset)) for one, end in zip(done, ends, strict=True))
