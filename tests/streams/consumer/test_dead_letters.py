"""``leap dead-letters`` lists what was set aside and sends it again, as it was."""

import json

import pytest

from leap.schemas.topics import COMPLETED, DEAD_LETTERS, SUBMITTED
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings
from tests.commands import invoke


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
    assert run(topics, monkeypatch, "dead-letters", "replay") == "1 messages sent again\n"
    [again] = read_range(topics, completed)
    assert (again.key, again.value) == (b"key", b"\xff{")
    assert list(read_range(topics, submitted)) == []
    assert run(topics, monkeypatch, "dead-letters", "list", "--hours", "0").startswith("0 dead letters")
    assert run(topics, monkeypatch, "letters", "--again", "--hours", "0") == "0 messages sent again\n"
