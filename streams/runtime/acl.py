"""The least that each program needs on the broker and in the store: nobody gets more.

Rights on topics follow from their declarations, those on keys and commands stand here. ``leap topics rights``
prints them, docs/security.md explains them, and a test runs every worker under them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from leap.schemas.topics import Topic, load_topics
from leap.streams.runtime.settings import Settings

#: What every client of the store sends by itself, also to a Cluster.
CLIENT = ("ping", "select", "cluster|slots", "command", "asking")


class Role(NamedTuple):
    """One program, or the person who runs ``leap``.

    Attributes
    ----------
    name
        What the declarations of topics call it.
    groups
        Consumer groups: names, or beginnings of names if they end in ``*``.
    commands
        Of the store; those that a script calls are checked as well.
    keys
        Patterns as ``ACL SETUSER`` takes them, after the prefix of all keys: ``%R~`` to read, ``~`` to write too.
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
        groups=("range-*", "history", "joiner", "ranking"),  # whose lag the doctor asks for
        commands=(
            *("get", "mget", "set", "del", "unlink", "incrby", "pexpire", "eval", "hget", "hset", "hgetall"),
            *("lpush", "ltrim", "lrange", "watch", "unwatch", "multi", "exec", "discard"),
            *("info", "time"),
        ),
        keys=("~:history:*", "~:{switches}:*"),
    ),
}


class Grant(NamedTuple):
    """One right on the broker.

    Attributes
    ----------
    resource
        ``topic`` or ``group``.
    name
        Of the resource, or how its name begins if `prefixed`.
    operation
        ``read``, ``write`` or ``create``; each includes ``describe``.
    """

    resource: str
    name: str
    operation: str
    prefixed: bool = False


def topics_of(role: str) -> list[Topic]:
    """Declarations of the topics that a role reads or writes: the others it may not even see."""
    name = ROLES[role].name
    return [topic for topic in load_topics().values() if name in (*topic.producers, *topic.consumers)]


def grants(role: str, settings: Settings) -> Iterator[Grant]:
    """All that a role may do on the broker.

    An operator creates and reads every topic and repeats what others have sent.
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
    """Rules of ``ACL SETUSER`` beside ``on`` and a password; none if the role has no business there."""
    found = ROLES[role]
    if not found.commands:
        return []
    keys = [pattern.replace("~", "~" + settings.redis_prefix, 1) for pattern in found.keys]
    return ["resetkeys", "resetchannels", "-@all", *keys, *(f"+{command}" for command in (*CLIENT, *found.commands))]


def kafka_command(grant: Grant, principal: str) -> str:
    """The stock command that gives a right, without connection."""
    pattern = " --resource-pattern-type prefixed" if grant.prefixed else ""
    return (
        f"kafka-acls --add --allow-principal {principal} --operation {grant.operation.capitalize()} "
        f"--{grant.resource} {grant.name}{pattern}"
    )
