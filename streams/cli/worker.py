"""``leap worker``: one process of a consumer group. Start as many as there are partitions to share."""

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
import typer

from leap.streams.cli.common import read_settings
from leap.streams.runtime.settings import Settings

if TYPE_CHECKING:
    from leap.streams.consumer.batch_loop import BatchLoop

log = structlog.get_logger(__name__)
app = typer.Typer(no_args_is_help=True, help="Run one worker of a consumer group until SIGTERM.")


def _assert_topics(settings: Settings, role: str) -> None:
    from leap.streams.kafka.topic_admin import assert_topics
    from leap.streams.runtime.acl import topics_of

    for grown in assert_topics(settings, topics_of(role)):
        log.warning("more partitions than declared", worker=role, topic=grown)


def _run(role: str, make: "Callable[[Settings], BatchLoop]") -> None:
    from leap.streams.consumer.run import run_worker
    from leap.streams.redis_store.client import client_of
    from leap.streams.runtime.logs import configure

    settings = read_settings()
    configure(settings.log_level)
    client_of(settings.redis_url)  # or whoever can do without the store would wait for it for ever
    _assert_topics(settings, role)
    loop = make(settings)
    if not run_worker(loop, settings):
        os._exit(1)  # an orderly end takes 0.6 s of computing, for which a busy machine needed 14 s (measured)


@app.command()
def history() -> None:
    """Keep the running statistics in Redis.

    Example:
      leap worker history
    """
    from leap.streams.history.worker import history_loop

    _run("history", history_loop)


@app.command()
def joiner() -> None:
    """Join submissions, allocations, completions and preference lists into attempts.

    Example:
      leap worker joiner
    """
    from leap.streams.joining.worker import joiner_loop

    _run("joiner", joiner_loop)


@app.command()
def ranking() -> None:
    """Answer each submission with a preference list.

    Example:
      LEAP_METRICS_PORT=9100 leap worker ranking
    """
    from leap.streams.ranking.worker import ranking_loop

    stop = threading.Event()
    _run("ranking", lambda settings: ranking_loop(settings, stop))
    stop.set()


@app.command()
def monitor() -> None:
    """Keep the figures of the last day: a page, JSON and metrics on LEAP_METRICS_PORT. One process, not several.

    Example:
      LEAP_METRICS_PORT=9103 leap worker monitor
    """
    from leap.streams.monitor.app import run_monitor
    from leap.streams.runtime.logs import configure

    settings = read_settings()
    configure(settings.log_level)
    _assert_topics(settings, "monitor")
    run_monitor(settings)
