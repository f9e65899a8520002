"""The store's client: plain Redis, Valkey, or a Redis Cluster, told apart by asking."""

from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

Client = redis.Redis | redis.RedisCluster

TIMEOUT_S = 10.0


def connect(url: str) -> Client:
    """Connect to the store; TLS and user come with the URL (``rediss://user:password@host:port/0``).

    Raises
    ------
    redis.RedisError
        If it does not answer.
    """
    options: dict[str, Any] = {
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "health_check_interval": 30,
        # Whoever calls bears a command that runs twice: a reply may be lost after the work.
        "retry": Retry(ExponentialBackoff(cap=1.0, base=0.05), 3),
    }
    client = redis.Redis.from_url(url, **options)
    if not client.info("cluster").get("cluster_enabled"):
        return client
    client.close()
    return redis.RedisCluster.from_url(url, **options)
