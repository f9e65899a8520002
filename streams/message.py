"""A message as workers see it."""

from typing import NamedTuple

from confluent_kafka import Message as RawMessage


class Message(NamedTuple):
    """A message as it stands in a topic.

    Attributes
    ----------
    topic
        Name on the broker.
    topic_id
        Id of this incarnation of the topic; the configured epoch where the broker has none.
    timestamp_ms
        Milliseconds since 1970.
    position
        Where its reader stood: between this and the offset the partition has nothing.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    position: int = 0

    @classmethod
    def of(cls, raw: RawMessage, topic_id: str, position: int) -> "Message":
        """Read what the client holds."""
        topic, partition, offset = raw.topic(), raw.partition(), raw.offset()
        assert topic is not None and partition is not None and offset is not None
        return cls(topic, topic_id, partition, offset, raw.key(), raw.value(), raw.timestamp()[1], position)
