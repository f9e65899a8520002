"""The Kafka client's log goes through ours, and never to standard error by itself."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from leap.streams.embedded import free_port
from leap.streams.kafka.client_log import REPEAT_S, Repeats, client_log
from leap.streams.kafka.clients import admin_config, consumer_config, producer_config
from leap.streams.runtime.settings import Settings
from tests.commands import invoke


@pytest.fixture
def nowhere() -> Settings:
    """A broker that is away."""
    return Settings.from_environment({"LEAP_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}"})


CLIENTS: dict[str, Callable[[Settings], Any]] = {
    "producer": lambda settings: Producer(producer_config(settings)),
    "consumer": lambda settings: Consumer(consumer_config(settings, "history")),
    "admin": lambda settings: AdminClient(admin_config(settings)),
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_what_a_client_logs_is_a_record_once(
    kind: str, nowhere: Settings, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    client = CLIENTS[kind](nowhere)
    deadline = time.monotonic() + 30
    while not caplog.records and time.monotonic() < deadline:
        client.poll(0.1)
    for _ in range(5):  # it tries again several times in this time
        client.poll(0.1)
    refused = [record for record in caplog.records if "Connect to" in record.getMessage()]
    assert [(record.name, record.levelno) for record in refused] == [(client_log.name, logging.ERROR)]
    assert capfd.readouterr().err == ""


def test_the_same_is_said_again_after_a_while() -> None:
    now = 0.0
    repeats = Repeats(lambda: now)

    def said(text: str) -> bool:
        return repeats.filter(logging.LogRecord("x", logging.ERROR, "", 0, text, (), None))

    assert said("FAIL [leap#producer-1] a:1 refused (after 0ms in state CONNECT)")
    assert said("FAIL [leap#producer-1] b:1 refused (after 0ms in state CONNECT)")
    assert not said("FAIL [leap#consumer-7] a:1 refused (after 3ms in state CONNECT, 2 identical error(s) suppressed)")
    now = REPEAT_S
    assert said("FAIL [leap#producer-1] a:1 refused (after 0ms in state CONNECT)")
    assert not said("FAIL [leap#producer-1] a:1 refused (after 0ms in state CONNECT)")


def test_a_command_prints_a_sentence_and_no_lines_of_the_client(
    nowhere: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    done = invoke("topics", "check", env=nowhere.to_environment())
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("no broker at 127.0.0.1:")
    assert capfd.readouterr().err == ""
