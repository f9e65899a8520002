"""Completions through Kafka into the store, with what can go wrong between the two."""

import math
import os
import random
import re
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from leap.predictor.features.job_family import family
from leap.predictor.history.welford import Statistics
from leap.schemas.codec import decode, encode
from leap.schemas.events import DeadLetter, JobCompleted
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import COMPLETED, DAY_MS, DEAD_LETTERS
from leap.streams.embedded import child
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key
from leap.streams.history.worker import WORKER, history_loop, keys, observe, read
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.builders import CATALOG
from tests.proxy import Proxy

TARGET = "throughput"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def completed(number: int, rng: random.Random) -> JobCompleted:
    finished = BEGIN + timedelta(seconds=rng.randrange(10**6))
    return JobCompleted(
        attempt_id=f"attempt-{number}",
        job_name=f"ranker-{'abcdefgh'[number % 8]}-run{number % 10_000}",
        hardware_type=f"chip-{rng.randrange(3)}",
        model_type=rng.choice(("dlrm", "transformer", None)),
        started_at=finished - timedelta(hours=1),
        finished_at=finished,
        status="succeeded",
        measurements={TARGET: rng.lognormvariate(8, 1.5)},
    )


def message(event: JobCompleted, offset: int = 0, value: bytes | None = None) -> Message:
    return Message("job-completed", "id", 0, offset, None, value or encode(event), 0)


def measuring(number: bytes) -> bytes:
    """A completion with this number as its throughput."""
    return encode(completed(0, random.Random(0))).replace(b'throughput":', b'throughput":' + number + b',"x":')


def statistics(settings: Settings) -> dict[Key, Statistics]:
    with connect(settings.redis_url) as client:
        store = HistoryStore(client, settings.redis_prefix)
        return {key: statistic for bucket in store.buckets(TARGET) for key, statistic in bucket.statistics.items()}


def assert_exact(settings: Settings, events: list[JobCompleted]) -> None:
    """Against numpy, by keys that are worked out here."""
    values: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        pair = event.finished_at.timestamp(), math.log(event.measurements[TARGET])
        name = event.job_name.split("-run")[0]
        values[Key("family", name)].append(pair)
        values[Key("family_hardware", name, event.hardware_type)].append(pair)
        if event.model_type:
            values[Key("model_type", event.model_type)].append(pair)
    stored = statistics(settings)
    assert stored.keys() == values.keys()
    for key, pairs in values.items():
        column = np.array([value for _, value in pairs])
        assert stored[key].n == len(pairs), key
        assert stored[key].mean == pytest.approx(column.mean(), rel=1e-12)
        assert stored[key].deviation == pytest.approx(column.std(ddof=1), rel=1e-12)
        assert (stored[key].last_at, stored[key].last) == max(pairs)


def send(settings: Settings, values: list[bytes], key: bytes = b"any") -> None:
    producer = CheckedProducer(settings)
    for number, value in enumerate(values):
        producer.produce(settings.topic(COMPLETED), value, key + str(number % 7).encode())
    producer.flush()


def test_observation_is_the_log_of_a_successful_measurement() -> None:
    event = completed(3, random.Random(0))
    [observation] = observe(event, message(event, offset=9), CATALOG)
    assert observation.source == "id/0" and observation.offset == 9 and observation.attempt_id == "attempt-3"
    assert observation.value == math.log(event.measurements[TARGET])
    assert observation.event_time == event.finished_at.timestamp()
    assert observation.keys[:2] == (Key("family", "ranker-d"), Key("family_hardware", "ranker-d", event.hardware_type))


def test_spellings_of_one_type_are_one_key() -> None:
    event = completed(0, random.Random(0))
    spelled = [msgspec.structs.replace(event, hardware_type=name) for name in ("Tesla T4", "nvidia-tesla-t4", "T4")]
    about = {keys(one, load_catalog()) for one in spelled}
    assert about == {keys(spelled[2], CATALOG)}, "that lists no T4, so the name stays"


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"},
        {"status": "Succeeded"},
        {"measurements": {}},
        {"measurements": {TARGET: 0.0}},
        {"measurements": {TARGET: -0.0}},
        {"measurements": {"step time": 1.0}},
    ],
)
def test_failed_or_unmeasured_attempts_give_no_observation(change: dict[str, object]) -> None:
    event = msgspec.structs.replace(completed(0, random.Random(0)), **change)
    assert read([message(event)], CATALOG) == ([], [])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "truncated"),
        (b"\xff", "malformed|UTF-8|utf-8"),
        (b"[]", "object"),
        (b'{"attempt_id": 1}', "attempt_id"),
        (b"[" * 100_000, "deep"),
        (measuring(b"-1.0"), "measurements"),
        (measuring(b"1e999"), "out of range"),
        (measuring(b"NaN"), "malformed|invalid"),
    ],
)
def test_invalid_completion_is_rejected_with_its_reason(value: bytes, reason: str) -> None:
    bad = Message("job-completed", "id", 0, 1, None, value, 0)
    good = completed(1, random.Random(0))
    observations, [(rejected, why)] = read([bad, message(good, offset=2)], CATALOG)
    assert rejected is bad
    assert re.search(reason, why)
    assert [observation.attempt_id for observation in observations] == ["attempt-1"]


def test_completion_after_its_message_timestamp_is_rejected() -> None:
    """It would be the last for ever; what the message's own time says holds in a replay too."""
    event = completed(0, random.Random(0))
    written_ms = int(event.finished_at.timestamp() * 1000)
    late, early, unknown = (
        message(event)._replace(timestamp_ms=timestamp_ms) for timestamp_ms in (written_ms, written_ms - 2 * DAY_MS, 0)
    )
    observations, [(rejected, why)] = read([late, early, unknown], CATALOG)
    assert len(observations) == 2
    assert rejected is early and why.startswith("finished_at: ")


def test_timestamp_outside_the_calendar_is_accepted() -> None:
    """A producer that means microseconds: its message is of the year 58,000, and precedes nothing."""
    event = completed(0, random.Random(0))
    written_us = int(event.finished_at.timestamp() * 1e6)
    observations, rejected = read(
        [message(event)._replace(timestamp_ms=timestamp_ms) for timestamp_ms in (written_us, 2**63 - 1)],
        CATALOG,
    )
    assert (len(observations), rejected) == (2, [])


def test_completion_with_several_targets_gives_one_observation_each(topics: Settings) -> None:
    event = msgspec.structs.replace(completed(0, random.Random(0)), measurements={TARGET: 8.0, "qps": 2.0})
    send(topics, [encode(event)])
    history_loop(replace(topics, targets=(TARGET, "qps"))).run(until_end=True)
    store = HistoryStore(connect(topics.redis_url), topics.redis_prefix)
    name = family(event.job_name)
    for target, value in ((TARGET, 8.0), ("qps", 2.0)):
        assert store.bucket(target, name).statistics[Key("family", name)].mean == math.log(value)


def test_valid_completions_count_and_invalid_ones_become_dead_letters(topics: Settings) -> None:
    rng = random.Random(1)
    events = [completed(number, rng) for number in range(300)]
    broken = [bytes(rng.randbytes(rng.randrange(1, 200))) for _ in range(100)]
    values = [encode(event) for event in events] + broken
    rng.shuffle(values)
    send(topics, values)
    history_loop(topics).run(until_end=True)
    assert_exact(topics, events)
    letters = [decode(letter.value, DeadLetter, 2**21) for letter in read_range(topics, topics.topic(DEAD_LETTERS))]
    assert sorted(letter.value or b"" for letter in letters) == sorted(broken)
    assert {letter.worker for letter in letters} == {WORKER}


def test_producer_duplicates_count_once(topics: Settings) -> None:
    rng = random.Random(2)
    events = [completed(number, rng) for number in range(200)]
    values = [encode(event) for event in events]
    send(topics, values)
    send(topics, values[::-1], key=b"other")  # again, on other partitions
    history_loop(topics).run(until_end=True)
    assert_exact(topics, events)


def test_replay_by_a_second_consumer_group_is_idempotent(topics: Settings) -> None:
    rng = random.Random(3)
    events = [completed(number, rng) for number in range(3000)]
    send(topics, [encode(event) for event in events])
    history_loop(topics).run(until_end=True)
    before = statistics(topics)
    assert_exact(topics, events)
    store = HistoryStore(connect(topics.redis_url), topics.redis_prefix)
    again = list(read_range(topics, topics.topic(COMPLETED)))
    assert len(again) == 3000
    for begin in range(0, 3000, 700):
        assert store.apply(read(again[begin : begin + 700], CATALOG)[0]).added == 0
    assert statistics(topics) == before


def test_lost_replies_after_the_write_do_not_duplicate(topics: Settings) -> None:
    """The proxy passes the request on and closes the connection instead of passing the reply back."""
    rng = random.Random(4)
    events = [completed(number, rng) for number in range(2000)]
    send(topics, [encode(event) for event in events])
    host, port = topics.redis_url.removeprefix("redis://").removesuffix("/0").split(":")
    with Proxy(host, int(port), lost=0.2, seed=5) as proxy:
        through = replace(topics, redis_url=f"redis://127.0.0.1:{proxy.port}/0")
        loop = history_loop(through)
        loop._batch_size = 200
        loop.run(until_end=True)
        assert proxy.dropped > 3
    assert_exact(topics, events)


def test_worker_survives_a_redis_outage(topics: Settings) -> None:
    rng = random.Random(6)
    events = [completed(number, rng) for number in range(500)]
    send(topics, [encode(event) for event in events] + [b"broken"])
    host, port = topics.redis_url.removeprefix("redis://").removesuffix("/0").split(":")
    with Proxy(host, int(port)) as proxy:
        loop = history_loop(replace(topics, redis_url=f"redis://127.0.0.1:{proxy.port}/0"))
        proxy.refuse = True
        thread = threading.Thread(target=loop.run, kwargs={"until_end": True})
        thread.start()
        wait(lambda: proxy.refused > 0)
        assert statistics(topics) == {}
        assert list(read_range(topics, topics.topic(DEAD_LETTERS))) == []
        proxy.refuse = False
        thread.join(60)
        assert not thread.is_alive()
    assert_exact(topics, events)
    assert len(list(read_range(topics, topics.topic(DEAD_LETTERS)))) == 1


WORKER_PROCESS = """
import os, sys
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.history.worker import history_loop
from leap.streams.runtime.settings import Settings

class Slow(BatchLoop):
    written = 0

    def _commit(self):  # written, and for a while not committed: where the test kills, at the latest in the end
        import time
        Slow.written += len(self._uncommitted)
        time.sleep(0.05 if Slow.written < 1000 else 600)
        super()._commit()

import leap.streams.consumer.batch_loop, leap.streams.history.worker
leap.streams.consumer.batch_loop.COMMIT_EVERY_S = 0.0
leap.streams.history.worker.BatchLoop = Slow
loop = history_loop(Settings.from_environment(os.environ))
loop._batch_size = 150
loop.run()
"""


@pytest.mark.timeout(300)
def test_statistics_are_exact_when_killed_between_write_and_commit(topics: Settings, tmp_path: Path) -> None:
    rng = random.Random(7)
    events = [completed(number, rng) for number in range(4000)]
    send(topics, [encode(event) for event in events])
    total, kills = 0, 0
    while total < len(events):
        before = total
        with worker(topics, tmp_path) as group:
            deadline = time.monotonic() + 60
            while total < len(events) and (total < before + 700 or rng.random() < 0.5):
                assert time.monotonic() < deadline, (tmp_path / "worker.log").read_text()
                total = sum(statistic.n for key, statistic in statistics(topics).items() if key.kind == "family")
            os.killpg(group, signal.SIGKILL)
            kills += 1
    assert kills >= 4
    history_loop(topics).run(until_end=True)  # what the last one wrote without committing comes again
    assert_exact(topics, events)


def worker(settings: Settings, tmp_path: Path) -> AbstractContextManager[int]:
    command = [sys.executable, "-c", WORKER_PROCESS]
    return child(command, tmp_path / "worker.log", lambda: True, settings.to_environment())


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.02)
