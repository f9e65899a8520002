"""What docker-compose.yml and the Dockerfile say, and its services started from that on this machine."""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leap.streams.embedded import broker_ready, child, free_port, store_ready
from tests.services import JARS, JAVA, ROOT

COMPOSE = Path(sys.executable).with_name("docker-compose")
DOCKERFILE = ROOT / "Dockerfile"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"  # the image's own

Service = Mapping[str, Any]


@functools.cache
def services(*profiles: str) -> dict[str, Service]:
    """Services as Docker Compose understands them, of these profiles and of none."""
    chosen = [option for name in profiles for option in ("--profile", name)]
    command = [str(COMPOSE), "-f", str(ROOT / "docker-compose.yml"), *chosen, "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Service] = json.loads(done.stdout)["services"]
    return found


@functools.cache
def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, in order."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]


def health_check() -> list[str]:
    """Command of the image's health check."""
    [found] = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
    command: list[str] = json.loads(found.partition("CMD ")[2])
    return command


def image_environment() -> dict[str, str]:
    """Variables that the image sets."""
    return dict(pair.split("=", 1) for name, rest in instructions() if name == "ENV" for pair in rest.split())


@contextmanager
def kafka(directory: Path, port: int, advertised: int, host: int) -> Iterator[str]:
    """Run Apache Kafka configured as in the service ``kafka``, with addresses of this machine.

    Parameters
    ----------
    port
        Where it listens.
    advertised
        Where it says that it listens: a proxy may stand there.
    host
        Where it listens for clients outside of Compose.

    Yields
    ------
    str
        Its bootstrap servers.
    """
    here = {
        "PLAINTEXT://:9092": f"PLAINTEXT://127.0.0.1:{port}",
        "PLAINTEXT://kafka:9092": f"PLAINTEXT://127.0.0.1:{advertised}",
        "HOST://:29092": f"HOST://127.0.0.1:{host}",
        "HOST://127.0.0.1:9092": f"HOST://127.0.0.1:{host}",
        "CONTROLLER://:9093": f"CONTROLLER://127.0.0.1:{(controller := free_port())}",
        "kafka:9093": f"127.0.0.1:{controller}",
        "/var/lib/kafka/data": str(directory / "data"),
    }
    given = services()["kafka"]["environment"]
    lines = [f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={value}" for name, value in given.items()]
    directory.mkdir(parents=True)
    properties = directory / "server.properties"
    properties.write_text(replaced("\n".join(lines), here))
    java = ["java", *JAVA, "-cp", f"{JARS}/*"]
    storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
    subprocess.run([*java, *storage], capture_output=True, check=True)
    address = f"127.0.0.1:{port}"
    command = [*java, "kafka.Kafka", str(properties)]
    with child(command, directory / "kafka.log", lambda: broker_ready(address), deadline_s=90):
        yield address


@contextmanager
def redis(directory: Path) -> Iterator[str]:
    """Run Redis by the command of the service ``redis``, on a free port and in its own directory."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [*services()["redis"]["command"], "--port", str(port), "--dir", str(directory)]
    url = f"redis://127.0.0.1:{port}/0"
    with child(command, directory / "redis.log", lambda: store_ready(url)):
        yield url


def environment(service: Service, kafka_address: str, redis_url: str, folder: Path, port: int) -> dict[str, str]:
    """Variables of a service of Leap, with addresses of this machine and its volume at `folder`."""
    here = {"kafka:9092": kafka_address, "redis://redis:6379/0": redis_url}
    given = image_environment() | {name: replaced(text, here) for name, text in service["environment"].items()}
    volume = {name: str(folder / name.removeprefix("LEAP_").lower()) for name in ("LEAP_ARTIFACTS", "LEAP_PARTITIONS")}
    return volume | given | {"LEAP_METRICS_PORT": str(port)}


def healthy(port: int) -> bool:
    """Tell whether the image's health check passes for a service whose metrics port is another."""
    _, *arguments = health_check()
    command = [sys.executable, *(argument.replace(":8000/", f":{port}/") for argument in arguments)]
    return subprocess.run(command, capture_output=True, env=os.environ, check=False).returncode == 0


def replaced(text: str, by: Mapping[str, str]) -> str:
    """`text` with every key replaced by its value, longer keys first."""
    for old in sorted(by, key=len, reverse=True):
        text = text.replace(old, by[old])
    return text
