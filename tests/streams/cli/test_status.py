"""``leap status``: the last week on one page."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.events import THROUGHPUT
from leap.schemas.topics import COMPLETED
from leap.streams.consumer.dead_letters import DeadLetters
from leap.streams.embedded import free_port
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.runtime.settings import Settings
from tests.builders import attempt, submission
from tests.commands import invoke
from tests.streams.monitor.test_app import send


def test_a_week_is_on_one_page(topics: Settings, artifact_store: LocalStore, tmp_path: Path) -> None:
    days_ago = [datetime.now(UTC) - timedelta(days=days) for days in (1, 5)]
    send(topics, *(attempt(submission(f"a-{at.day}", at=at), "basic", 8.0).completed for at in days_ago))
    producer = CheckedProducer(topics)
    message = Message(topics.topic(COMPLETED), "id", 0, 9, None, b"?", 0)
    DeadLetters(topics, producer, "history").add(message, "not JSON")
    producer.flush()
    [version] = artifact_store.versions(THROUGHPUT)
    (tmp_path / "reports").mkdir()
    night = {"night": "2026-03-10", "artifact": version, "promoted": True, "reason": "w20 90"}
    (tmp_path / "reports" / f"{THROUGHPUT}-2026-03-10.json").write_text(json.dumps(night))
    places = {"LEAP_ARTIFACTS": str(artifact_store.root), "LEAP_PARTITIONS": str(tmp_path)}
    asked = invoke("status", "--json", env=topics.to_environment() | places)
    assert asked.exit_code == 0, asked.output
    week = json.loads(asked.stdout)
    assert (week["figures"]["finished"], week["letters"]) == (2, {"history": {"not JSON": 1}})
    assert (week["production"]["version"], week["night"]["reason"]) == (version, "w20 90")
    assert (week["workers"][0]["check"], week["workers"][0]["state"]) == ("broker", "ok")
    day = invoke("status", "--days", "2", env=topics.to_environment() | places).stdout
    assert f"last night  2026-03-10: {version} promoted: w20 90\n" in day
    assert "letters     1\n            1 history: not JSON\n" in day
    assert "accuracy    nothing to score, of 0 attempts\n" in day
    assert all(len(line) < 200 for line in day.splitlines())


def test_what_cannot_be_had_is_named(topics: Settings, tmp_path: Path) -> None:
    away = {"LEAP_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}", "LEAP_ARTIFACTS": str(tmp_path)}
    asked = invoke("status", env=topics.to_environment() | away)
    assert asked.exit_code == 1
    for line in ("broker      fault: no broker at", "store       ok", "production  none", "figures     not available"):
        assert f"\n{line}" in asked.stdout
