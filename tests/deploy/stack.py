"""Every service of docker-compose.yml on this machine, with a proxy before broker and store, and Prometheus with the
rules as they are but for their durations."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from leap.schemas.topics import load_topics
from leap.streams.embedded import child, free_port
from leap.streams.runtime.settings import Settings
from tests.deploy import compose
from tests.proxy import Proxy
from tests.services import ROOT

#: Minutes of the rules become half seconds.
FASTER = 120
SCRAPE_S = 0.2
PATIENCE_S = 180.0
WORKERS = ("history", "joiner", "ranking", "monitor", "retrain")
SERVICES = ("topics", *WORKERS)
# A broker or store that comes back is found at once, and a member that leaves is noticed at once.
QUICK = {"LEAP_KAFKA_HEARTBEAT_INTERVAL_MS": "200", "LEAP_KAFKA_RECONNECT_BACKOFF_MAX_MS": "300"}


def faster(rules: str, times: int = FASTER) -> str:
    """Rules with every duration, and every age in seconds of three digits, divided.

    Examples
    --------
    >>> faster("rate(x[10m]) > 5\\nfor: 2m\\nage > 300 and y > 36 * 3600")
    'rate(x[5000ms]) > 5\\nfor: 1000ms\\nage > 2.5 and y > 36 * 3600'
    """
    shorter = re.sub(r"(?<=[\[ ])(\d+)m\b", lambda found: f"{int(found[1]) * 60_000 // times}ms", rules)
    return re.sub(r"(?<=> )(\d{3,})\b", lambda found: f"{int(found[1]) / times:g}", shorter)


@dataclass
class Stack:
    """A running deployment.

    Attributes
    ----------
    settings
        For the test's own clients, past the proxies.
    broker, stores
        The proxy before the broker, and that of each service before the store.
    ports
        Metrics port of each service.
    volume
        Name of the folder of artifacts and partitions; empty gives each service its own, where Compose has one for all.
    ended
        Alerts that fired by their fault and ended by its remedy.
    """

    folder: Path
    settings: Settings
    broker: Proxy
    stores: Mapping[str, Proxy]
    ports: Mapping[str, int]
    prometheus: str
    volume: str = ""
    ended: set[str] = field(default_factory=set)

    def environment(self, name: str) -> dict[str, str]:
        """Variables of a service, as the Compose file gives them."""
        redis = f"redis://127.0.0.1:{self.stores[name].port}/0"
        service = compose.services("everything")[name]
        kafka = f"127.0.0.1:{self.broker.port}"
        return compose.environment(service, kafka, redis, self.folder / (self.volume or name), self.ports[name])

    @contextmanager
    def service(self, name: str, *options: str) -> Iterator[None]:
        """Run a service's command, with shortened waits, until the block ends."""
        command = [sys.executable, "-m", "tests.deploy.quick", *compose.services("everything")[name]["command"]]
        variables = self.environment(name) | QUICK | {"PYTHONPATH": str(ROOT)}
        with child([*command, *options], self.folder / f"{name}.log", lambda: True, variables):
            yield

    @contextmanager
    def exact(self, name: str) -> Iterator[None]:
        """Run a service as the Compose file says until the block ends, once its health check passes."""
        command = [sys.executable, "-m", "leap", *compose.services("everything")[name]["command"]]
        healthy = partial(compose.healthy, self.ports[name])
        with child(command, self.folder / f"{name}.log", healthy, self.environment(name), PATIENCE_S):
            yield

    def once(self, name: str) -> str:
        """Run a service that ends as the Compose file says; returns what it printed."""
        command = [sys.executable, "-m", "leap", *compose.services("everything")[name]["command"]]
        variables = os.environ | self.environment(name)
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that Prometheus says are firing."""
        found = self._ask("alerts")["alerts"]
        return [alert for alert in found if alert["state"] == "firing"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Series of an expression now."""
        answer = self._ask("query?" + urllib.parse.urlencode({"query": expression}))
        found: list[dict[str, Any]] = answer["result"]
        return found

    def range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Series of an expression between two times."""
        question = {"query": expression, "start": start, "end": end, "step": step}
        found: list[dict[str, Any]] = self._ask("query_range?" + urllib.parse.urlencode(question))["result"]
        return found

    def fires(self, alert: str, summary: str = "") -> bool:
        """Whether an alert is firing, with this in its summary."""
        return any(
            one["labels"]["alertname"] == alert and summary in one["annotations"]["summary"] for one in self.alerts()
        )

    def fault(self, alert: str, begin: Callable[[], object], end: Callable[[], object], summary: str = "") -> None:
        """Begin a fault, wait for its alert, end the fault, and wait until the alert ends."""
        self.wait(lambda: not self.fires(alert, summary), f"{alert} before its fault")
        began = time.monotonic()
        begin()
        self.wait(lambda: self.fires(alert, summary), f"{alert} to fire")
        fired = time.monotonic()
        end()
        self.wait(lambda: not self.fires(alert, summary), f"{alert} to end")
        ended = time.monotonic()
        self.ended.add(alert)
        print(f"{alert}: fired after {fired - began:.1f} s, ended after {ended - fired:.1f} s")

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}; firing: {self.alerts()}"
            time.sleep(0.1)

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/{path}", timeout=30) as answer:
            return json.loads(answer.read())["data"]


@contextmanager
def running(folder: Path, scrape_s: float = SCRAPE_S, times: int = FASTER) -> Iterator[Stack]:
    """Run broker, store and Prometheus, with so much faster rules; topics are there, the services of Leap are not."""
    with ExitStack() as stack:
        listen, beside = free_port(), free_port()
        broker = stack.enter_context(Proxy("127.0.0.1", listen))
        stack.enter_context(compose.kafka(folder / "kafka", listen, broker.port, beside))
        redis = stack.enter_context(compose.redis(folder / "redis"))
        port = int(redis.rpartition(":")[2].partition("/")[0])
        stores = {name: stack.enter_context(Proxy("127.0.0.1", port)) for name in SERVICES}
        ports = {name: free_port() for name in SERVICES}
        settings = Settings.from_environment(
            {"LEAP_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{beside}", "LEAP_REDIS_URL": redis}
        )
        targets = [f"127.0.0.1:{ports[name]}" for name in WORKERS]
        url = stack.enter_context(prometheus(folder / "prometheus", targets, scrape_s, times))
        found = Stack(folder, settings, broker, stores, ports, url)
        assert found.once("topics").startswith(f"{len(load_topics())} created")
        yield found


@contextmanager
def prometheus(folder: Path, targets: list[str], scrape_s: float, times: int) -> Iterator[str]:
    """Run Prometheus by the command and configuration of its service, faster, for these targets; yields its URL."""
    folder.mkdir(parents=True)
    source = ROOT / "deploy" / "prometheus"
    (folder / "alerts.yml").write_text(faster((source / "alerts.yml").read_text(), times))
    config = yaml.safe_load((source / "prometheus.yml").read_text())
    config["global"] = dict.fromkeys(("scrape_interval", "evaluation_interval"), f"{scrape_s * 1000:.0f}ms")
    config["global"]["scrape_timeout"] = config["global"]["scrape_interval"]
    [job] = config["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": targets}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    here = {"/etc/prometheus": str(folder), "=/prometheus": f"={folder}/data"}
    options = [compose.replaced(option, here) for option in compose.services("everything")["prometheus"]["command"]]
    command = ["prometheus", *options, f"--web.listen-address={address}"]

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    with child(command, folder / "prometheus.log", ready):
        yield f"http://{address}"
