"""``leap up``: broker, store and all workers for a first look, on this machine and in memory."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.error import URLError
from urllib.request import urlopen

import typer

from leap.predictor.cli.errors import fail
from leap.schemas.distribution import install_command
from leap.schemas.topics import load_topics
from leap.streams.embedded import Pair, ServiceError, child, embedded_pair, free_port, is_free
from leap.streams.runtime.settings import VARIABLES, Settings

Port = partial(typer.Option, min=1, max=2**16 - 1)
WORKERS = ("history", "joiner", "ranking", "monitor")
READY_S = 60.0
WATCH_S = 1.0


def up(
    broker_port: Annotated[int, Port(help="TCP port of the broker; the default of every command.")] = 9092,
    store_port: Annotated[int, Port(help="TCP port of the store; the default of every command.")] = 6379,
    services_only: Annotated[bool, typer.Option("--services-only", help="Broker and store, without workers.")] = False,
    folder: Annotated[Path, typer.Option(help="Where their logs go.")] = Path(".leap/up"),
) -> None:
    """Run broker, store and all workers on this machine until interrupted; all in memory: not for production.

    Example:
      leap up
    """
    from leap.streams.kafka.topic_admin import ensure_topics

    for option, port in (("--broker-port", broker_port), ("--store-port", store_port)):
        if not is_free(port):
            raise fail(f"port {port} is taken: stop what listens there, or name another with {option}")
    stop, begun = threading.Event(), time.monotonic()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with ExitStack() as running:
            pair = running.enter_context(embedded_pair(folder, broker_port, store_port))
            settings = Settings.from_environment({**os.environ, **pair.environment()})
            ensure_topics(settings, load_topics().values())
            workers = () if services_only else WORKERS
            ports = {name: free_port() for name in workers}
            groups = {name: running.enter_context(_worker(name, settings, ports[name], folder)) for name in workers}
            _await_ready(ports, groups, folder, stop)
            if not stop.is_set():
                print(f"ready in {time.monotonic() - begun:.0f} s: {', '.join(('broker', 'store', *workers))}")
                print(_hints(pair, ports, folder), flush=True)
            while not stop.wait(WATCH_S):
                _assert_running(groups, folder)
    except ServiceError as error:
        raise fail(str(error)) from None
    except ModuleNotFoundError as error:
        raise fail(f"{error}\n{install_command('embedded')}") from None


@contextmanager
def _worker(name: str, settings: Settings, port: int, folder: Path) -> Iterator[int]:
    """Run a worker until the block ends, ready or not; yields its process group."""
    command = [sys.executable, "-m", "leap", "worker", name]
    environment = settings.to_environment() | {"LEAP_METRICS_PORT": str(port)}
    with child(command, folder / f"{name}.log", lambda: True, environment) as group:
        yield group


def _await_ready(ports: Mapping[str, int], groups: Mapping[str, int], folder: Path, stop: threading.Event) -> None:
    """Wait until every worker says that it is ready, or until `stop`."""
    waiting, due = set(ports), time.monotonic() + READY_S
    while waiting and not stop.wait(0.1):
        waiting = {name for name in waiting if not _is_ready(ports[name])}
        _assert_running(groups, folder)
        if waiting and time.monotonic() > due:
            raise fail(f"{', '.join(waiting)}: not ready after {READY_S:.0f} s; see the logs in {folder}")


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _assert_running(groups: Mapping[str, int], folder: Path) -> None:
    """End with a sentence if a worker has ended; its status is left to whoever waits for it."""
    for name, group in groups.items():
        if os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise fail(f"the {name} worker has ended, so all do; {folder / name}.log says why")


def _hints(pair: Pair, ports: Mapping[str, int], folder: Path) -> str:
    """Where things are, and how to stop."""
    lines = [f"their logs are in {folder}"]
    if ports:
        lines.append(f"the live monitor is at http://127.0.0.1:{ports['monitor']}/")
    addresses = {name: pair.environment()[name] for name in ("LEAP_KAFKA_BOOTSTRAP_SERVERS", "LEAP_REDIS_URL")}
    others = addresses.items() - {variable[:2] for variable in VARIABLES}
    lines += [f"for other commands: export {name}={address}" for name, address in sorted(others)]
    return "\n".join(["  " + line for line in lines] + ["Ctrl-C stops all of them; they forget all when they end"])
