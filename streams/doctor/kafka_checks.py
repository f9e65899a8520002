"""Checks of :mod:`leap.streams.doctor.runner` of the broker, its topics and ACLs."""

from confluent_kafka import OFFSET_END, KafkaException, TopicCollection
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from leap.schemas.errors import BrokerError
from leap.schemas.topics import DEAD_LETTERS
from leap.streams.doctor.check import ANSWER_S, CheckContext, CheckFailed
from leap.streams.doctor.kafka_queries import offsets, open_consumer, partition_counts, partitions_of, result
from leap.streams.kafka.reachable import broker_metadata
from leap.streams.runtime.acl import grants

#: Largest acceptable clock skew of a producer.
AHEAD_S = 60.0
#: In the year 2199: a broker that finds a message at this time does not support lookups by time (Tansu answers 0).
NEVER_MS = 7_226_582_400_000
DAY_S = 86_400.0
ALTER = "kafka-configs.sh --alter --entity-type topics --entity-name {} --add-config {}={}"


def broker(context: CheckContext) -> str:
    """A broker answers."""
    try:
        brokers = broker_metadata(context.settings).brokers
    except (BrokerError, KafkaException) as error:
        raise CheckFailed(
            str(error) if isinstance(error, BrokerError) else error.args[0].str(),
            "start it, or correct LEAP_KAFKA_BOOTSTRAP_SERVERS or the LEAP_KAFKA_SECURITY_PROTOCOL settings",
        ) from error
    return f"{len(brokers)} at {', '.join(sorted(str(broker) for broker in brokers.values()))}"


def topics(context: CheckContext) -> str:
    """Topics are as declared."""
    declared = context.declared()
    counts = partition_counts(context)
    missing = sorted(declared.keys() - counts.keys())
    if missing:
        raise CheckFailed(
            f"missing, or not visible to this user: {', '.join(missing)}", "leap topics ensure creates missing topics"
        )
    wrong = {
        name: f"{name} has {counts[name]} partitions, {topic.partitions} declared"
        for name, topic in declared.items()
        if counts[name] != topic.partitions
    }
    if wrong:
        raise CheckFailed(
            "; ".join(wrong.values()),
            "workers do not start with fewer; add partitions with kafka-topics.sh --alter, or change the declaration "
            "in schemas/topics",
        )
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in declared]
    answers = context.admin.describe_configs(resources, request_timeout=ANSWER_S)
    for resource, future in answers.items():
        config, topic = result(future), declared[resource.name]
        wanted = {
            "retention.ms": str(topic.retention_ms),
            "cleanup.policy": topic.cleanup,
            "max.message.bytes": str(topic.max_message_bytes),
        }
        for name, value in wanted.items():
            if name in config and config[name].value != value:
                raise CheckFailed(
                    f"{resource.name}: {name} is {config[name].value}, {value} declared",
                    ALTER.format(resource.name, name, value),
                )
    return f"{len(declared)} as declared"


def replicas(context: CheckContext) -> str:
    """All replicas are in sync."""
    cluster = context.admin.list_topics(timeout=ANSWER_S)
    topics = [cluster.topics[name] for name in context.declared() if name in cluster.topics]
    partitions = [part for topic in topics for part in topic.partitions.values()]
    behind = sum(len(part.isrs) < len(part.replicas) for part in partitions)
    if behind:
        raise CheckFailed(
            f"{behind} of {len(partitions)} partitions are under-replicated", "check for a broker that is down"
        )
    fewest = min((len(part.replicas) for part in partitions), default=0)
    if fewest == 1 and len(cluster.brokers) > 1:
        raise CheckFailed(
            f"some partitions have a single replica although there are {len(cluster.brokers)} brokers",
            "reassign them to three brokers, and set LEAP_TOPIC_REPLICATION=3 for new topics",
            can_wait=True,
        )
    return f"{fewest} per partition, all in sync"


def rights(context: CheckContext) -> str:
    """This user has the topic ACLs of the role, according to the broker."""
    needed: dict[str, set[str]] = {}
    for role in context.roles():
        for grant in grants(role, context.settings):
            if grant.resource == "topic":
                needed.setdefault(grant.name, set()).add(grant.operation)
    described = context.admin.describe_topics(
        TopicCollection(list(needed)), include_authorized_operations=True, request_timeout=ANSWER_S
    )
    lacking = []
    for name, future in described.items():
        allowed = result(future).authorized_operations
        if allowed is None:
            return "no authorizer configured; ACLs not checked"
        names = {operation.name.lower() for operation in allowed}
        lacking += [f"{operation} {name}" for operation in sorted(needed[name] - names)]
    if lacking:
        raise CheckFailed(f"not allowed: {', '.join(lacking)}", "add these ACLs; docs/security.md has the list")
    return f"sufficient for {context.role or 'every role'}"


def dead_letters(context: CheckContext) -> str:
    """No dead letters in the last day."""
    partitions = partitions_of(context, [context.settings.topic(DEAD_LETTERS)])
    with open_consumer(context) as consumer:
        ends = offsets(consumer, partitions, OFFSET_END)
        since = offsets(consumer, partitions, int((context.now() - DAY_S) * 1000))
    count = sum(ends[partition] - offset for partition, offset in since.items() if offset >= 0)
    if count:
        raise CheckFailed(
            f"{count} dead letters in the last day",
            "docs/operations.md#dead-letters: read the reasons, fix the producer, replay the messages",
            can_wait=True,
        )
    return "none in the last day"


def clocks(context: CheckContext) -> str:
    """No producer's clock is ahead, which would distort retention and lookups by time."""
    partitions = partitions_of(context, context.declared())
    with open_consumer(context) as consumer:
        if any(offset >= 0 for offset in offsets(consumer, partitions, NEVER_MS).values()):
            return "broker lacks timestamp lookup; not checked"
        ahead = offsets(consumer, partitions, int((context.now() + AHEAD_S) * 1000))
    named = sorted({name for (name, _), offset in ahead.items() if offset >= 0})
    if named:
        raise CheckFailed(
            f"messages from the future in {', '.join(named)}",
            "run an NTP client on the launchers and on this machine",
            can_wait=True,
        )
    return f"no message more than {AHEAD_S:.0f} s ahead of this machine"
