"""Questions about partitions that are without a leader for a moment."""

from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from leap.streams.kafka.clients import offsets_for_times, when_led


def test_query_is_retried_while_a_partition_has_no_leader() -> None:
    moved, denied = (
        KafkaException(KafkaError(code))
        for code in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    )
    assert when_led(MagicMock(side_effect=[moved, moved, 7]), 10.0) == 7
    for answers, seconds in (([moved, 7], -1.0), ([denied, 7], 10.0)):
        with pytest.raises(KafkaException):
            when_led(MagicMock(side_effect=answers), seconds)


def test_offsets_for_times_is_retried_if_any_partition_has_no_leader() -> None:
    asked, led, moved = [TopicPartition("t", 0)], MagicMock(error=None), MagicMock()
    moved.error = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
    consumer = MagicMock(offsets_for_times=MagicMock(side_effect=[[led, moved], [led, led]]))
    assert offsets_for_times(consumer, asked, 10.0) == [led, led]
