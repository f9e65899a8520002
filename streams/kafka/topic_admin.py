"""Create the declared topics, and check the broker's topics against the declarations."""

import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from leap.schemas.errors import BrokerError
from leap.streams.kafka.clients import admin_config
from leap.streams.kafka.reachable import broker_metadata
from leap.streams.runtime.settings import Settings

TIMEOUT_S = 30.0
LATE_S = 5.0  # margin on top of the client's own timeout
AHEAD_MS = 3_600_000  # a later timestamp would distort retention and lookups by time
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # 16 zero bytes in base64: the broker does not support topic ids


class Declaration(Protocol):
    """The part of :class:`leap.schemas.topics.Topic` that concerns the broker."""

    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    @property
    def retention_ms(self) -> int: ...
    @property
    def cleanup(self) -> str: ...
    @property
    def max_message_bytes(self) -> int: ...


class TopicError(BrokerError):
    """Topics on the broker differ from their declarations; the message lists each difference."""


def ensure_topics(settings: Settings, declarations: Iterable[Declaration]) -> list[str]:
    """Create missing topics, then check all.

    Returns
    -------
    list of str
        Names of the created topics, with prefix.

    Raises
    ------
    TopicError
        If a topic cannot be created, or differs from its declaration.
    """
    wanted = list(declarations)
    present = _partition_counts(settings)
    missing = {name: topic for topic in wanted if (name := settings.topic(topic.name)) not in present}
    if missing:
        _create(settings, missing, {"message.timestamp.after.max.ms": str(AHEAD_MS)})
    if grown := assert_topics(settings, wanted):
        raise _not_as_declared(settings, grown)
    return sorted(missing)


def assert_topics(settings: Settings, declarations: Iterable[Declaration]) -> list[str]:
    """Check that the broker has every declared topic, with at least the declared number of partitions.

    Returns
    -------
    list of str
        One line per topic with more partitions than declared, which workers tolerate.

    Raises
    ------
    TopicError
        If topics are missing or have fewer partitions; the message lists all of them.
    """
    counts = _partition_counts(settings)
    wrong: list[str] = []
    grown: list[str] = []
    for topic in declarations:
        name = settings.topic(topic.name)
        if name not in counts:
            wrong.append(f"{name} does not exist: run leap topics ensure")
        elif counts[name] != topic.partitions:
            differences = wrong if counts[name] < topic.partitions else grown
            differences.append(f"{name} has {counts[name]} partitions, {topic.partitions} declared")
    if wrong:
        raise _not_as_declared(settings, wrong)
    return grown


def _not_as_declared(settings: Settings, wrong: Iterable[str]) -> TopicError:
    return TopicError(f"on {settings.bootstrap_servers}: " + "; ".join(wrong))


def topic_ids(settings: Settings, names: Iterable[str], admin: AdminClient | None = None) -> dict[str, str]:
    """Topic name to its id, which changes when a topic is recreated.

    On brokers without topic ids it is ``settings.topic_epoch``. Pass `admin` to reuse a client.

    Raises
    ------
    TopicError
        If a topic does not exist, or the broker does not answer.
    BrokerError
        If there is no broker, unless `admin` is given.
    """
    if admin is None:
        broker_metadata(settings)  # or the request would wait ten times as long for a broker that is away
        admin = AdminClient(admin_config(settings))
    futures = admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT_S)
    ids = {}
    for name, future in futures.items():
        try:
            topic_id = future.result(TIMEOUT_S + LATE_S).topic_id
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNSUPPORTED_FEATURE:
                raise TopicError(f"{name} cannot be described: {error.args[0].str()}") from error
            topic_id = None
        ids[name] = settings.topic_epoch if topic_id is None or str(topic_id) == NO_ID else str(topic_id)
    return ids


def _create(settings: Settings, topics: Mapping[str, Declaration], limits: Mapping[str, str]) -> None:
    admin = AdminClient(admin_config(settings))
    new = [
        NewTopic(name, topic.partitions, settings.topic_replication, config={**_broker_config(topic), **limits})
        for name, topic in topics.items()
    ]
    refused = {}
    for name, future in admin.create_topics(new, request_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S + LATE_S)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.INVALID_CONFIG and limits:
                refused[name] = topics[name]
            elif code != KafkaError.TOPIC_ALREADY_EXISTS:  # created concurrently by another process
                raise TopicError(f"{name} cannot be created: {error.args[0].str()}") from error
    if refused:
        _create(settings, refused, {})  # unsupported before Kafka 3.6
    deadline = time.monotonic() + TIMEOUT_S
    while topics.keys() - _partition_counts(settings) and time.monotonic() < deadline:
        time.sleep(0.02)  # metadata propagates shortly after the creation is acknowledged


def _partition_counts(settings: Settings) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in broker_metadata(settings).topics.items()}


def _broker_config(topic: Declaration) -> dict[str, str]:
    return {
        "retention.ms": str(topic.retention_ms),
        "cleanup.policy": topic.cleanup,
        "max.message.bytes": str(topic.max_message_bytes),
    }
