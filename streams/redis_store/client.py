"""The store's client: plain Redis, Valkey, or a Redis Cluster, told apart by asking."""

from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

Client = redis.Redis | redis.RedisCluster

TIMEOUT_S = 10.0


def connect(url: str) -> Client:
    """A client of the store that has answered; TLS and user come with the URL (``rediss://user:password@host:port/0``).

    Raises
    ------
    redis.RedisError, redis.exceptions.RedisClusterException
        If it does not answer, or does not let us in.
    ValueError
        As `client_of`.
    """
    client = client_of(url)
    ask: Any = client.execute_command
    greeting = ask("HELLO")  # which all users may send, unlike INFO
    if b"cluster" not in (greeting.values() if isinstance(greeting, dict) else greeting):
        return client
    client.close()
    return redis.RedisCluster.from_url(url, **_options())


def client_of(url: str) -> redis.Redis:
    """A client that has not asked anything yet.

    Raises
    ------
    ValueError
        If the URL is none; the message keeps it to itself, for it may hold a password.
    """
    try:
        return redis.Redis.from_url(url, **_options())
    except (ValueError, TypeError):
        raise ValueError(
            "LEAP_REDIS_URL cannot be read: expected redis://host:port/0, or rediss:// for TLS, with user:password@ "
            "before the host, and %-escapes for what is not a letter or digit of the password"
        ) from None


def _options() -> dict[str, Any]:
    return {
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "health_check_interval": 30,
        # Whoever calls bears a command that runs twice: a reply may be lost after the work.
        "retry": Retry(ExponentialBackoff(cap=1.0, base=0.05), 3),
        "driver_info": None,  # or it tells its version in a command that users need a right for
    }
