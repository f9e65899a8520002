"""``leap up``: all of a fleet with one command, healthy when it says so, and gone when it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import redis

from leap.streams.cli.up import WORKERS
from leap.streams.embedded import broker_ready, free_port, store_ready
from tests.commands import invoke
from tests.services import ROOT


@contextmanager
def up(folder: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str, dict[str, str]]]:
    """The command, all that it says until it is ready, and the addresses of its services."""
    ports = [str(free_port()), str(free_port())]
    command = [sys.executable, "-m", "leap", "up", "--broker-port", ports[0], "--store-port", ports[1], *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        told = ""
        for line in running.stdout:
            told += line
            if line.startswith("Ctrl-C"):
                break
        try:
            yield running, told, dict(re.findall(r"export (\w+)=(\S+)", told))
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_everything_is_healthy_and_ends_with_the_command(number: signal.Signals, tmp_path: Path) -> None:
    with up(tmp_path) as (running, told, addresses):
        assert f"broker, store, {', '.join(WORKERS)}\n" in told
        assert store_ready(addresses["LEAP_REDIS_URL"])
        [page] = re.findall(r"http://\S+", told)
        with urlopen(page, timeout=60) as answer:
            assert answer.status == 200
        table = ("backfill", str(ROOT / "examples/jobs.csv"), "--mapping", str(ROOT / "examples/jobs.yaml"))
        sent = invoke(*table, "--limit", "50", "--wait", env=addresses)
        assert (sent.exit_code, "150 events sent" in sent.stdout) == (0, True), sent.output
        with redis.Redis.from_url(addresses["LEAP_REDIS_URL"]) as client:
            assert any(client.scan_iter("leap:history:*")), "they were processed when it returned"
        running.send_signal(number)
        assert running.wait(60) == 0
    assert not broker_ready(addresses["LEAP_KAFKA_BOOTSTRAP_SERVERS"])
    assert not store_ready(addresses["LEAP_REDIS_URL"])
    assert {path.name for path in (tmp_path / ".leap/up").glob("*.log")} >= {f"{name}.log" for name in WORKERS}


def test_a_worker_that_ends_ends_all_with_a_sentence(tmp_path: Path) -> None:
    with up(tmp_path) as (running, _, addresses):
        workers = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=True)
        os.killpg(int(workers.stdout.split()[2]), signal.SIGKILL)  # broker and store are the first two
        assert running.wait(60) == 1
    assert not broker_ready(addresses["LEAP_KAFKA_BOOTSTRAP_SERVERS"])


@pytest.mark.parametrize("option", ["--broker-port", "--store-port"])
def test_a_port_that_is_taken_is_named_with_its_option(option: str, tmp_path: Path) -> None:
    ports = {"--broker-port": free_port(), "--store-port": free_port()}
    with socket.create_server(("127.0.0.1", ports[option])):
        arguments = [word for name, port in ports.items() for word in (name, str(port))]
        failed = invoke("up", *arguments, "--folder", str(tmp_path))
    assert failed.exit_code == 1
    assert failed.output == (f"port {ports[option]} is taken: stop what listens there, or name another with {option}\n")
