"""Checks of :mod:`leap.streams.doctor.runner` that ask the store; of a Cluster, every primary."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis

from leap.streams.doctor.check import AS_OPERATOR, CheckContext, CheckFailed, duration
from leap.streams.redis_store.client import Client, connect
from leap.streams.runtime.acl import ROLES

#: Oldest version that the suite runs on.
LEAST_VERSION = (6, 2)
FULL = 0.8
OFF_S = 2.0
#: A script needs the rights of what it calls; what is asked here is not called (from Redis 7.0 on).
MAY_WRITE = """
if redis.acl_check_cmd and not redis.acl_check_cmd('HSET', KEYS[1], 'field', 'value') then
  return redis.error_reply('NOPERM no right to HSET')
end
return 1
"""


def answers(context: CheckContext) -> str:
    """Whether it answers, takes writes and is new enough."""
    try:
        nodes = _info(context)
    except redis.AuthenticationError as error:
        raise CheckFailed(str(error), "correct user and password in LEAP_REDIS_URL, or its file") from error
    except ValueError as error:  # the URL is none: whatever could be read of it may be of the password
        raise CheckFailed(str(error), "correct LEAP_REDIS_URL, or its file") from error
    except redis.RedisError as error:
        url = urlsplit(context.settings.redis_url)
        raise CheckFailed(
            f"{url.hostname}:{url.port}: {error}", "start it, or correct LEAP_REDIS_URL (rediss:// for TLS)"
        ) from error
    for name, info in nodes.items():
        if info["role"] != "master":
            raise CheckFailed(f"{name} is a replica", "LEAP_REDIS_URL must name the primary")
        if tuple(map(int, re.findall(r"\d+", info["redis_version"])[:2])) < LEAST_VERSION:
            raise CheckFailed(f"{name} has version {info['redis_version']}", "upgrade to 6.2 or later")
    return "; ".join(f"{name}, {_version(info)}" for name, info in nodes.items())


def rights(context: CheckContext) -> str:
    """Whether this user may read and write the keys that the role needs; asked without touching them."""
    with connect(context.settings.redis_url) as client:
        for role in context.roles():
            for pattern in ROLES[role].keys:
                try:
                    _try(client, role, context.settings.redis_prefix, pattern)
                except redis.RedisError as error:
                    key = context.settings.redis_prefix + pattern.partition("~")[2]
                    raise CheckFailed(f"{role}: {key}: {error}", "give the user its rules: docs/security.md") from error
    return f"all that {context.role or 'every role'} needs"


def _try(client: Client, role: str, prefix: str, pattern: str) -> None:
    """Do with one of a role's keys what the role does, and change nothing."""
    mode, _, rest = pattern.partition("~")
    key = prefix + re.sub(r"(\[0-9\])?\*", "0", rest)
    if not mode:
        client.eval(MAY_WRITE, 1, key)
    elif "get" in ROLES[role].commands:
        client.get(key)
    else:
        client.mget(key)


def persistence(context: CheckContext) -> str:
    """Whether a restart keeps what it holds, to the second."""
    for name, info in _info(context).items():
        if not info["aof_enabled"]:
            raise CheckFailed(
                f"{name} has no append-only file: a restart forgets what came since its last snapshot",
                "appendonly yes, in its configuration and with CONFIG SET",
                can_wait=True,
            )
        if "ok" not in (info["aof_last_write_status"], info["rdb_last_bgsave_status"]):
            raise CheckFailed(f"{name} cannot write to its disk", "make room there; its log says what fails")
    return "append-only file on"


def eviction(context: CheckContext) -> str:
    """Whether it refuses writes when it is full, rather than forget."""
    for name, info in _info(context).items():
        if info["maxmemory_policy"] != "noeviction":
            raise CheckFailed(
                f"{name} has {info['maxmemory_policy']}: it forgets families when it is full",
                "maxmemory-policy noeviction, in its configuration and with CONFIG SET",
            )
    return "noeviction"


def memory(context: CheckContext) -> str:
    """Whether there is room."""
    shares = []
    for name, info in _info(context).items():
        used, limit = info["used_memory"], info["maxmemory"] or info.get("total_system_memory", 0)
        shares.append(f"{used / 1e6:,.0f} of {limit / 1e6:,.0f} MB")
        if limit and used > FULL * limit:
            raise CheckFailed(
                f"{name}: {shares[-1]}", "raise maxmemory or add shards: docs/capacity.md says how much is right"
            )
    return "; ".join(shares)


def clock(context: CheckContext) -> str:
    """Whether its clock and this machine's agree."""
    with _open(context) as client:
        asked = context.now()
        seconds, microseconds = client.time()
        answered = context.now()
    off = seconds + microseconds / 1e6 - (asked + answered) / 2
    if abs(off) - (answered - asked) / 2 > OFF_S:
        raise CheckFailed(
            f"this machine's clock is {duration(abs(off))} {'behind' if off > 0 else 'ahead'}",
            "run an NTP client on both",
            can_wait=True,
        )
    return f"{abs(off):.3f} s from this machine's"


def _info(context: CheckContext) -> dict[str, dict[str, Any]]:
    """Name of each primary to what it tells of itself."""
    with _open(context) as client:
        if isinstance(client, redis.RedisCluster):
            by_node: dict[str, dict[str, Any]] = client.info(target_nodes=redis.RedisCluster.PRIMARIES)
            return by_node
        url = urlsplit(context.settings.redis_url)
        return {f"{url.hostname}:{url.port or 6379}": client.info()}


@contextmanager
def _open(context: CheckContext) -> Iterator[Client]:
    """Connect; what this user may not ask is a finding."""
    try:
        with connect(context.settings.redis_url) as client:
            yield client
    except redis.exceptions.NoPermissionError as error:
        raise CheckFailed(f"this user may not ask: {error}", AS_OPERATOR, can_wait=True) from error


def _version(info: dict[str, Any]) -> str:
    return f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"
