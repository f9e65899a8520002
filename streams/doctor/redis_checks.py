"""Checks of :mod:`leap.streams.doctor.runner` of Redis; on a Cluster, of every primary."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis

from leap.streams.doctor.check import AS_OPERATOR, CheckContext, CheckFailed, duration
from leap.streams.redis_store.client import Client, connect
from leap.streams.runtime.acl import ROLES

#: Oldest version that is tested.
MIN_VERSION = (6, 2)
MAX_MEMORY_SHARE = 0.8
MAX_CLOCK_SKEW_S = 2.0
#: Checks the permission to write without writing (from Redis 7.0 on).
MAY_WRITE = """
if redis.acl_check_cmd and not redis.acl_check_cmd('HSET', KEYS[1], 'field', 'value') then
  return redis.error_reply('NOPERM no permission for HSET')
end
return 1
"""


def answers(context: CheckContext) -> str:
    """Redis answers, is a primary and of a supported version."""
    try:
        nodes = _info(context)
    except redis.AuthenticationError as error:
        raise CheckFailed(str(error), "correct the user and password in LEAP_REDIS_URL, or in its file") from error
    except ValueError as error:  # invalid URL: any part of it may belong to the password
        raise CheckFailed(str(error), "correct LEAP_REDIS_URL, or its file") from error
    except redis.RedisError as error:
        url = urlsplit(context.settings.redis_url)
        raise CheckFailed(
            f"{url.hostname}:{url.port}: {error}", "start it, or correct LEAP_REDIS_URL (rediss:// for TLS)"
        ) from error
    for name, info in nodes.items():
        if info["role"] != "master":
            raise CheckFailed(f"{name} is a replica", "LEAP_REDIS_URL must name the primary")
        if tuple(map(int, re.findall(r"\d+", info["redis_version"])[:2])) < MIN_VERSION:
            raise CheckFailed(f"{name} has version {info['redis_version']}", "upgrade to 6.2 or later")
    return "; ".join(f"{name}, {_version(info)}" for name, info in nodes.items())


def rights(context: CheckContext) -> str:
    """This user has the key permissions of the role; checked without writing."""
    with connect(context.settings.redis_url) as client:
        for role in context.roles():
            for pattern in ROLES[role].keys:
                try:
                    _check_permission(client, role, context.settings.redis_prefix, pattern)
                except redis.RedisError as error:
                    key = context.settings.redis_prefix + pattern.partition("~")[2]
                    raise CheckFailed(
                        f"{role}: {key}: {error}", "add the ACL rules of the role; docs/security.md has the list"
                    ) from error
    return f"sufficient for {context.role or 'every role'}"


def _check_permission(client: Client, role: str, prefix: str, pattern: str) -> None:
    """Access a key of a pattern as the role does, without changing it."""
    mode, _, rest = pattern.partition("~")
    key = prefix + re.sub(r"(\[0-9\])?\*", "0", rest)
    if not mode:
        client.eval(MAY_WRITE, 1, key)
    elif "get" in ROLES[role].commands:
        client.get(key)
    else:
        client.mget(key)


def persistence(context: CheckContext) -> str:
    """Persistence is on: a restart loses at most a second."""
    for name, info in _info(context).items():
        if not info["aof_enabled"]:
            raise CheckFailed(
                f"{name} has no append-only file: a restart loses everything since the last snapshot",
                "set appendonly yes, in its configuration and with CONFIG SET",
                can_wait=True,
            )
        if "ok" not in (info["aof_last_write_status"], info["rdb_last_bgsave_status"]):
            raise CheckFailed(f"{name} cannot write to its disk", "free disk space; its log has the error")
    return "append-only file on"


def eviction(context: CheckContext) -> str:
    """Writes fail when memory is full, rather than evict keys."""
    for name, info in _info(context).items():
        if info["maxmemory_policy"] != "noeviction":
            raise CheckFailed(
                f"{name} has {info['maxmemory_policy']}: it evicts keys when memory is full",
                "set maxmemory-policy noeviction, in its configuration and with CONFIG SET",
            )
    return "noeviction"


def memory(context: CheckContext) -> str:
    """Memory use is below 80%."""
    shares = []
    for name, info in _info(context).items():
        used, limit = info["used_memory"], info["maxmemory"] or info.get("total_system_memory", 0)
        shares.append(f"{used / 1e6:,.0f} of {limit / 1e6:,.0f} MB")
        if limit and used > MAX_MEMORY_SHARE * limit:
            raise CheckFailed(
                f"{name}: {shares[-1]}", "increase maxmemory or add shards; docs/capacity.md has the sizing"
            )
    return "; ".join(shares)


def clock(context: CheckContext) -> str:
    """The clocks of Redis and this machine agree."""
    with _open(context) as client:
        sent = context.now()
        seconds, microseconds = client.time()
        received = context.now()
    off = seconds + microseconds / 1e6 - (sent + received) / 2
    if abs(off) - (received - sent) / 2 > MAX_CLOCK_SKEW_S:
        raise CheckFailed(
            f"this machine's clock is {duration(abs(off))} {'behind' if off > 0 else 'ahead'}",
            "run an NTP client on both machines",
            can_wait=True,
        )
    return f"{abs(off):.3f} s off this machine's"


def _info(context: CheckContext) -> dict[str, dict[str, Any]]:
    """Name of each primary to its INFO."""
    with _open(context) as client:
        if isinstance(client, redis.RedisCluster):
            by_node: dict[str, dict[str, Any]] = client.info(target_nodes=redis.RedisCluster.PRIMARIES)
            return by_node
        url = urlsplit(context.settings.redis_url)
        return {f"{url.hostname}:{url.port or 6379}": client.info()}


@contextmanager
def _open(context: CheckContext) -> Iterator[Client]:
    """Connect; a denied command becomes a finding."""
    try:
        with connect(context.settings.redis_url) as client:
            yield client
    except redis.exceptions.NoPermissionError as error:
        raise CheckFailed(f"permission denied: {error}", AS_OPERATOR, can_wait=True) from error


def _version(info: dict[str, Any]) -> str:
    return f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"
