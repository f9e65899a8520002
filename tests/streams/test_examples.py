"""The examples run as they stand: a Python launcher, and a stock command-line client."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leap.schemas.codec import decode
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED, load_topics
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings
from tests.services import JARS, ROOT

EXAMPLES = {topic: ROOT / f"schemas/examples/{topic}/v1/full.json" for topic in (SUBMITTED, ALLOCATED, COMPLETED)}


def run(command: list[str], environment: dict[str, str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_launcher(topics: Settings) -> None:
    out = run([sys.executable, str(ROOT / "examples/launch.py")], topics.to_environment())
    assert out == "no opinion (deadline exceeded): A100-SXM-80GB\n3 events delivered, 0 lost\n"
    (submitted,) = read_range(topics, topics.topic(SUBMITTED), None, None)
    (allocated,) = read_range(topics, topics.topic(ALLOCATED), None, None)
    (completed,) = read_range(topics, topics.topic(COMPLETED), None, None)
    assert (
        decode(submitted.value, JobSubmitted).attempt_id
        == decode(allocated.value, JobAllocated).attempt_id
        == decode(completed.value, JobCompleted).attempt_id
    )


def client(folder: Path, name: str, script: str) -> dict[str, str]:
    """A PATH on which `name` is this script and the other client is not."""
    for tool in ("sh", "tr", "cat", "java"):
        if path := shutil.which(tool):
            (folder / tool).symlink_to(path)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kcat", "-P -b broker:1 -t x-{} -K \\t -X enable.idempotence=true"),
        ("kafka-console-producer.sh", "--bootstrap-server broker:1 --topic x-{} --property parse.key=true"),
    ],
)
def test_shell_gives_either_client_one_message(tmp_path: Path, name: str, options: str) -> None:
    environment = client(tmp_path, name, 'printf "%s\\n" "$*"; exec cat')
    environment |= {"LEAP_KAFKA_BOOTSTRAP_SERVERS": "broker:1", "LEAP_TOPIC_PREFIX": "x-"}
    for topic, example in EXAMPLES.items():
        out = run([str(ROOT / "examples/send.sh"), topic, "a-1", str(example)], environment)
        arguments, line = out.removesuffix("\n").split("\n")
        key, value = line.split("\t", 1)
        assert (arguments, key) == (options.format(topic), "a-1")
        event_type = load_topics()[topic].event_type
        assert decode(value.encode(), event_type) == decode(example.read_bytes(), event_type)


@pytest.mark.real("Kafka's own producer comes with it")
def test_stock_client_sends_what_a_worker_takes(topics: Settings, tmp_path: Path) -> None:
    java = f'exec java -cp "{JARS}/*" org.apache.kafka.tools.ConsoleProducer "$@"'
    environment = client(tmp_path, "kafka-console-producer.sh", java) | topics.to_environment()
    for topic, example in EXAMPLES.items():
        run([str(ROOT / "examples/send.sh"), topic, "a-1", str(example)], environment)
        (message,) = read_range(topics, topics.topic(topic), None, None)
        event_type = load_topics()[topic].event_type
        assert message.key == b"a-1"
        assert decode(message.value, event_type) == decode(example.read_bytes(), event_type)
