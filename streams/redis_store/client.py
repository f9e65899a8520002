"""The Redis client: for Redis, Valkey or a Redis Cluster, detected on connect."""

from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from leap.schemas.errors import SettingsError

Client = redis.Redis | redis.RedisCluster

TIMEOUT_S = 10.0
#: To the first command, which a store that is there answers at once.
ANSWER_S = 3.0


def connect(url: str) -> Client:
    """A connected client; TLS and user are part of the URL (``rediss://user:password@host:port/0``).

    Raises
    ------
    redis.RedisError, redis.exceptions.RedisClusterException
        If it is unavailable or denies access.
    SettingsError
        As `client_of`.
    """
    with client_of(url, socket_connect_timeout=ANSWER_S, socket_timeout=ANSWER_S, retry=None) as first:
        execute: Any = first.execute_command
        greeting = execute("HELLO")  # allowed for every user, unlike INFO
    if b"cluster" not in (greeting.values() if isinstance(greeting, dict) else greeting):
        return client_of(url)
    return redis.RedisCluster.from_url(url, **_options())


def client_of(url: str, **options: Any) -> redis.Redis:
    """A client that connects on first use; `options` replace the usual ones.

    Raises
    ------
    SettingsError
        If the URL is invalid; the message does not quote it, because it may hold a password.
    """
    try:
        return redis.Redis.from_url(url, **(_options() | options))
    except (ValueError, TypeError):
        raise SettingsError(
            "LEAP_REDIS_URL is invalid: expected redis://host:port/0, or rediss:// for TLS, with user:password@ "
            "before the host and special characters of the password percent-encoded"
        ) from None


def _options() -> dict[str, Any]:
    return {
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "health_check_interval": 30,
        # Callers tolerate a command that runs twice: a reply may be lost after execution.
        "retry": Retry(ExponentialBackoff(cap=1.0, base=0.05), 3),
        "driver_info": None,  # otherwise it sends CLIENT SETINFO, which needs a permission
    }
