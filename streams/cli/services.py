"""``leap services``: a broker and a store for a first look, on this machine and in memory."""

import signal
import threading
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leap.predictor.cli.errors import fail
from leap.schemas.distribution import install_command
from leap.streams.embedded import ServiceError, embedded_pair, is_taken

Port = partial(typer.Option, min=1, max=2**16 - 1)


def services(
    broker_port: Annotated[int, Port(help="TCP port of the broker; the default of every command.")] = 9092,
    store_port: Annotated[int, Port(help="TCP port of the store; the default of every command.")] = 6379,
    folder: Annotated[Path, typer.Option(help="Where their logs go.")] = Path(".leap/services"),
) -> None:
    """Run a small broker and store until interrupted. They keep all in memory: not for production.

    Example:
      leap services
    """
    for option, port in (("--broker-port", broker_port), ("--store-port", store_port)):
        if is_taken(port):
            raise fail(f"port {port} is taken; stop what listens there, or name another with {option}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with embedded_pair(folder, broker_port, store_port) as pair:
            print(f"broker {pair.bootstrap_servers}, store {pair.redis_url}; they forget all when they end", flush=True)
            stop.wait()
    except (ServiceError, ModuleNotFoundError) as error:
        hint = f"\n{install_command('embedded')}" if isinstance(error, ModuleNotFoundError) else ""
        raise fail(f"{error}{hint}") from None
