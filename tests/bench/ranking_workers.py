"""The same ranking under the loop and under a Faust agent, as processes: ``python -m tests.bench.ranking_workers``.

Arguments: ``loop`` or ``faust``, and every how many batches a bug is to be thrown (0: never).
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable

import faust
from faust.types import EventT

from leap.schemas.topics import SUBMITTED
from leap.streams.consumer.run import run_worker
from leap.streams.kafka.message import Message
from leap.streams.ranking.worker import BATCH_SIZE, WORKER, open_ranking, ranking_loop
from leap.streams.runtime.logs import configure
from leap.streams.runtime.settings import Settings

WITHIN_S = 0.005
RETRY_S = 0.1

Handle = Callable[[list[Message]], None]


def failing(handle: Handle, every: int) -> Handle:
    """`handle`, with a bug thrown at each `every`-th call."""
    calls = 0

    def work(batch: list[Message]) -> None:
        nonlocal calls
        calls += 1
        if every and calls % every == 0:
            raise ZeroDivisionError("a bug in the body")
        handle(batch)

    return work


def loop(settings: Settings, stop: threading.Event, fail_every: int) -> None:
    """The worker as it is, but for the bug."""
    made = ranking_loop(settings, stop)
    made._handle = failing(made._handle, fail_every)
    run_worker(made, settings)


def agent(settings: Settings, stop: threading.Event, fail_every: int) -> None:
    """The best agent that we know: its body never raises, and work and flush run beside the event loop."""
    ranking, producer = open_ranking(settings, stop)
    handle = failing(ranking.handle, fail_every)
    app = faust.App(
        settings.topic(WORKER),
        broker=f"kafka://{settings.bootstrap_servers}",
        store="memory://",
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=6.0,
        broker_heartbeat_interval=2.0,
        broker_commit_interval=0.2,
        stream_wait_empty=True,
        topic_allow_declare=False,
        topic_disable_leader=True,
    )
    submitted = app.topic(settings.topic(SUBMITTED), key_serializer="raw", value_serializer="raw")

    def work(batch: list[Message]) -> None:
        handle(batch)
        producer.flush()

    @app.agent(submitted)
    async def rank(stream: faust.StreamT[bytes]) -> None:
        assert isinstance(stream, faust.Stream)
        async for events in stream.take_events(BATCH_SIZE, within=WITHIN_S):
            batch = [message_of(event) for event in events]
            while True:
                try:
                    await asyncio.to_thread(work, batch)
                    break
                except Exception as error:
                    print(f"batch tried again: {error!r}", file=sys.stderr)
                    await asyncio.sleep(RETRY_S)

    faust.Worker(app, loglevel="WARN").execute_from_commandline()


def message_of(event: EventT[bytes]) -> Message:
    """The message of an event, as the loop would give it."""
    raw = event.message
    return Message(raw.topic, "", raw.partition, raw.offset, raw.key, raw.value, int(1000 * raw.timestamp))


if __name__ == "__main__":
    configure()
    stopping = threading.Event()
    {"loop": loop, "faust": agent}[sys.argv[1]](Settings.from_environment(os.environ), stopping, int(sys.argv[2]))
    stopping.set()
