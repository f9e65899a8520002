"""``leap worker``: one process of a consumer group. Start as many as there are partitions to share."""

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
import typer

from predictor.errors_cli import fail
from streams.settings import Settings
from streams.topics_cli import read_settings

if TYPE_CHECKING:
    from streams.consume import BatchLoop

log = structlog.get_logger(__name__)
app = typer.Typer(no_args_is_help=True, help="Run one worker of a consumer group until SIGTERM.")


def _assert_topics(settings: Settings, role: str) -> None:
    from streams.rights import topics_of
    from streams.topics import assert_topics

    for grown in assert_topics(settings, topics_of(role)):
        log.warning("more partitions than declared", worker=role, topic=grown)


def _run(role: str, make: "Callable[[Settings], BatchLoop]") -> None:
    from streams.logs import configure
    from streams.redis_client import client_of
    from streams.worker import run_worker

    settings = read_settings({})
    configure(settings.log_level)
    try:
        client_of(settings.redis_url)  # or whoever can do without the store would wait for it for ever
        _assert_topics(settings, role)
        loop = make(settings)
    except ValueError as error:  # a setting that cannot be used
        raise fail(str(error)) from None
    if not run_worker(loop, settings):
        os._exit(1)  # an orderly end takes 0.6 s of computing, for which a busy machine needed 14 s (measured)


@app.command()
def history() -> None:
    """Keep the running statistics in Redis."""
    from streams.history import history_loop

    _run("history", history_loop)


@app.command()
def joiner() -> None:
    """Join submissions, allocations, completions and preference lists into attempts."""
    from streams.joiner import joiner_loop

    _run("joiner", joiner_loop)


@app.command()
def ranking() -> None:
    """Answer each submission with a preference list."""
    from streams.ranking import ranking_loop

    stop = threading.Event()
    _run("ranking", lambda settings: ranking_loop(settings, stop))
    stop.set()


@app.command()
def monitor() -> None:
    """Keep the figures of the last day: a page, JSON and metrics on LEAP_METRICS_PORT. One process, not several."""
    from streams.logs import configure
    from streams.monitor_app import run_monitor

    settings = read_settings({})
    configure(settings.log_level)
    _assert_topics(settings, "monitor")
    run_monitor(settings)
