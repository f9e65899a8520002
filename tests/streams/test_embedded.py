import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from leap.streams.embedded import PORTS, ServiceError, broker_ready, child, embedded_pair, free_port, store_ready

OWNER = """
import sys, time
from pathlib import Path
from leap.streams.embedded import embedded_pair
with embedded_pair(Path(sys.argv[1])) as pair:
    print(pair.bootstrap_servers, pair.redis_url, flush=True)
    time.sleep(60)
"""


def test_pair_starts_and_stops(tmp_path: Path) -> None:
    with embedded_pair(tmp_path) as pair:
        assert broker_ready(pair.bootstrap_servers)
        with redis.Redis.from_url(pair.redis_url) as client:
            client.set("a", "1")
            assert client.get("a") == b"1"
    assert not broker_ready(pair.bootstrap_servers)
    assert not store_ready(pair.redis_url)
    assert {path.name for path in tmp_path.iterdir()} >= {"broker.log", "store.log"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_pair_does_not_outlive_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        broker, store = owner.stdout.readline().split()
        assert broker_ready(broker)
        owner.send_signal(number)
    while broker_ready(broker) or store_ready(store):  # pytest-timeout ends it
        time.sleep(0.05)


def test_free_ports_differ_and_no_connection_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = [free_port() for _ in range(100)]
    assert len(set(ports)) == 100
    assert max(ports) < 32_768, "from there on Linux gives ports to whoever connects"
    with socket.create_server(("127.0.0.1", ports[-1])):
        monkeypatch.setattr("leap.streams.embedded._numbers", itertools.count(PORTS.index(ports[-1])))
        assert free_port() != ports[-1]


def test_child_that_ends_says_why(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo no such disk >&2; exit 3"]
    expected = pytest.raises(ServiceError, match=r"exited with status 3(.|\n)*no such disk")
    with expected, child(command, tmp_path / "log", lambda: False):
        pass


def test_child_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    script = f"trap '' TERM; touch {tmp_path}/begun; while :; do sleep 0.1; touch {tmp_path}/alive; done"
    command = ["/bin/sh", "-c", script]
    expected = pytest.raises(ServiceError, match="was not ready after 3 s")
    with expected, child(command, tmp_path / "log", lambda: False, deadline_s=3, stop_s=0.2):
        pass
    (tmp_path / "alive").unlink(missing_ok=True)
    time.sleep(0.3)
    assert (tmp_path / "begun").exists()
    assert not (tmp_path / "alive").exists()
