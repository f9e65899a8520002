"""How far the consumer groups are behind."""

from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.kafka.clients import admin_config, consumer_config
from leap.streams.kafka.topic_admin import topic_ids
from leap.streams.runtime.settings import Settings
from tests.faults.trail import Place

GROUPS = {
    "history": (COMPLETED,),
    "joiner": (SUBMITTED, ALLOCATED, COMPLETED, PREFERENCES),
    "ranking": (SUBMITTED,),
}
TIMEOUT_S = 10.0


class Standing(NamedTuple):
    """Where a group stands in a partition: its next offset, and the partition's end."""

    place: Place
    committed: int
    end: int


class Lag:
    """Counts the messages before the end of each topic that a group has not committed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin = AdminClient(admin_config(settings))
        self._consumers = {group: Consumer(consumer_config(settings, group)) for group in GROUPS}

    def __call__(self) -> int | None:
        """Count; None while brokers do not answer."""
        try:
            return sum(abs(end - done) for group in GROUPS for _, done, end in self._partitions(group))
        except KafkaException:
            return None

    def standings(self) -> list[Standing]:
        """Ask about every partition that a group reads."""
        names = [self._settings.topic(name) for name in {*sum(GROUPS.values(), ())}]
        ids = topic_ids(self._settings, names, self._admin)
        return [
            Standing((group, at.topic, ids[at.topic], at.partition), done, end)
            for group in GROUPS
            for at, done, end in self._partitions(group)
        ]

    def _partitions(self, group: str) -> Iterator[tuple[TopicPartition, int, int]]:
        found = self._admin.list_topics(timeout=TIMEOUT_S).topics
        partitions = [
            (name, number) for name in map(self._settings.topic, GROUPS[group]) for number in found[name].partitions
        ]
        consumer = self._consumers[group]
        done = consumer.committed([TopicPartition(*one) for one in partitions], timeout=TIMEOUT_S)
        ends = consumer.offsets_for_times([TopicPartition(*one, OFFSET_END) for one in partitions], timeout=TIMEOUT_S)
        for one, end in zip(done, ends, strict=True):
            yield one, max(0, one.offset), end.offset
