"""Broker queries shared by the checks; errors become findings."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from leap.streams.doctor.check import ANSWER_S, AS_OPERATOR, CheckContext, CheckFailed
from leap.streams.kafka.clients import consumer_config, offsets_for_times
from leap.streams.runtime.liveness import Partition

#: Errors for a user without the necessary ACLs.
DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


@contextmanager
def open_consumer(context: CheckContext, group: str = "doctor") -> Iterator[Consumer]:
    """A consumer that does not join its group."""
    consumer = Consumer(consumer_config(context.settings, group))
    try:
        with _errors_as_findings():
            yield consumer
    finally:
        consumer.close()


def result(future: "Future[Any]") -> Any:
    """Result of an admin request."""
    with _errors_as_findings():
        return future.result(ANSWER_S)


@contextmanager
def _errors_as_findings() -> Iterator[None]:
    """Turn the broker's errors into findings."""
    try:
        yield
    except KafkaException as error:
        text = error.args[0].str()
        if error.args[0].code() in DENIED:
            raise CheckFailed(f"permission denied: {text}", AS_OPERATOR, can_wait=True) from error
        raise CheckFailed(
            f"no answer: {text}", "if the broker has just started, try again; otherwise check its log"
        ) from error


def partition_counts(context: CheckContext) -> dict[str, int]:
    """Topic to its number of partitions, for all topics of the broker."""
    return {name: len(topic.partitions) for name, topic in context.admin.list_topics(timeout=ANSWER_S).topics.items()}


def partitions_of(context: CheckContext, names: Iterable[str]) -> list[Partition]:
    """Partitions of topics; a missing topic is a finding."""
    counts = partition_counts(context)
    missing = [name for name in names if name not in counts]
    if missing:
        raise CheckFailed(f"missing topics: {', '.join(missing)}", "leap topics ensure creates them")
    return [(name, number) for name in names for number in range(counts[name])]


def offsets(consumer: Consumer, partitions: Iterable[Partition], at_ms: int) -> dict[Partition, int]:
    """First offset of each partition at or after a time, negative if there is none; or its beginning or end offset."""
    times = [TopicPartition(*partition, at_ms) for partition in partitions]
    answers = offsets_for_times(consumer, times, ANSWER_S)
    return {(answer.topic, answer.partition): answer.offset for answer in answers}
