"""Rebuild, restore and audit, with a worker that goes on meanwhile."""

import gzip
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from leap.schemas.codec import encode
from leap.schemas.events import JobCompleted
from leap.schemas.topics import COMPLETED, load_topics
from leap.streams.history import rebuild as history_rebuild
from leap.streams.history.audit import audit
from leap.streams.history.backup import read_backup, write_backup
from leap.streams.history.rebuild import SwitchError, rebuild
from leap.streams.history.store import Bucket, HistoryStore, RebuildInProgress
from leap.streams.history.worker import history_loop
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.commands import invoke
from tests.streams.history.test_worker import TARGET, assert_exact, completed, send, statistics
from tests.streams.kafka.deletion import delete_topic

run = partial(invoke, "history")
Begins = Mapping[tuple[str, int], int]


@pytest.fixture
def history(topics: Settings) -> Iterator[HistoryStore]:
    with connect(topics.redis_url) as client:
        yield HistoryStore(client, topics.redis_prefix)


def finish(count: int, seed: int) -> list[JobCompleted]:
    rng = random.Random(seed)
    return [completed(seed * 10**6 + number, rng) for number in range(count)]


def encoded(events: list[JobCompleted]) -> list[bytes]:
    return [encode(event) for event in events]


def test_rebuild_restores_a_flushed_history(topics: Settings, history: HistoryStore) -> None:
    events = finish(2000, 1)
    send(topics, [*encoded(events), b"broken"])
    history_loop(topics).run(until_end=True)
    history.remove(TARGET, 0)
    done = rebuild(topics, history)
    assert (done.generation, done.messages, done.rejected, done.missing) == (1, 2001, 1, 0)
    assert_exact(topics, events)
    assert rebuild(topics, history).generation == 2
    assert list(history.dump(TARGET, 0)) == [{}] * 64  # the one before the last is gone
    assert_exact(topics, events)


def test_worker_keeps_running_during_rebuilds(topics: Settings, history: HistoryStore) -> None:
    events = finish(3000, 2)
    loop = history_loop(topics)
    loop._batch_size = 50
    rebuilt = threading.Event()

    def trickle() -> None:
        for begin in range(0, len(events), 60):
            if begin == len(events) // 2:  # so that there are two rebuilds, however long one takes
                rebuilt.wait(60)
            send(topics, encoded(events[begin : begin + 60]))

    working, sending = (threading.Thread(target=target, daemon=True) for target in (loop.run, trickle))
    working.start()
    sending.start()
    generations = []
    while sending.is_alive():
        generations.append(rebuild(topics, history).generation)
        rebuilt.set()
    sending.join()
    loop.stop()
    working.join()
    assert generations == list(range(1, len(generations) + 1)) and len(generations) > 1
    history_loop(topics).run(until_end=True)
    assert_exact(topics, events)


def test_restore_combines_backup_and_topic(topics: Settings, history: HistoryStore, tmp_path: Path) -> None:
    before, after = finish(1000, 3), finish(500, 4)
    send(topics, encoded(before))
    history_loop(topics).run(until_end=True)
    assert write_backup(history, (TARGET,), tmp_path / "history.gz") == len(statistics(topics))
    send(topics, encoded(after))
    history_loop(topics).run(until_end=True)
    expected = statistics(topics)
    history.remove(TARGET, 0)
    done = rebuild(topics, history, backup=tmp_path / "history.gz")
    assert done.missing == 0
    assert_exact(topics, before + after)
    assert statistics(topics).keys() == expected.keys()


@pytest.mark.parametrize("from_backup", [False, True])
def test_targets_that_are_not_configured_are_kept(
    topics: Settings, history: HistoryStore, tmp_path: Path, from_backup: bool
) -> None:
    both = replace(topics, targets=(TARGET, "qps"))
    events = [msgspec.structs.replace(event, measurements=event.measurements | {"qps": 2.0}) for event in finish(99, 3)]
    send(topics, encoded(events))
    history_loop(both).run(until_end=True)
    write_backup(history, (TARGET,), tmp_path / "history.gz")
    kept = list(history.dump("qps", 0))
    send(topics, encoded(events[:1]))
    done = rebuild(topics, history, (TARGET,), tmp_path / "history.gz" if from_backup else None)
    assert done.targets == ("qps", TARGET)
    assert [Bucket.of(fields).statistics for fields in history.dump("qps", 1)] == [
        Bucket.of(fields).statistics for fields in kept
    ]


def test_what_a_backfill_sent_again_is_found_by_audit_and_counted_once_by_rebuild(
    topics: Settings, history: HistoryStore
) -> None:
    events = [msgspec.structs.replace(event, job_name="ranker-a") for event in finish(600, 4)]
    for _ in range(2):
        send(topics, encoded(events))
        history_loop(topics).run(until_end=True)
    assert audit(topics, history, TARGET).differences, "the window of 256 attempts has forgotten the first"
    refused = run("audit", env=topics.to_environment())
    assert (refused.exit_code, "`leap history rebuild`" in refused.stderr) == (1, True)
    assert rebuild(topics, history).repeated == 600
    assert audit(topics, history, TARGET).differences == []
    assert_exact(topics, events)


def test_restore_reports_offsets_missing_in_backup_and_topic(
    topics: Settings, history: HistoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(topics, encoded(finish(100, 5)))
    history_loop(topics).run(until_end=True)
    write_backup(history, (TARGET,), tmp_path / "history.gz")
    send(topics, encoded(finish(500, 10)))
    rows = read_range(topics, topics.topic(COMPLETED))
    remaining = [row._replace(position=0) for row in rows if row.offset >= 40]  # its reader began before
    monkeypatch.setattr(
        history_rebuild, "read_range", lambda settings, topic, begins: iter(remaining)
    )  # as retention would
    ends: dict[str, int] = {}
    for bucket in history.buckets(TARGET):
        for source, offset in bucket.fences.items():
            ends[source] = max(offset, ends.get(source, 0))
    assert len(ends) > 2 and max(ends.values()) < 39
    done = rebuild(topics, history, backup=tmp_path / "history.gz")
    assert done.missing == sum(40 - end - 1 for end in ends.values())


@pytest.mark.parametrize("spoil", [lambda data: data[: len(data) // 2], lambda data: b"nothing", lambda data: b""])
def test_invalid_backup_leaves_the_history_unchanged(
    topics: Settings, history: HistoryStore, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    events = finish(200, 6)
    send(topics, encoded(events))
    history_loop(topics).run(until_end=True)
    write_backup(history, (TARGET,), tmp_path / "whole.gz")
    (tmp_path / "spoilt.gz").write_bytes(spoil((tmp_path / "whole.gz").read_bytes()))
    with pytest.raises(ValueError, match=r"spoilt\.gz"):
        rebuild(topics, history, backup=tmp_path / "spoilt.gz")
    assert history.generation() == 0
    assert_exact(topics, events)


def test_backup_of_another_format_is_rejected(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "old.gz", "w") as file:
        file.write(b'{"format":0,"buckets":64}\n')
    with pytest.raises(ValueError, match="format=0"):
        list(read_backup(tmp_path / "old.gz"))


def test_generation_raises_while_a_rebuild_holds_the_lock(topics: Settings, history: HistoryStore) -> None:
    history.client.set(history.rebuild_lock, "somebody", px=60_000)
    with pytest.raises(RebuildInProgress):
        history.apply([])
    with pytest.raises(RebuildInProgress):
        rebuild(topics, history)


def test_only_one_of_two_rebuilds_switches(topics: Settings, history: HistoryStore) -> None:
    send(topics, encoded(finish(10, 7)))
    with pytest.raises(SwitchError, match="another rebuild"):
        rebuild(topics, history, progress=lambda messages: history.client.set(history.pointer, 40))
    assert history.generation() == 40


def test_rebuild_with_an_expired_lock_does_not_switch(
    topics: Settings, history: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(topics, encoded(finish(10, 7)))

    def slow(settings: Settings, topic: str, begins: Begins) -> Iterator[Message]:
        yield from read_range(settings, topic, begins=begins)
        history.client.delete(history.rebuild_lock)  # as when it expires

    monkeypatch.setattr(history_rebuild, "read_range", slow)
    with pytest.raises(SwitchError, match="rebuild lock expired"):
        rebuild(topics, history)
    assert history.generation() == 0


def test_second_replay_reads_only_new_messages_and_renews_the_lock(
    topics: Settings, history: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, since = finish(300, 11), finish(20, 12)
    send(topics, encoded(before))
    now = 0.0
    read: list[int] = []
    left: list[int] = []

    def slow(settings: Settings, topic: str, begins: Begins) -> Iterator[Message]:
        nonlocal now
        read.append(0)
        for message in read_range(settings, topic, begins=begins):
            read[-1] += 1
            if history.client.exists(history.rebuild_lock):
                left.append(history.client.pttl(history.rebuild_lock))
                history.client.pexpire(history.rebuild_lock, 30_000)  # as if half a minute had gone
                now += 30
            yield message

    monkeypatch.setattr(history_rebuild, "read_range", slow)
    monkeypatch.setattr(history_rebuild, "time", SimpleNamespace(monotonic=lambda: now))
    done = rebuild(topics, history, progress=lambda messages: send(topics, encoded(since)))
    assert (read, done.messages) == ([300, 20], 320)
    assert len(left) == 20 and min(left) > 30_000
    assert_exact(topics, before + since)


def test_topic_recreated_during_a_rebuild_is_read_from_its_beginning(topics: Settings, history: HistoryStore) -> None:
    before, since = finish(300, 13), finish(200, 14)
    send(topics, encoded(before))
    topic = topics.topic(COMPLETED)

    def again(messages: int) -> None:
        delete_topic(topics, topic)
        ensure_topics(topics, load_topics().values())
        send(topics, encoded(since))

    assert rebuild(topics, history, progress=again).messages == 500
    assert_exact(topics, before + since)


def test_rebuild_command_reports_its_result(
    topics: Settings, history: HistoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in topics.to_environment().items():
        monkeypatch.setenv(name, value)
    assert "no families yet" in run("show", "ranker").stderr
    events = finish(40, 9)
    send(topics, encoded(events))
    history_loop(topics).run(until_end=True)
    shown = json.loads(run("show", "ranker-a-run7", "--json").stdout)
    assert shown["family"] == "ranker-a" and shown["n"] == 5
    assert sum(row["n"] for row in shown["hardware"].values()) == 5
    assert "all hardware" in run("show", "ranker-a").stdout
    unknown = run("show", "rankr-a")
    assert unknown.exit_code == 1 and "ranker-a" in unknown.stderr
    assert run("backup", str(tmp_path / "file")).exit_code == 0
    assert "generation 1" in run("restore", str(tmp_path / "file")).stdout
    assert "generation 2" in run("rebuild").stdout
    measured = msgspec.structs.replace(events[0], attempt_id="other", measurements={TARGET: 1.0, "qps": 2.0})
    send(topics, encoded([measured]))
    monkeypatch.setenv("LEAP_TARGETS", f"{TARGET},qps")
    assert "generation 3" in run("rebuild").stdout
    assert json.loads(run("show", "ranker-a", "--json").stdout)["n"] == 6
    assert json.loads(run("show", "ranker-a", "--target", "qps", "--json").stdout)["n"] == 1
    monkeypatch.setenv("LEAP_REDIS_URL", "redis://127.0.0.1:1/0")
    down = run("show", "ranker-a")
    assert down.exit_code == 1 and "LEAP_REDIS_URL" in down.stderr
