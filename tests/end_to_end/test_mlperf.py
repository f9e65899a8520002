"""The main job on real events: MLPerf runs through broker, store, workers, a night and the ranking worker.

Workers of each kind are killed with -9 again and again meanwhile, and broken messages stand between the good.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

from leap.predictor.artifacts.open import open_store
from leap.predictor.features.job_family import family
from leap.predictor.models.accuracy import accuracy
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night import connectors as edges
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.schemas.backfill.mapping import load_mapping
from leap.schemas.codec import MAX_DECODED_BYTES, decode, encode
from leap.schemas.events import THROUGHPUT, DeadLetter, JobAttempt, JobCompleted, JobSubmitted, PreferenceList
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import ATTEMPTS, COMPLETED, DEAD_LETTERS, PREFERENCES, SUBMITTED
from leap.streams.backfill.row_events import Job, in_time_order
from leap.streams.backfill.sender import pace, read_table, send
from leap.streams.embedded import child
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.partition_key import JobEvent
from leap.streams.kafka.range_reader import read_range
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings

USABLE = 17_067
NIGHT = date(2024, 5, 1)  # between round v3.1 and round v4.0
WINDOW_DAYS = 3_000
BROKEN = 10_000
PATIENCE_S = 240


def broken_messages() -> list[bytes]:
    """Truncated, of wrong types, huge, NaN, negative, deeply nested, not UTF-8: none of them valid."""
    rng = random.Random(0)
    whole = encode(
        JobCompleted(
            attempt_id="x", job_name="n", hardware_type="h", started_at=datetime(2024, 1, 1, tzinfo=UTC),
            finished_at=datetime(2024, 1, 2, tzinfo=UTC), status="succeeded", measurements={THROUGHPUT: 5.5},
        )
    )  # fmt: skip
    makers: list[Callable[[], bytes]] = [
        lambda: whole[: rng.randrange(len(whole))],
        lambda: whole.replace(b'"x"', str(rng.randrange(10**6)).encode()),
        lambda: b'{"pad":"' + b"p" * rng.randrange(1, 200_000),
        lambda: whole.replace(b"5.5", rng.choice([b"NaN", b"Infinity", b"-Infinity", b"1e999"])),
        lambda: whole.replace(b"5.5", b"-%d.5" % rng.randrange(10**6)),
        lambda: b"[" * rng.randrange(2_000, 50_000),
        lambda: whole.replace(b'"n"', b'"\xc3\x28%d"' % rng.randrange(10**6)),
    ]
    return [makers[number % len(makers)]() for number in range(BROKEN)]


@pytest.fixture
def jobs(shared_data: Path) -> list[Job]:
    table = read_table(shared_data / "mlperf-training" / "runs.csv", load_mapping("mlperf"), load_catalog())
    assert (len(table.jobs), len(table.bad)) == (USABLE, 0)
    return table.jobs


def values(settings: Settings, topic: str) -> Iterator[bytes]:
    for message in read_range(settings, settings.topic(topic)):
        if message.value is not None:
            yield message.value


def wait_for(what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.5)


class Worker:
    """A worker process that is killed and started again."""

    def __init__(self, name: str, settings: Settings, folder: Path) -> None:
        self._name = name
        self._settings = settings
        self._folder = folder
        self.kills = 0

    def killed_until(self, stop: threading.Event, seed: int) -> None:
        """Start, kill with -9 after a while, and again until `stop` and three times at least."""
        rng = random.Random(seed)
        while self.kills < 3 or not stop.is_set():
            with self.running() as group:
                time.sleep(rng.uniform(1.5, 4.0))
                os.killpg(group, signal.SIGKILL)
                self.kills += 1

    @contextmanager
    def running(self) -> Iterator[int]:
        command = [sys.executable, "-m", "leap", "worker", self._name]
        log = self._folder / f"{self._name}.log"
        with child(command, log, lambda: True, self._settings.to_environment()) as group:
            yield group


def statistics(settings: Settings) -> dict[Key, tuple[int, float, float]]:
    store = HistoryStore(connect(settings.redis_url), settings.redis_prefix)
    return {
        key: (found.n, found.mean, found.deviation)
        for bucket in store.buckets(THROUGHPUT)
        for key, found in bucket.statistics.items()
    }


def assert_equal_to_numpy(settings: Settings, completions: list[JobCompleted]) -> None:
    expected: dict[str, list[float]] = {}
    for completed in completions:
        expected.setdefault(family(completed.job_name), []).append(np.log(completed.measurements[THROUGHPUT]))
    found = {key.name: value for key, value in statistics(settings).items() if key.kind == "family"}
    assert found.keys() == expected.keys()
    for name, logs in expected.items():
        n, mean, deviation = found[name]
        assert n == len(logs), name
        np.testing.assert_allclose(mean, np.mean(logs), rtol=1e-12)
        if n > 1:
            np.testing.assert_allclose(deviation, np.std(logs, ddof=1), rtol=1e-12, atol=1e-12)


@pytest.mark.timeout(900)
def test_mlperf_end_to_end(topics: Settings, jobs: list[Job], tmp_path: Path) -> None:
    settings = replace(topics, artifacts=str(tmp_path / "artifacts"), partitions=str(tmp_path / "partitions"))
    events: list[JobEvent] = in_time_order(jobs)
    completions = [event for event in events if isinstance(event, JobCompleted)]
    submissions = {event.attempt_id: event for event in events if isinstance(event, JobSubmitted)}
    broken = broken_messages()
    workers = {name: Worker(name, settings, tmp_path) for name in ("history", "joiner", "ranking")}

    # Everything is sent while the workers are killed.
    sent = threading.Event()
    killers = [
        threading.Thread(target=worker.killed_until, args=(sent, seed)) for seed, worker in enumerate(workers.values())
    ]
    for killer in killers:
        killer.start()
    started = time.monotonic()
    pollute = threading.Thread(target=send_broken, args=(settings, broken))
    pollute.start()
    send(settings, events, pace("800", events))
    pollute.join()
    sent.set()
    for killer in killers:
        killer.join()
    with ExitStack() as running:
        for worker in workers.values():
            running.enter_context(worker.running())
        wait_for("the statistics", lambda: counted(settings) >= len(completions))
        joined = {}

        def all_joined() -> bool:
            found = [decode(value, JobAttempt, MAX_DECODED_BYTES) for value in values(settings, ATTEMPTS)]
            joined.update({attempt.attempt_id: attempt for attempt in found})
            return joined.keys() >= submissions.keys()

        wait_for("the joined attempts", all_joined)
        answered: set[str] = set()

        def all_answered() -> bool:
            answered.update(decode(value, PreferenceList).attempt_id for value in values(settings, PREFERENCES))
            return answered >= submissions.keys()

        wait_for("an answer to each submission", all_answered)
        drained = time.monotonic() - started
        assert_equal_to_numpy(settings, completions)
        assert joined.keys() == submissions.keys() == answered
        letters = [decode(value, DeadLetter, MAX_DECODED_BYTES) for value in values(settings, DEAD_LETTERS)]
        # A worker that was killed sends a letter again; its place says that it is the same. Submissions have two
        # readers and completions have two, so each broken message is set aside by both.
        places = {(letter.worker, letter.topic, letter.partition, letter.offset): letter.value for letter in letters}
        assert sorted(value or b"" for value in places.values()) == sorted([*broken, *broken])

        # A night as of a past date, then the next round through the ranking worker.
        partitions = Partitions(Path(settings.partitions))
        night = Night(
            partitions, open_store(settings.artifacts), load_catalog(),
            ingest=edges.ingest_attempts(settings),
            announce=edges.announce(settings),
        )  # fmt: skip
        # Rounds lie months apart, and whatever its scores the night promotes.
        plan = Plan(
            night=NIGHT, window_days=WINDOW_DAYS, keep_days=WINDOW_DAYS, max_missing=WINDOW_DAYS, margin=100.0
        )  # fmt: skip
        report = night.run(plan)
        assert report.promoted
        wait_for(
            "the pointer to be followed", lambda: (tmp_path / "ranking.log").read_text().count("artifact in use") > 0
        )
        later = [job for job in submissions.values() if job.submitted_at.date() >= NIGHT]
        next_round = [job for job in later if (job.submitted_at.date() - later[0].submitted_at.date()).days < 60]
        producer = CheckedProducer(settings)
        for job in next_round:
            producer.produce(settings.topic(SUBMITTED), encode(job), job.attempt_id.encode())
        producer.flush()
        lists: dict[str, PreferenceList] = {}

        def ranked() -> bool:
            found = (decode(value, PreferenceList) for value in values(settings, PREFERENCES))
            lists.update({answer.attempt_id: answer for answer in found if answer.artifact == report.artifact})
            return lists.keys() >= {job.attempt_id for job in next_round}

        wait_for("the next round's lists", ranked)

    past = {key_of(attempt) for attempt in joined.values() if attempt.submitted.submitted_at.date() < NIGHT}
    attempts = [joined[job.attempt_id] for job in next_round]
    predicted = np.array([throughput(lists[attempt.attempt_id], attempt) for attempt in attempts])
    measured = np.array([attempt.completed.measurements[THROUGHPUT] for attempt in attempts])
    seen = np.array([key_of(attempt) in past for attempt in attempts])
    result = {
        "attempts": USABLE,
        "kills": {name: worker.kills for name, worker in workers.items()},
        "seconds_to_drain": round(drained, 1),
        "night": NIGHT.isoformat(),
        "recipe": report.champion,
        "all": accuracy(predicted, measured),
        "seen": accuracy(predicted[seen], measured[seen]),
        "unseen": accuracy(predicted[~seen], measured[~seen]),
    }
    print(json.dumps(result, default=lambda found: {name: getattr(found, name) for name in found.__struct_fields__}))
    assert not np.isnan(predicted).any(), "an estimate for every attempt"


def send_broken(settings: Settings, broken: list[bytes]) -> None:
    producer = CheckedProducer(settings)
    for number, value in enumerate(broken):
        producer.produce(settings.topic(SUBMITTED if number % 2 else COMPLETED), value)
        if number % 200 == 0:
            time.sleep(0.1)
    producer.flush()


def counted(settings: Settings) -> int:
    return sum(found[0] for key, found in statistics(settings).items() if key.kind == "family")


def key_of(attempt: JobAttempt) -> tuple[str, str, int]:
    return attempt.submitted.model_type, attempt.completed.hardware_type, attempt.submitted.config.accelerators


def throughput(answer: PreferenceList, attempt: JobAttempt) -> float:
    candidates = {one.hardware_type: one.throughput for one in answer.ranked}
    candidates |= {one.hardware_type: one.throughput or np.nan for one in answer.excluded}
    return candidates[attempt.completed.hardware_type]
