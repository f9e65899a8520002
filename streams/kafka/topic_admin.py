"""Create the declared topics and assert that the broker has them as declared."""

import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from leap.streams.kafka.clients import admin_config
from leap.streams.runtime.settings import Settings

TIMEOUT_S = 30.0
LATE_S = 5.0  # beyond which a client is not believed to keep its own timeout
AHEAD_MS = 3_600_000  # a message of a later time would be kept, and found at that time, long after it was sent
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # 16 zero bytes in base64: the broker is older than topic ids


class Declaration(Protocol):
    """What of a topic's declaration (:class:`leap.schemas.topics.Topic`) the broker must know."""

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


class TopicError(RuntimeError):
    """Topics on the broker are not as declared; the message names each difference."""


def ensure_topics(settings: Settings, declarations: Iterable[Declaration]) -> list[str]:
    """Create the topics that are missing, then assert all.

    Returns
    -------
    list of str
        Names on the broker of those created.

    Raises
    ------
    TopicError
        If a topic cannot be created, or one is not as declared.
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
    """Assert that the broker has every declared topic, with the declared number of partitions or more.

    Returns
    -------
    list of str
        What has more, a sentence each: partitions may be added while all goes on, so no worker minds.

    Raises
    ------
    TopicError
        If a topic is missing or has fewer; the message names all that are.
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
            differences.append(f"{name} has {counts[name]} partitions where {topic.partitions} are declared")
    if wrong:
        raise _not_as_declared(settings, wrong)
    return grown


def _not_as_declared(settings: Settings, wrong: Iterable[str]) -> TopicError:
    return TopicError(f"on {settings.bootstrap_servers}: " + "; ".join(wrong))


def topic_ids(settings: Settings, names: Iterable[str], admin: AdminClient | None = None) -> dict[str, str]:
    """Get the id of each topic, by its name on the broker: a topic created again has another id.

    Where the broker reports none, ``settings.topic_epoch`` stands in. Whoever asks often keeps an `admin`.

    Raises
    ------
    TopicError
        If a topic does not exist, or the broker does not answer.
    """
    admin = admin or AdminClient(admin_config(settings))
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
            elif code != KafkaError.TOPIC_ALREADY_EXISTS:  # another process was faster
                raise TopicError(f"{name} cannot be created: {error.args[0].str()}") from error
    if refused:
        _create(settings, refused, {})  # Kafka before 3.6 does not know them
    deadline = time.monotonic() + TIMEOUT_S
    while topics.keys() - _partition_counts(settings) and time.monotonic() < deadline:
        time.sleep(0.02)  # brokers learn of a topic a little after its creation is answered


def _partition_counts(settings: Settings) -> dict[str, int]:
    heard: list[KafkaError] = []
    admin = AdminClient(admin_config(settings) | {"error_cb": heard.append})
    try:
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as error:
        admin.poll(0)  # what was wrong with the connection is told there alone
        reason = heard[0] if heard else error.args[0]
        raise TopicError(f"the broker does not answer: {reason.str()}") from error
    return {name: len(topic.partitions) for name, topic in topics.items()}


def _broker_config(topic: Declaration) -> dict[str, str]:
    return {
        "retention.ms": str(topic.retention_ms),
        "cleanup.policy": topic.cleanup,
        "max.message.bytes": str(topic.max_message_bytes),
    }
