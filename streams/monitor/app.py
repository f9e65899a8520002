"""The live monitor as a Faust app: consumes preference lists, allocations and completions, and exports figures.

A single process reads all partitions, because lists are keyed by attempt and completions by family. State is in memory
only: at startup the last week is read by :mod:`leap.streams.kafka.range_reader`. Redelivery by Faust changes nothing,
so neither its commits nor a kill -9 can distort a figure. (Faust's client needs the package cramjam to read compressed
batches, and crashes on them otherwise.)
"""

import asyncio
import math
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
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
from leap.schemas.hardware import load_catalog
from leap.schemas.resolution import resolved
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES
from leap.streams.kafka.clients import MAX_REQUEST_BYTES, consumer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.monitor.aggregates import WAIT_S, Figures, Monitor
from leap.streams.monitor.attempt import Part
from leap.streams.runtime import metrics
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.liveness import Progress
from leap.streams.runtime.settings import Settings

log = structlog.get_logger(__name__)

WORKER = "monitor"
#: Computing the figures of 25,000 attempts takes 0.2 s of CPU time (measured).
REFRESH_S = 5.0
#: Refreshes between two requests for end offsets.
POSITIONS_EVERY = 2
POSITIONS_TIMEOUT_S = 1.0
STOP_S = 10.0
TYPES: dict[str, type[Part]] = {PREFERENCES: PreferenceList, ALLOCATED: JobAllocated, COMPLETED: JobCompleted}


class MemoryApp(faust.App):
    """An app without files on disk; Faust would create directories in the working directory anyway."""

    def _create_directories(self) -> None:
        pass


class LiveMonitor:
    """A monitor with its Faust app, page and metrics.

    Parameters
    ----------
    settings
        Where the broker is; the topics must exist.
    """

    def __init__(self, settings: Settings, monitor: Monitor | None = None) -> None:
        self.progress = Progress()
        self._settings = settings
        self._monitor = Monitor() if monitor is None else monitor  # an empty monitor is falsy
        self._catalog = load_catalog(settings.catalog)
        self._types = {settings.topic(name): event_type for name, event_type in TYPES.items()}
        self._lock = threading.Lock()
        self._latest: tuple[float, Figures] | None = None
        self._page = resources.files("leap.streams.monitor").joinpath("page.html").read_bytes()

    def take(self, topic: str, value: bytes | None) -> None:
        """Add a message. Never raises: an invalid message is counted and skipped."""
        try:
            event = resolved(decode(value, self._types[topic]), self._catalog)
            with self._lock:
                self._monitor.add(event)
        except Exception as error:
            metrics.LIVE_REJECTED.labels(topic).inc()
            if not isinstance(error, Rejected):
                log.exception("message skipped", topic=topic)

    def figures(self) -> Figures:
        """Compute the figures, and export them as metrics."""
        with self._lock:
            figures = self._monitor.figures()
        export_metrics(figures)
        self._latest = (time.monotonic(), figures)
        return figures

    def latest(self) -> Figures:
        """The cached figures, at most some seconds old."""
        if self._latest is None or time.monotonic() - self._latest[0] > 2 * REFRESH_S:
            return self.figures()
        return self._latest[1]

    def warm_up(self, now: datetime) -> int:
        """Read the last week from the topics; returns the number of messages."""
        count = 0
        for topic in self._types:
            for message in read_range(self._settings, topic, now - timedelta(seconds=WAIT_S)):
                self.take(topic, message.value)
                count += 1
        return count

    def pages(self) -> dict[str, tuple[str, bytes]]:
        """Pages served in addition to metrics and health."""
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
            stream_wait_empty=True,  # otherwise a rebalance loses in-flight events
            topic_allow_declare=False,  # topics are created by leap topics ensure
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
        consumer = Consumer(consumer_config(self._settings, WORKER))
        await app.start()
        try:
            while not stop.is_set():
                await self._update_lag(app, consumer)
                for _ in range(POSITIONS_EVERY):
                    await asyncio.to_thread(self.figures)
                    await _wait(stop, REFRESH_S)
        finally:
            consumer.close()
            await asyncio.wait_for(app.stop(), STOP_S)

    async def _update_lag(self, app: faust.App, consumer: Consumer) -> None:
        """Compare positions with end offsets, requested through a separate client, because Faust may stop fetching."""
        partitions = sorted(app.consumer.assignment())
        self.progress.reached(
            {
                (partition.topic, partition.partition): await app.consumer.position(partition) or 0
                for partition in partitions
            }
        )
        times = [TopicPartition(*partition, OFFSET_END) for partition in partitions]
        consumer.poll(0)  # emits what the client has logged
        try:
            ends = await asyncio.to_thread(consumer.offsets_for_times, times, POSITIONS_TIMEOUT_S) if times else []
        except KafkaException as error:
            log.warning("end offsets unknown", worker=WORKER, error=str(error))
            return
        metrics.BROKER_ANSWERED.labels(WORKER).set_to_current_time()
        self.progress.ends({(partition.topic, partition.partition): partition.offset for partition in ends})
        for (topic, partition), lag in self.progress.lag().items():
            metrics.LAG.labels(WORKER, topic, str(partition)).set(lag)


def run_monitor(settings: Settings) -> None:
    """Warm up and follow until SIGTERM or SIGINT; page, metrics and health are on the metrics port."""
    live = LiveMonitor(settings)
    began = time.monotonic()
    count = live.warm_up(datetime.now(UTC))
    log.info("warmed up", messages=count, seconds=round(time.monotonic() - began, 1))

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
    """Faust credentials for the librdkafka properties of TLS and SASL."""
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
    """Set the Prometheus gauges."""
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
        if share is None:  # otherwise the last value would remain
            metrics.LIVE_SHARE.remove(name)
        else:
            metrics.LIVE_SHARE.labels(name).set(share / 100.0)
    metrics.LIVE_RATIO.set(accuracy.ratio if accuracy else math.nan)
    metrics.LIVE_SCORED.set(figures.scored)
    metrics.LIVE_NO_OPINION.clear()
    for reason, count in figures.no_opinion.items():
        metrics.LIVE_NO_OPINION.labels(reason).set(count)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
