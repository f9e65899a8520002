"""``leap worker``: one process of a consumer group. Start as many as there are partitions to share."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from schemas.topics import load_topics
from streams.settings import Settings
from streams.topics_cli import read_settings

if TYPE_CHECKING:
    from streams.consume import BatchLoop

app = typer.Typer(no_args_is_help=True, help="Run one worker of a consumer group until SIGTERM.")


def _run(make: "Callable[[Settings], BatchLoop]") -> None:
    from streams.logs import configure
    from streams.topics import TopicError, assert_topics
    from streams.worker import run_worker

    configure()
    settings = read_settings()
    try:
        assert_topics(settings, load_topics().values())
        ended = run_worker(make(settings), settings)
    except TopicError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
    if not ended:
        raise typer.Exit(1)


@app.command()
def history() -> None:
    """Keep the running statistics in Redis."""
    from streams.history import history_loop

    _run(history_loop)


@app.command()
def joiner() -> None:
    """Join submissions, allocations, completions and preference lists into attempts."""
    from streams.joiner import joiner_loop

    _run(joiner_loop)


@app.command()
def ranking() -> None:
    """Answer each submission with a preference list."""
    from streams.ranking import ranking_loop

    stop = threading.Event()
    _run(lambda settings: ranking_loop(settings, stop))
    stop.set()


@app.command()
def monitor() -> None:
    """Keep the figures of the last day: a page, JSON and metrics on LEAP_METRICS_PORT. One process, not several."""
    from streams.logs import configure
    from streams.monitor_app import run_monitor
    from streams.topics import TopicError, assert_topics

    configure()
    settings = read_settings()
    try:
        assert_topics(settings, load_topics().values())
        run_monitor(settings)
    except TopicError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
