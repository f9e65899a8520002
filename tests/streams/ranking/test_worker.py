"""The ranking worker and the switches, on the broker and store that the suite runs on."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.rollout import Switch, Switches
from leap.schemas.codec import decode, encode
from leap.schemas.events import DeadLetter, PreferenceList
from leap.schemas.topics import DEAD_LETTERS, PREFERENCES, SUBMITTED
from leap.streams.embedded import child, free_port, store_ready
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.range_reader import read_range
from leap.streams.ranking.rollout_store import SwitchFollower, SwitchStore
from leap.streams.ranking.worker import ranking_loop
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.builders import submission
from tests.commands import invoke
from tests.streams.history.test_cluster import server


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, "waited a minute"
        time.sleep(0.05)


def run(settings: Settings) -> None:
    stop = threading.Event()
    ranking_loop(settings, stop).run(until_end=True)
    stop.set()


def lists(settings: Settings) -> dict[str, PreferenceList]:
    lists = [decode(message.value, PreferenceList) for message in read_range(settings, settings.topic(PREFERENCES))]
    return {answer.attempt_id: answer for answer in lists}


def test_every_submission_is_answered_and_other_messages_are_dead_letters(
    topics: Settings, artifact_store: LocalStore
) -> None:
    settings = replace(topics, artifacts=str(artifact_store.root))
    jobs = [submission(f"j{number}", job_name=f"team/job-{number % 12}x") for number in range(150)]
    broken = [b"", b"{", b'{"attempt_id": 1}', b"\xff\xfe", encode(jobs[0]).replace(b"64.0", b"-64.0")]
    producer = CheckedProducer(settings)
    for number, job in enumerate(jobs):
        producer.produce(settings.topic(SUBMITTED), encode(job), job.attempt_id.encode())
        if number < len(broken):
            producer.produce(settings.topic(SUBMITTED), broken[number])
    producer.flush()
    run(settings)
    answers = lists(settings)
    assert answers.keys() == {job.attempt_id for job in jobs}
    assert all(answer.ranked for answer in answers.values())
    letters = [decode(m.value, DeadLetter, 2**21) for m in read_range(settings, settings.topic(DEAD_LETTERS))]
    assert sorted(letter.value or b"" for letter in letters) == sorted(broken)


def test_list_over_the_message_size_is_sent_empty(topics: Settings, artifact_store: LocalStore) -> None:
    """Every name is allowed, and so is the submission, but a list has each name twice."""
    settings = replace(topics, artifacts=str(artifact_store.root))
    names = tuple("\N{GRINNING FACE}" * 509 + f"{number:03}" for number in range(256))
    jobs = [submission("large", candidates=names), submission("fits", candidates=("basic", "fast", *names[:200]))]
    producer = CheckedProducer(settings)
    for job in jobs:
        producer.produce(settings.topic(SUBMITTED), encode(job))
    producer.flush()
    run(settings)
    answers = lists(settings)
    assert (answers["large"].no_opinion, answers["large"].candidates) == ("list too large", names)
    assert (len(answers["large"].ranked), len(answers["large"].excluded)) == (0, 0)
    assert {candidate.hardware_type for candidate in answers["fits"].ranked} == {"basic", "fast"}


def test_ranking_answers_without_artifact_and_redis(topics: Settings, tmp_path: Path) -> None:
    settings = replace(topics, artifacts=str(tmp_path), redis_url="redis://127.0.0.1:1/0")
    producer = CheckedProducer(settings)
    producer.produce(settings.topic(SUBMITTED), encode(submission("alone")))
    producer.flush()
    run(settings)
    assert lists(settings)["alone"].no_opinion == "no artifact"


@pytest.fixture
def switch_store(settings: Settings) -> SwitchStore:
    return SwitchStore(connect(settings.redis_url), settings.redis_prefix)


def test_switch_changes_are_stored_and_logged(switch_store: SwitchStore) -> None:
    assert switch_store.read() == Switches()
    switch_store.set("dlrm", Switch(mode="off"), by="ann")
    switch_store.set("*", Switch(mode="shadow", percentage=20.0), by="bob")
    assert switch_store.read() == Switches(
        default=Switch(mode="shadow", percentage=20.0), by_model_type={"dlrm": Switch(mode="off")}
    )
    switch_store.set("dlrm", None, by="ann")
    assert switch_store.read().by_model_type == {}
    assert [(change.by, change.model_type) for change in switch_store.history()] == [
        ("ann", "dlrm"), ("bob", "*"), ("ann", "dlrm"),
    ]  # fmt: skip


def test_concurrent_switch_changes_are_all_applied(switch_store: SwitchStore) -> None:
    names = [f"m{number}" for number in range(16)]
    threads = [threading.Thread(target=switch_store.set, args=(name, Switch(mode="off"), "t")) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(switch_store.read().by_model_type) == sorted(names)


def test_follower_keeps_the_last_switches_during_an_outage(switch_store: SwitchStore) -> None:
    away = True

    def open_store() -> SwitchStore:
        if away:
            raise redis.ConnectionError("away")
        return switch_store

    followed = SwitchFollower(open_store)
    followed.refresh()
    assert followed.current == Switches()
    away = False
    switch_store.set("dlrm", Switch(mode="off"), by="ann")
    followed.refresh()
    assert followed.current.by_model_type["dlrm"].mode == "off"
    switch_store.set("dlrm", Switch(mode="on"), by="ann")
    stop = threading.Event()
    followed.follow(stop)
    wait_for(lambda: followed.current.by_model_type["dlrm"].mode == "on")
    stop.set()


def test_switches_lost_by_redis_stay_in_force(settings: Settings, switch_store: SwitchStore) -> None:
    """Ranking that somebody switched off must not begin by itself; that nobody wants it off any more is told."""
    followed = SwitchFollower(lambda: switch_store)
    with capture_logs() as before:
        followed.refresh()  # nothing was ever set
    switch_store.set("*", Switch(mode="off"), by="ann")
    followed.refresh()
    with connect(settings.redis_url) as client:
        client.delete(f"{settings.redis_prefix}:{{switches}}:current")
    with capture_logs() as after:
        for _ in range(3):
            followed.refresh()
    assert followed.current == Switches(default=Switch(mode="off"))
    assert (before, [entry["log_level"] for entry in after]) == ([], ["warning"])
    switch_store.set("*", None, by="ann")
    followed.refresh()
    assert followed.current == Switches()


def test_redis_errors_do_not_end_the_follower(switch_store: SwitchStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client of a Cluster raises when no node answers is no RedisError."""
    switch_store.set("*", Switch(mode="off"), by="ann")
    faults = [redis.exceptions.RedisClusterException("no node"), redis.ConnectionError("away"), OSError("strange")]
    known = switch_store.known

    def sometimes() -> Switches | None:
        if faults:
            raise faults.pop()
        return known()

    monkeypatch.setattr(switch_store, "known", sometimes)
    monkeypatch.setattr("leap.streams.ranking.rollout_store.FOLLOW_EVERY_S", 0.01)
    followed, stop = SwitchFollower(lambda: switch_store), threading.Event()
    followed.follow(stop)
    wait_for(lambda: followed.current.default.mode == "off")
    stop.set()


@pytest.mark.parametrize("command", [["switch", "show"], ["history", "show", "any"]])
def test_commands_report_a_cluster_without_nodes(command: list[str], tmp_path: Path) -> None:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    options = ["--port", str(port), "--cluster-port", str(free_port()), "--cluster-enabled", "yes", "--save", ""]
    with child([server(), *options, "--dir", str(tmp_path)], tmp_path / "log", lambda: store_ready(url)):
        done = invoke(*command, env={"LEAP_REDIS_URL": url})
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "the store does not answer" in done.stderr
