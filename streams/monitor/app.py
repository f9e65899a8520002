"""The live monitor as a Faust app: preference lists, allocations and completions in, figures out.

One process reads all partitions: lists are keyed by attempt and completions by family, so a part of them would
not meet. What it knows is in memory only. At the start the last week is read by
:mod:`leap.streams.kafka.range_reader`; what Faust then delivers again changes nothing, so neither its commits nor
a kill -9 can make a figure wrong. (Faust's client
reads compressed batches only where the package cramjam is installed, and crashes on them otherwise.)
"""

import asyncio
import math
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib import resources
from signal import SIGINT, SIGTERM

import faust
import msgspec
import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
from faust.types import TP

from leap.schemas.codec import Rejected, decode
from leap.schemas.events import JobAllocated, JobCompleted, PreferenceList
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES
from leap.streams.kafka.clients import MAX_REQUEST_BYTES, consumer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.monitor.aggregates import WAIT_S, Figures, Monitor, Part
from leap.streams.runtime import metrics
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.liveness import Progress
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

WORKER = "monitor"
#: Figures of 25,000 attempts take 0.2 s of a processor (measured).
REFRESH_S = 5.0
#: Refreshes between two looks at where partitions end.
POSITIONS_EVERY = 2
POSITIONS_TIMEOUT_S = 1.0
STOP_S = 10.0
TYPES: dict[str, type[Part]] = {PREFERENCES: PreferenceList, ALLOCATED: JobAllocated, COMPLETED: JobCompleted}


class MemoryApp(faust.App):
    """An app that keeps nothing on disk; Faust would make folders in the working directory all the same."""

    def _create_directories(self) -> None:
        pass


class LiveMonitor:
    """One monitor and what is told of it.

    Parameters
    ----------
    settings
        Where the broker is; the topics must exist.
    """

    def __init__(self, settings: Settings, monitor: Monitor | None = None) -> None:
        self.progress = Progress()
        self._settings = settings
        self._monitor = Monitor() if monitor is None else monitor  # an empty one is false
        self._types = {settings.topic(name): event_type for name, event_type in TYPES.items()}
        self._lock = threading.Lock()
        self._latest: tuple[float, Figures] | None = None
        self._page = resources.files("leap.streams.monitor").joinpath("page.html").read_bytes()

    def take(self, topic: str, value: bytes | None) -> None:
        """Take one message. Never raises: a message that is no event is counted and passed over."""
        try:
            event = decode(value, self._types[topic])
            with self._lock:
                self._monitor.add(event)
        except Exception as error:
            metrics.LIVE_REJECTED.labels(topic).inc()
            if not isinstance(error, Rejected):
                log.exception("message not taken", topic=topic)

    def figures(self) -> Figures:
        """The figures of now, also as metrics."""
        with self._lock:
            figures = self._monitor.figures()
        export_metrics(figures)
        self._latest = (time.monotonic(), figures)
        return figures

    def latest(self) -> Figures:
        """The figures of some seconds ago, however many ask."""
        if self._latest is None or time.monotonic() - self._latest[0] > 2 * REFRESH_S:
            return self.figures()
        return self._latest[1]

    def warm_up(self, now: datetime) -> int:
        """Read what the topics hold of the last week; returns how many messages."""
        count = 0
        for topic in self._types:
            for message in read_range(self._settings, topic, now - timedelta(seconds=WAIT_S)):
                self.take(topic, message.value)
                count += 1
        return count

    def pages(self) -> dict[str, tuple[str, bytes]]:
        """What is served beside metrics and health."""
        return {
            "/": ("text/html; charset=utf-8", self._page),
            "/figures": ("application/json", msgspec.json.encode(self.latest())),
        }

    def app(self) -> faust.App:
        """The Faust app, to be started in a running event loop."""
        app = MemoryApp(
            self._settings.topic(WORKER),
            broker=[f"kafka://{server}" for server in self._settings.bootstrap_servers.split(",")],
            broker_credentials=credentials(self._settings.kafka),
            broker_session_timeout=float(self._settings.kafka.get("session.timeout.ms", 6000)) / 1000,
            broker_heartbeat_interval=float(self._settings.kafka.get("heartbeat.interval.ms", 2000)) / 1000,
            consumer_auto_offset_reset="earliest",
            consumer_max_fetch_size=MAX_REQUEST_BYTES,
            store="memory://",
            stream_wait_empty=True,  # or a rebalance loses what an agent has in hand
            topic_allow_declare=False,  # topics are created as declared, by leap topics
            topic_disable_leader=True,
            web_enabled=False,
            autodiscover=False,
        )
        topic = app.topic(*self._types, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

        async def follow(stream: faust.StreamT[bytes]) -> None:
            async for event in stream.events():
                self.take(event.message.topic, event.message.value)

        app.agent(topic, name="monitor.follow")(follow)

        async def assigned(_: object, /, *groups: set[TP], signal: object, **rest: object) -> None:
            self.progress.assigned((partition.topic, partition.partition) for group in groups for partition in group)

        app.on_partitions_assigned.connect(assigned)
        return app

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the topics until `stop`."""
        app = self.app()
        asker = Consumer(consumer_config(self._settings, WORKER))
        await app.start()
        try:
            while not stop.is_set():
                await self._update_lag(app, asker)
                for _ in range(POSITIONS_EVERY):
                    await asyncio.to_thread(self.figures)
                    await _wait(stop, REFRESH_S)
        finally:
            asker.close()
            await asyncio.wait_for(app.stop(), STOP_S)

    async def _update_lag(self, app: faust.App, asker: Consumer) -> None:
        """Compare positions with the ends, which a client apart from Faust is asked for: Faust may cease to fetch."""
        partitions = sorted(app.consumer.assignment())
        self.progress.reached(
            {
                (partition.topic, partition.partition): await app.consumer.position(partition) or 0
                for partition in partitions
            }
        )
        question = [TopicPartition(*partition, OFFSET_END) for partition in partitions]
        try:
            ends = await asyncio.to_thread(asker.offsets_for_times, question, POSITIONS_TIMEOUT_S) if question else []
        except KafkaException as error:
            log.warning("ends of partitions unknown", worker=WORKER, error=str(error))
            return
        metrics.BROKER_ANSWERED.labels(WORKER).set_to_current_time()
        self.progress.ends({(partition.topic, partition.partition): partition.offset for partition in ends})
        for (topic, partition), lag in self.progress.lag().items():
            metrics.LAG.labels(WORKER, topic, str(partition)).set(lag)


def run_monitor(settings: Settings) -> None:
    """Warm up and follow until SIGTERM or SIGINT, with page, metrics and health on the metrics port."""
    live = LiveMonitor(settings)
    began = time.monotonic()
    count = live.warm_up(datetime.now(UTC))
    log.info("warm", messages=count, seconds=round(time.monotonic() - began, 1))

    async def main() -> None:
        stop = asyncio.Event()
        for number in (SIGTERM, SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await live.run(stop)

    with ExitStack() as stack:
        if settings.metrics_port:
            stack.enter_context(health_server(settings.metrics_port, live.progress, live.pages))
        asyncio.run(main())


def credentials(kafka: Mapping[str, str]) -> faust.SSLCredentials | faust.SASLCredentials | None:
    """What Faust wants for the librdkafka properties of TLS and SASL."""
    protocol = kafka.get("security.protocol", "plaintext").upper()
    context = None
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=kafka.get("ssl.ca.location"))
        if certificate := kafka.get("ssl.certificate.location"):
            context.load_cert_chain(certificate, kafka.get("ssl.key.location"), kafka.get("ssl.key.password"))
    if protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=kafka.get("sasl.username"),
            password=kafka.get("sasl.password"),
            mechanism=kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "PLAIN")),
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context else None


def export_metrics(figures: Figures) -> None:
    accuracy = figures.accuracy
    shares = {
        "coverage": figures.coverage,
        "ranked": figures.ranked,
        "attempts_ranked": figures.attempts_ranked,
        "hours_ranked": figures.hours_ranked,
        "first_choice": figures.first_choice,
        "interval": figures.interval,
        "skew": figures.skew,
        "w20": accuracy.w20 if accuracy else None,
        "w10": accuracy.w10 if accuracy else None,
        "w5": accuracy.w5 if accuracy else None,
    }
    for name, share in shares.items():
        if share is None:  # or the last that there was would stand for today's
            metrics.LIVE_SHARE.remove(name)
        else:
            metrics.LIVE_SHARE.labels(name).set(share / 100.0)
    metrics.LIVE_RATIO.set(accuracy.ratio if accuracy else math.nan)
    metrics.LIVE_SCORED.set(figures.scored)
    metrics.LIVE_NO_OPINION.clear()
    for reason, count in figures.no_opinion.items():
        metrics.LIVE_NO_OPINION.labels(reason).set(count)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
