"""The ranking worker under the loop and under Faust, on Apache Kafka: ``python -m tests.bench.ranking_table``.

Prints the table of docs/ranking.md; a quarter of an hour.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from leap.retrainer.bench.model import Trained, train
from leap.streams.bench.ranking import RATE, WARM_UP_S, Lists, bench, fresh_topics, send
from leap.streams.embedded import child, free_port
from leap.streams.runtime.settings import Settings
from tests.services import real_kafka, real_redis

SECONDS = 24.0
EVENT_S = 8.0
PATIENCE_S = 90.0
FAIL_EVERY = 50


@dataclass
class Scene:
    """A worker at work on a broker that can be restarted."""

    settings: Settings
    folder: Path
    kind: str
    kafka: ExitStack
    stack: ExitStack

    def start(self, fail_every: int = 0) -> int:
        """Start a worker; returns its process group."""
        return self.stack.enter_context(self.worker(fail_every))

    @contextmanager
    def worker(self, fail_every: int = 0) -> Iterator[int]:
        """A worker until the block ends."""
        log = self.folder / f"{self.kind}.log"
        with child(command(self.kind, fail_every), log, lambda: True, self.settings.to_environment()) as group:
            yield group


def command(kind: str, fail_every: int = 0) -> list[str]:
    """How a worker is started."""
    return [sys.executable, "-m", "tests.bench.ranking_workers", kind, str(fail_every)]


def killed(scene: Scene, group: int) -> None:
    """Kill the worker and start another."""
    os.killpg(group, signal.SIGKILL)
    scene.start()


def joined(scene: Scene, group: int) -> None:
    """A second worker comes and goes."""
    with scene.worker():
        time.sleep(EVENT_S)


def restarted(scene: Scene, group: int) -> None:
    """The broker goes and comes back, on the same port with the same data."""
    scene.kafka.close()
    port = int(scene.settings.bootstrap_servers.rpartition(":")[2])
    scene.kafka.enter_context(real_kafka(scene.folder / "kafka", port))


def nothing(scene: Scene, group: int) -> None:
    """No event: the bug is in the worker."""


EVENTS: dict[str, Callable[[Scene, int], None]] = {
    "kill -9": killed,
    "second worker joins and leaves": joined,
    "exception in every 50th batch": nothing,
    "broker restart": restarted,
}


def disturb(
    settings: Settings, trained: Trained, folder: Path, kind: str, kafka: ExitStack, event: str
) -> tuple[int, int, float]:
    """Send 100 a second while something happens; returns lost, repeated, and the longest wait in seconds."""
    with fresh_topics(settings) as fresh, ExitStack() as stack:
        lists = Lists(fresh)
        scene = Scene(fresh, folder, kind, kafka, stack)
        group = scene.start(FAIL_EVERY if "exception" in event else 0)
        timer = threading.Timer(WARM_UP_S + EVENT_S, EVENTS[event], (scene, group))
        timer.start()
        sent = send(fresh, trained.submissions, 0, int((WARM_UP_S + SECONDS) * RATE), RATE)
        timer.join()
        missing = lists.wait(list(sent), PATIENCE_S)
        time.sleep(2.0)
        lists.close()
    repeated = sum(len(times) - 1 for times in lists.received.values())
    waits = [lists.received[attempt][0] - at for attempt, at in sent.items() if attempt in lists.received]
    return len(missing), repeated, max(waits[int(WARM_UP_S * RATE) :])


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        trained = train("boosted", folder / "artifacts")
        kafka = stack.enter_context(ExitStack())
        port = free_port()
        broker = kafka.enter_context(real_kafka(folder / "kafka", port))
        redis_url = stack.enter_context(real_redis(folder / "redis"))
        environment = {"LEAP_KAFKA_BOOTSTRAP_SERVERS": broker, "LEAP_REDIS_URL": redis_url}
        settings = replace(Settings.from_environment(environment), artifacts=str(folder / "artifacts"))
        for kind in ("loop", "faust"):
            found = bench(settings, trained.submissions, command(kind), folder)
            print(f"{kind}: {found}", flush=True)
        for event in EVENTS:
            for kind in ("loop", "faust"):
                lost, repeated, wait = disturb(settings, trained, folder, kind, kafka, event)
                print(f"{event} | {kind} | lost {lost} | repeated {repeated} | longest wait {wait:.1f} s", flush=True)


if __name__ == "__main__":
    main()
