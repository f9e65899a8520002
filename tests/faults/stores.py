"""Redis with an append-only file, and a Redis Cluster, that can be paused, killed and started again."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from leap.streams.embedded import child, free_port, store_ready
from tests.services import real_redis

NODES = 6
NODE_TIMEOUT_MS = 1000
DEADLINE_S = 60.0


class Store:
    """A Redis server."""

    def __init__(self, directory: Path, port: int, options: Sequence[str] = ()) -> None:
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"
        self._directory = directory
        self._options = options
        self._stack = ExitStack()

    def start(self) -> None:
        """Start, also again after `kill`, and wait until it answers."""
        if not self._options:
            self._stack.enter_context(real_redis(self._directory, self.port, 0))
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._directory)]
        log = self._directory / "redis.log"
        ready = lambda: store_ready(self.url)  # noqa: E731
        self._stack.enter_context(child([*command, *self._options], log, ready, stop_s=0))

    def kill(self) -> None:
        """Kill with -9."""
        self._stack.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still during the block: connections stay open and nothing answers."""
        with self.client() as client:
            process = int(client.info("server")["process_id"])
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def client(self) -> redis.Redis:
        """Connect to this server alone."""
        return redis.Redis(port=self.port, socket_timeout=5)

    def role(self) -> str:
        """Tell what it is in a Cluster: master or slave."""
        with self.client() as client:
            return str(client.info("replication")["role"])


class Cluster:
    """Three primaries with a replica each, which keep nothing on disk."""

    def __init__(self, nodes: list[Store]) -> None:
        self.nodes = nodes
        self.url = nodes[0].url

    def replica_of(self, primary: Store) -> Store:
        """Find the replica of a primary."""
        with primary.client() as client:
            port = client.info("replication")["slave0"]["port"]
        return next(node for node in self.nodes if node.port == int(port))

    def whole(self) -> bool:
        """Tell whether every slot is served and every primary has a replica that is up to date."""
        try:
            primaries = [node for node in self.nodes if node.role() == "master"]
            for node in primaries:
                with node.client() as client:
                    state = client.execute_command("CLUSTER INFO")
                    replicas = client.info("replication")
                up = replicas["connected_slaves"] == 1 and replicas["slave0"]["state"] == "online"
                if state["cluster_state"] != "ok" or not up:
                    return False
        except redis.RedisError:
            return False
        return len(primaries) == NODES // 2

    def await_whole(self) -> None:
        """Wait until it is."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.whole():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the Redis Cluster is not whole after {DEADLINE_S} s")
            time.sleep(0.1)


@contextmanager
def one_store(directory: Path) -> Iterator[Store]:
    """Run Redis until the block ends."""
    store = Store(directory, free_port())
    store.start()
    try:
        yield store
    finally:
        store.kill()


@contextmanager
def six_stores(directory: Path) -> Iterator[Cluster]:
    """Run a Redis Cluster until the block ends."""
    with ExitStack() as stack:
        nodes = []
        for number in range(NODES):
            options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--save", ""]
            options += ["--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--repl-diskless-sync-delay", "0"]
            node = Store(directory / str(number), free_port(), options)
            stack.callback(node.kill)
            node.start()
            nodes.append(node)
        addresses = [f"127.0.0.1:{node.port}" for node in nodes]
        create = ["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"]
        subprocess.run(create, check=True, capture_output=True)
        cluster = Cluster(nodes)
        cluster.await_whole()
        yield cluster
