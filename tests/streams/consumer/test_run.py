import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from leap.schemas.codec import encode
from leap.schemas.topics import COMPLETED, load_topics
from leap.streams.embedded import embedded_pair, free_port
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.runtime.settings import Settings
from tests.proxy import Proxy
from tests.streams.history.test_worker import completed, send

WORKER = """
import os, sys, time
import structlog
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.runtime.liveness import Progress
from leap.streams.runtime.settings import Settings
import leap.streams.consumer.batch_loop, leap.streams.consumer.run

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
if "hang" in sys.argv:  # the others end in their own time
    leap.streams.consumer.run.STOP_S = 1.0
leap.streams.consumer.batch_loop.LAST_RETRY_S = 0.1  # shorter than what counts as stuck, as in life
settings = Settings.from_environment(os.environ)

def handle(batch):
    print("batch", flush=True)
    if "stuck" in sys.argv:  # not before: to come into the group takes as long as it takes
        progress._stall_s = 3.0
    if "back" in sys.argv:  # first ahead, where all goes on
        then = time.time()
        for seconds in (7200, 7195, 7100):
            time.time = lambda: then + seconds
            time.sleep(0.5)
            print(seconds, flush=True)
    if "hang" in sys.argv:
        time.sleep(60)
    if "fail" in sys.argv:
        raise ConnectionError("the store is away")

progress = Progress(stall_s=60.0)
loop = BatchLoop(settings, "w", [settings.topic("job-completed")], handle, progress=progress)
print(leap.streams.consumer.run.run_worker(loop, settings))
"""


def stopped(settings: Settings, *arguments: str) -> tuple[str, int]:
    """Run a worker until it has a batch, send SIGTERM, and give its last line and exit status."""
    producer = CheckedProducer(settings)
    producer.produce(settings.topic(COMPLETED), b"x")
    producer.flush()
    environment = settings.to_environment() | {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", WORKER, *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "batch\n"
        worker.send_signal(signal.SIGTERM)
        rest, _ = worker.communicate()
    return rest.splitlines()[-1], worker.returncode


def test_sigterm_ends_a_worker(topics: Settings) -> None:
    assert stopped(topics) == ("True", 0)


def test_sigterm_ends_a_worker_whose_batch_fails(topics: Settings) -> None:
    assert stopped(topics, "fail") == ("True", 0)


def test_sigterm_ends_a_hanging_worker(topics: Settings) -> None:
    assert stopped(topics, "hang") == ("False", 0)


def ended(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a worker that has a batch until it ends by itself."""
    producer = CheckedProducer(settings)
    producer.produce(settings.topic(COMPLETED), b"x")
    producer.flush()
    environment = settings.to_environment() | {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", WORKER, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("how", ["hang", "fail"])
def test_stuck_worker_exits_with_an_error(topics: Settings, how: str) -> None:
    worker = ended(topics, how, "stuck")
    assert worker.returncode == 1
    assert "StuckError: w: no progress on" in worker.stderr


def test_worker_exits_when_the_clock_goes_back(topics: Settings) -> None:
    worker = ended(topics, "back", "hang")
    assert worker.returncode == 1
    assert worker.stdout.split()[:3] == ["batch", "7200", "7195"], "ahead, and back by less than 10 s"
    assert "StuckError: w: the clock went back by" in worker.stderr


@pytest.mark.parametrize("broker", ["up", "killed"])
def test_worker_exits_within_10_s_of_sigterm(settings: Settings, tmp_path: Path, broker: str) -> None:
    """With a batch in hand that the store does not answer: nothing takes longer."""
    host, port = settings.redis_url.removeprefix("redis://").removesuffix("/0").split(":")
    with Proxy(host, int(port)) as proxy, ExitStack() as pair, (tmp_path / "log").open("w") as log:
        own = pair.enter_context(embedded_pair(tmp_path / "own")).environment()
        settings = replace(settings, kafka=Settings.from_environment(own).kafka, metrics_port=free_port())
        ensure_topics(settings, load_topics().values())
        environment = settings.to_environment() | {"LEAP_REDIS_URL": f"redis://127.0.0.1:{proxy.port}/0"}
        environment |= {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-m", "leap", "worker", "history"]
        worker = subprocess.Popen(command, env=environment, stderr=log)
        try:
            until(lambda: "partitions assigned" in (tmp_path / "log").read_text())
            proxy.delay_s = 60.0
            send(settings, [encode(completed(number, random.Random(number))) for number in range(100)])
            until(lambda: in_hand(settings.metrics_port))
            if broker == "killed":
                pair.close()
            begun = time.monotonic()
            worker.send_signal(signal.SIGTERM)
            status = worker.wait(60)
            took = time.monotonic() - begun
        finally:
            worker.kill()
            worker.wait()
        assert took < 10
        assert status == 1 and "stopped in the middle of a batch" in (tmp_path / "log").read_text()


def in_hand(port: int) -> bool:
    """Whether a worker says that it has a batch."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        begun = re.search(r'leap_batch_begun_timestamp_seconds{worker="history"} (.*)', answer.read().decode())
    return begun is not None and float(begun[1]) > 0


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
