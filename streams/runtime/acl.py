"""Least privilege: the Kafka ACLs and Redis ACL rules that each role needs.

Topic ACLs follow from the topic declarations; key patterns and commands are listed here. ``leap topics rights``
prints them, docs/security.md explains them, and a test runs every worker under them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from leap.schemas.topics import Topic, load_topics
from leap.streams.runtime.settings import Settings

#: Commands that every Redis client sends by itself, on a Cluster too.
CLIENT = ("ping", "select", "cluster|slots", "command", "asking")


class Role(NamedTuple):
    """One program, or the person who runs ``leap``.

    Attributes
    ----------
    name
        Name used in the topic declarations (``producers``, ``consumers``).
    groups
        Consumer groups: names, or prefixes if they end in ``*``.
    commands
        Redis commands, including those that scripts call (Redis checks them too).
    keys
        Key patterns in ``ACL SETUSER`` syntax, relative to the key prefix: ``%R~`` is read-only, ``~`` read-write.
    """

    name: str
    groups: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


ROLES = {
    "launcher": Role("launcher", groups=("preferences-*",)),
    "scheduler": Role("scheduler", groups=("preferences-*",)),
    "history": Role(
        "history worker",
        groups=("history",),
        commands=("mget", "eval", "hget", "hset"),
        keys=("%R~:history:{generation}", "%R~:history:{generation}:hold", "~:history:[0-9]*"),
    ),
    "joiner": Role(
        "attempt joiner",
        groups=("joiner",),
        commands=("eval", "hget", "hset", "hincrby", "hmget", "hgetall", "expire"),
        keys=("~:attempt:*",),
    ),
    "ranking": Role("ranking worker", groups=("ranking",), commands=("get",), keys=("%R~:{switches}:current",)),
    "monitor": Role("live monitor", groups=("monitor", "range-*")),
    "retrainer": Role("retrainer", groups=("retrainer",), commands=("get", "mget", "hgetall"), keys=("%R~:history:*",)),
    "operator": Role(
        "operator",
        groups=("range-*", "history", "joiner", "ranking"),  # the doctor reads their lag
        commands=(
            *("get", "mget", "set", "del", "unlink", "incrby", "pexpire", "eval", "hget", "hset", "hgetall"),
            *("lpush", "ltrim", "lrange", "watch", "unwatch", "multi", "exec", "discard"),
            *("info", "time", "scan"),
        ),
        keys=("~:history:*", "~:{switches}:*"),
    ),
}


class Grant(NamedTuple):
    """One ACL on the broker.

    Attributes
    ----------
    resource
        ``topic`` or ``group``.
    name
        Resource name, or its prefix if `prefixed`.
    operation
        ``read``, ``write`` or ``create``; each implies ``describe``.
    """

    resource: str
    name: str
    operation: str
    prefixed: bool = False


def topics_of(role: str) -> list[Topic]:
    """Topics that a role reads or writes; it has no rights on the others."""
    name = ROLES[role].name
    return [topic for topic in load_topics().values() if name in (*topic.producers, *topic.consumers)]


def grants(role: str, settings: Settings) -> Iterator[Grant]:
    """Kafka ACLs of a role.

    An operator creates and reads every topic, and writes those it may have to replay to.
    """
    operator = role == "operator"
    for topic in load_topics().values():
        name, called = settings.topic(topic.name), ROLES[role].name
        if operator:
            yield Grant("topic", name, "create")
        if operator or called in topic.consumers:
            yield Grant("topic", name, "read")
        if operator or called in topic.producers:
            yield Grant("topic", name, "write")
    for group in ROLES[role].groups:
        yield Grant("group", settings.topic(group.removesuffix("*")), "read", prefixed=group.endswith("*"))


def store_rules(role: str, settings: Settings) -> list[str]:
    """Rules for ``ACL SETUSER`` besides ``on`` and a password; empty if the role does not use Redis."""
    entry = ROLES[role]
    if not entry.commands:
        return []
    keys = [pattern.replace("~", "~" + settings.redis_prefix, 1) for pattern in entry.keys]
    return ["resetkeys", "resetchannels", "-@all", *keys, *(f"+{command}" for command in (*CLIENT, *entry.commands))]


def kafka_command(grant: Grant, principal: str) -> str:
    """The ``kafka-acls`` command that adds an ACL, without connection options."""
    pattern = " --resource-pattern-type prefixed" if grant.prefixed else ""
    return (
        f"kafka-acls --add --allow-principal {principal} --operation {grant.operation.capitalize()} "
        f"--{grant.resource} {grant.name}{pattern}"
    )
