import signal
import subprocess
import sys

import pytest

from schemas.topics import COMPLETED
from streams.kafka import CheckedProducer
from streams.settings import Settings

WORKER = """
import os, sys, time
import structlog
from streams.consume import BatchLoop
from streams.progress import Progress
from streams.settings import Settings
import streams.consume, streams.worker

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
streams.worker.STOP_S = 1.0
streams.consume.LAST_RETRY_S = 0.1  # shorter than what counts as stuck, as in life
settings = Settings.from_environment(os.environ)

def handle(batch):
    print("batch", flush=True)
    if "hang" in sys.argv:
        time.sleep(60)
    if "fail" in sys.argv:
        raise ConnectionError("the store is away")

progress = Progress(stall_s=1.0 if "stuck" in sys.argv else 60.0)
loop = BatchLoop(settings, "w", [settings.topic("job-completed")], handle, progress=progress)
print(streams.worker.run_worker(loop, settings))
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


def test_sigterm_ends_a_worker_that_hangs(topics: Settings) -> None:
    assert stopped(topics, "hang") == ("False", 0)


@pytest.mark.parametrize("how", ["hang", "fail"])
def test_a_worker_that_is_stuck_ends_with_an_error(topics: Settings, how: str) -> None:
    producer = CheckedProducer(topics)
    producer.produce(topics.topic(COMPLETED), b"x")
    producer.flush()
    environment = topics.to_environment() | {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", WORKER, how, "stuck"]
    worker = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert worker.returncode == 1
    assert "StuckError: w: no progress before the end of" in worker.stderr
