"""``leap dead-letters`` lists what was set aside and sends it again, as it was."""

import json
import random

import pytest
from msgspec.structs import replace

from leap.schemas.codec import encode
from leap.schemas.topics import COMPLETED, DEAD_LETTERS, SUBMITTED
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.history.worker import history_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message, Resent
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings
from tests.commands import invoke
from tests.streams.history.test_worker import assert_exact, send
from tests.streams.history.test_worker import completed as finished


def run(settings: Settings, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_dead_letters_are_listed_and_replayed_once(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = CheckedProducer(topics)
    completed, submitted = topics.topic(COMPLETED), topics.topic(SUBMITTED)
    for worker, topic, offset, value in (
        ("history", completed, 7, b"\xff{"), ("joiner", completed, 7, b"\xff{"), ("joiner", submitted, 1, b"x" * 2**21),
    ):  # fmt: skip
        message = Message(topic, "id", 3, offset, b"key", value, 0)
        DeadLetters(topics, producer, worker).add(message, "not JSON")
    producer.produce(topics.topic(DEAD_LETTERS), b"sent by another")
    producer.flush()
    listed = run(topics, monkeypatch, "dead-letters", "list")
    assert listed.startswith("3 dead letters in 24 hours\n")
    assert f"{completed} (last at 3/7): not JSON" in listed
    rows = json.loads(run(topics, monkeypatch, "dead-letters", "list", "--json"))
    assert sorted((row["worker"], row["count"]) for row in rows) == [("history", 1), ("joiner", 1), ("joiner", 1)]
    [shown] = next(row["letters"] for row in rows if row["worker"] == "history")
    assert (shown["key"], shown["payload"], shown["bytes"]) == ("key", "\ufffd{", 2)
    assert len(json.loads(run(topics, monkeypatch, "dead-letters", "list", "--json", "--worker", "joiner"))) == 2
    assert run(topics, monkeypatch, "dead-letters", "list", "--reason", "nope").startswith("0 dead letters")
    assert "nothing is sent without --send" in run(topics, monkeypatch, "dead-letters", "replay")
    assert list(read_range(topics, completed)) == []
    assert "1 messages sent again\n" in run(topics, monkeypatch, "dead-letters", "replay", "--send")
    [again] = read_range(topics, completed)
    assert (again.key, again.value) == (b"key", b"\xff{")
    assert again.resent == Resent(frozenset({"history", "joiner"}), f"{completed}/3/7")
    assert list(read_range(topics, submitted)) == []
    assert run(topics, monkeypatch, "dead-letters", "list", "--hours", "0").startswith("0 dead letters")
    assert run(topics, monkeypatch, "letters", "--again", "--hours", "0") == "0 messages sent again\n"


def test_sending_again_doubles_nothing(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three that stay bad stay three; what was sent again counts once, and not for who had counted it before."""
    rng = random.Random(1)
    events = [replace(finished(number, rng), job_name="ranker-a") for number in range(600)]
    send(topics, [b"bad"] * 3)
    send(topics, [encode(event) for event in events])
    producer = CheckedProducer(topics)
    for message in list(read_range(topics, topics.topic(COMPLETED))):
        if message.value != b"bad":
            DeadLetters(topics, producer, "joiner").add(message, "as if the joiner had refused what history took")
    producer.flush()
    for due in (603, 3, 3):
        history_loop(topics).run(until_end=True)
        for expected in (due, 0):
            told = json.loads(run(topics, monkeypatch, "dead-letters", "replay", "--send", "--json"))
            assert told["messages"] == expected
    history_loop(topics).run(until_end=True)
    rows = json.loads(run(topics, monkeypatch, "dead-letters", "list", "--json", "--worker", "history"))
    assert [row["count"] for row in rows] == [3]
    assert_exact(topics, events)
