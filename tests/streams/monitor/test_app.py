"""The live monitor under the broker that the suite runs on: Faust delivers, nothing is counted twice, or stops it."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import faust
import msgspec
import pytest
from prometheus_client import REGISTRY

from leap.schemas.codec import encode
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES
from leap.streams.embedded import free_port
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.monitor.aggregates import Figures, Monitor
from leap.streams.monitor.app import LiveMonitor, credentials
from leap.streams.monitor.attempt import Part
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.metrics import LIVE_SHARE
from leap.streams.runtime.settings import Settings
from tests.services import ROOT
from tests.streams.monitor.test_aggregates import EVENTS, NOW, completed, monitor_of

TOPICS = {"PreferenceList": PREFERENCES, "JobAllocated": ALLOCATED, "JobCompleted": COMPLETED}


def send(settings: Settings, *events: Part | bytes) -> None:
    producer = CheckedProducer(settings)
    for event in events:
        if isinstance(event, bytes):
            producer.produce(settings.topic(COMPLETED), event, b"x")
        else:
            topic = settings.topic(TOPICS[type(event).__name__])
            producer.produce(topic, encode(event), event.attempt_id.encode())
    producer.flush()


@contextmanager
def following(live: LiveMonitor) -> Iterator[None]:
    """Run the app in a loop and thread of its own."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(started.set)
        loop.run_until_complete(live.run(stop))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        assert not thread.is_alive()


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, "waited a minute"
        time.sleep(0.05)


def live_monitor(settings: Settings) -> LiveMonitor:
    return LiveMonitor(settings, Monitor(lambda: NOW.timestamp()))


def test_redelivered_events_do_not_change_the_figures(topics: Settings) -> None:
    expected = monitor_of(EVENTS).figures()
    live = live_monitor(topics)
    send(topics, *EVENTS[:6], b"{", b"\xff", b"null")
    assert live.warm_up(datetime.now(UTC)) == 9
    with following(live):
        send(topics, *EVENTS, *EVENTS)
        wait_for(lambda: live.figures() == expected)
        wait_for(live.progress.ready)
        send(topics, b"broken", completed("another", "fast", 100.0))
        wait_for(lambda: live.figures().finished == expected.finished + 1)
    assert live.figures().accuracy == expected.accuracy
    again = live_monitor(topics)
    again.warm_up(datetime.now(UTC))
    assert again.figures() == live.figures()  # a new process knows the same


def test_exception_for_one_event_does_not_stop_the_monitor(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_monitor(topics)
    add = Monitor.add

    def broken(self: Monitor, event: Part) -> None:
        if event.attempt_id == "poison":
            raise RuntimeError("a bug")
        add(self, event)

    monkeypatch.setattr(Monitor, "add", broken)
    with following(live):
        send(topics, completed("poison", "fast", 1.0))
        send(topics, *(completed(f"c{number}", "fast", 1.0) for number in range(60)))
        wait_for(lambda: live.figures().finished == 60)
    counted = REGISTRY.get_sample_value("leap_live_rejected_total", {"topic": topics.topic(COMPLETED)})
    assert counted == 1


def test_monitor_serves_page_figures_and_metrics(topics: Settings) -> None:
    live = live_monitor(topics)
    for event in EVENTS:
        live.take(topics.topic(TOPICS[type(event).__name__]), encode(event))

    def get(path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            body: bytes = answer.read()
        return body

    with health_server(0, live.progress, live.pages) as port:
        assert b"<title>Leap" in get("/")
        assert msgspec.json.decode(get("/figures"), type=Figures) == monitor_of(EVENTS).figures()
        told_by_metrics = get("/metrics").decode()
    assert 'leap_live_share{what="w20"} 0.5' in told_by_metrics
    assert 'leap_live_no_opinion{reason="internal error"} 1.0' in told_by_metrics


def test_share_without_data_is_removed_from_metrics(topics: Settings) -> None:
    live = live_monitor(topics)
    for event in EVENTS:
        live.take(topics.topic(TOPICS[type(event).__name__]), encode(event))
    live.figures()
    assert shares() >= {"w20", "interval", "first_choice", "ranked"}
    assert REGISTRY.get_sample_value("leap_live_ratio") == live.figures().accuracy.ratio  # type: ignore[union-attr]
    quiet = live_monitor(topics)  # as a day later, when but one attempt has ended and nothing was ranked
    quiet.take(topics.topic(COMPLETED), encode(completed("alone", "fast", 100.0)))
    quiet.figures()
    assert shares() == {"coverage", "attempts_ranked", "hours_ranked"}
    assert math.isnan(REGISTRY.get_sample_value("leap_live_ratio") or 0.0)


def shares() -> set[str]:
    return {sample.labels["what"] for metric in LIVE_SHARE.collect() for sample in metric.samples}


def test_faust_credentials_follow_the_librdkafka_properties() -> None:
    assert credentials({}) is None
    assert isinstance(credentials({"security.protocol": "SSL"}), faust.SSLCredentials)
    sasl = credentials(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "u", "sasl.password": "p", "sasl.mechanism": "PLAIN"}
    )
    assert isinstance(sasl, faust.SASLCredentials)
    assert (sasl.username, sasl.password, sasl.ssl_context) == ("u", "p", None)


@contextmanager
def process(settings: Settings, port: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | settings.to_environment() | {"LEAP_METRICS_PORT": str(port)}
    command = [sys.executable, "-m", "leap", "worker", "monitor"]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL) as running:
        try:
            yield running
        finally:
            running.kill()


def asked(port: int) -> Figures | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/figures", timeout=5) as answer:
            return msgspec.json.decode(answer.read(), type=Figures)
    except OSError:
        return None


@pytest.mark.timeout(300)
def test_figures_are_exact_after_a_kill(topics: Settings) -> None:
    expected = monitor_of(EVENTS).figures()
    first, second = free_port(), free_port()
    send(topics, *EVENTS[:4])
    with process(topics, first) as killed:
        wait_for(lambda: (figures := asked(first)) is not None and figures.finished == 1)
        send(topics, *EVENTS[4:8])
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
    send(topics, *EVENTS[6:], *EVENTS[:3])
    with process(topics, second) as running:
        wait_for(lambda: asked(second) == expected)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
