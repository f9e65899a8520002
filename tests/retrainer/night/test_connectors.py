"""Where a night meets Kafka and Redis, on both as they run."""

import math
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer

from leap.predictor.history.snapshot import key_hash
from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.feature_table import frame, log_target
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.record import FILE, Record
from leap.retrainer.dataset.statistics_array import difference
from leap.retrainer.night import connectors
from leap.retrainer.storage.files import LocalFiles
from leap.schemas.codec import decode, encode
from leap.schemas.events import THROUGHPUT, ArtifactPublished, JobAttempt
from leap.schemas.topics import ARTIFACTS, ATTEMPTS, COMPLETED, DEAD_LETTERS
from leap.streams.history.rebuild import rebuild
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Observation
from leap.streams.history.worker import history_loop, keys
from leap.streams.kafka.clients import CheckedProducer, commit_offsets, consumer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.artifacts import past
from tests.builders import CATALOG


def send(settings: Settings, topic: str, values: list[bytes]) -> None:
    producer = CheckedProducer(settings)
    for value in values:
        producer.produce(settings.topic(topic), value)
    producer.flush()


def test_attempts_of_the_topic_become_partitions_once(topics: Settings, tmp_path: Path) -> None:
    made = past()
    partitions = Partitions(tmp_path)
    send(topics, ATTEMPTS, [*map(encode, made[:400]), b"broken", *map(encode, made[350:400])])
    assert len(connectors.ingest_attempts(topics)(partitions)) == 7
    assert set(partitions.read(partitions.days())["attempt_id"]) == {one.attempt_id for one in made[:400]}
    send(topics, ATTEMPTS, [encode(one) for one in made[400:]])
    assert len(connectors.ingest_attempts(topics)(partitions)) == 4
    assert connectors.ingest_attempts(topics)(partitions) == []
    rows = partitions.read(partitions.days())
    assert sorted(rows["attempt_id"]) == sorted(one.attempt_id for one in made)
    [letter] = read_range(topics, topics.topic(DEAD_LETTERS))
    assert b"retrainer" in (letter.value or b"")


def test_a_night_that_dies_before_its_partitions_are_written_reads_the_attempts_again(
    topics: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """Nothing handles it, as nothing handles kill -9."""

    def die(attempts: list[JobAttempt]) -> list[object]:
        raise Killed

    partitions = Partitions(tmp_path)
    send(topics, ATTEMPTS, [encode(one) for one in past()])
    with monkeypatch.context() as patched:
        patched.setattr(partitions, "ingest", die)
        with pytest.raises(Killed):
            connectors.ingest_attempts(topics)(partitions)
    connectors.ingest_attempts(topics)(partitions)
    assert len(partitions.read(partitions.days())) == len(past())


def test_partitions_take_nothing_from_each_other_and_trials_nothing_at_all(topics: Settings, tmp_path: Path) -> None:
    made = past()
    send(topics, ATTEMPTS, [*map(encode, made[:400]), b"broken"])
    ours, theirs = Partitions(tmp_path / "ours"), Partitions(tmp_path / "theirs")
    absorbed = connectors.ingest_attempts(topics)
    absorbed(ours)
    send(topics, ATTEMPTS, [encode(one) for one in made[400:]])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    trial = ours.for_trial()
    absorbed(trial)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    for partitions in (theirs, ours):
        absorbed(partitions)
        assert len(partitions.read(partitions.days())) == len(made) == len(trial.read(trial.days()))
    assert Record.read(ours.files) == Record.read(theirs.files) == Record.read(trial.files)
    assert len([*read_range(topics, topics.topic(DEAD_LETTERS))]) == 2, "one from each, none from the trial"


def test_partitions_of_before_there_were_records_go_on_where_the_group_stood(topics: Settings, tmp_path: Path) -> None:
    made = past()
    partitions = Partitions(tmp_path)
    partitions.ingest(made[:400])
    partitions.files.remove(FILE)
    name = topics.topic(ATTEMPTS)
    send(topics, ATTEMPTS, [encode(one) for one in made[:400]])
    messages = [*read_range(topics, name)]
    ends = {(name, one.partition): one.offset + 1 for one in messages}
    consumer = Consumer(consumer_config(topics, connectors.WORKER))
    commit_offsets(consumer, ends)
    consumer.close()
    assert connectors.ingest_attempts(topics)(partitions) == [], "what it had absorbed is not read again"
    begins = {f"{messages[0].topic_id}/{number}": offset for (_, number), offset in ends.items()}
    assert Record.read(partitions.files) == Record(begins)
    send(topics, ATTEMPTS, [encode(one) for one in made[400:]])
    assert len(connectors.ingest_attempts(topics)(partitions)) == 4
    assert len(partitions.read(partitions.days())) == len(made)


def test_the_announcement_is_on_the_topic(topics: Settings) -> None:
    event = ArtifactPublished(
        target=THROUGHPUT, artifact="v1", promoted=True, reason="better", published_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    connectors.announce(topics)(event)
    [message] = read_range(topics, topics.topic(ARTIFACTS))
    assert decode(message.value, ArtifactPublished) == event


def test_the_store_holds_what_the_partitions_say(topics: Settings, tmp_path: Path) -> None:
    made = past()
    send(topics, COMPLETED, [encode(one.completed) for one in made])
    history_loop(topics).run(until_end=True)
    rows = frame(made)
    # What the history worker counts under the family that it works out of the name, the table has by that family.
    rows["family"] = [keys(one.completed, CATALOG)[0].name for one in made]
    statistics = PointInTimeStatistics(rows, log_target(rows, THROUGHPUT))
    frozen = connectors.snapshot(topics, THROUGHPUT)(LocalFiles(tmp_path))
    found = difference(frozen.records, statistics.records(100_000))
    assert (found.keys, found.equal) == (12 + 36 + 4, 12 + 36 + 4)
    assert sum(offset + 1 for offset in frozen.fences.values()) == len(made)


def test_what_a_night_backed_up_is_restored(topics: Settings, tmp_path: Path) -> None:
    send(topics, COMPLETED, [encode(one.completed) for one in past()])
    history_loop(topics).run(until_end=True)
    files = LocalFiles(tmp_path)
    files.write(f"history/{THROUGHPUT}-2026-01-01.gz", b"old")
    for day in range(2, 9):
        files.write(f"history/{THROUGHPUT}-2026-01-0{day}.gz", b"kept")
    before = connectors.snapshot(topics, THROUGHPUT)(files)
    *kept, newest = files.names("history/*")
    assert len(kept) == 6 and files.read(kept[0]) == b"kept"
    with connect(topics.redis_url) as client:
        store = HistoryStore(client, topics.redis_prefix)
        store.remove(THROUGHPUT, 0)
        rebuild(topics, store, backup=tmp_path / newest)
    after = connectors.snapshot(topics, THROUGHPUT)(files)
    assert difference(after.records, before.records).equal == len(before.records)


def test_nights_over_an_emptied_store_do_not_push_out_the_backup_that_holds_most(
    topics: Settings, tmp_path: Path
) -> None:
    files = LocalFiles(tmp_path)
    files.write(f"history/{THROUGHPUT}-2026-01-01.gz", b"before" * 1000)
    files.write(f"history/{THROUGHPUT}-2026-01-02.gz", b"best" * 2000)
    for day in range(3, 10):
        files.write(f"history/{THROUGHPUT}-2026-01-0{day}.gz", b"emptied")
    connectors.snapshot(topics, THROUGHPUT)(files)
    names = files.names("history/*")
    assert len(names) == 1 + connectors.KEPT_BACKUPS
    assert files.read(names[0]) == b"best" * 2000


def test_every_family_is_whole_while_writers_go_on(settings: Settings, tmp_path: Path) -> None:
    """An attempt counts for its family and for the family on one hardware type: in a snapshot the sums agree."""
    attempts = past()
    about = [keys(one.completed, CATALOG) for one in attempts]
    stop = threading.Event()

    def write(source: str) -> None:
        offset = 0
        with connect(settings.redis_url) as client:
            store = HistoryStore(client, settings.redis_prefix)
            while not stop.is_set():
                batch = []
                for _ in range(50):
                    key = about[offset % len(about)]
                    name = f"{source}-{offset}"
                    batch.append(
                        Observation(source, offset, name, THROUGHPUT, math.log(2 + offset), float(offset), key)
                    )
                    offset += 1
                store.apply(batch)

    writers = [threading.Thread(target=write, args=(f"topic/{number}",)) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        frozen = [connectors.snapshot(settings, THROUGHPUT)(LocalFiles(tmp_path)) for _ in range(8)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    totals = [records["n"][records["family"] == records["key"]].sum() for records in (one.records for one in frozen)]
    assert totals[-1] > totals[0], "the writers wrote nothing meanwhile"
    for one in frozen:
        whole, parts = Counter[int](), Counter[int]()
        for key, family, n in zip(*(one.records[name].tolist() for name in ("key", "family", "n")), strict=True):
            if key == family:
                whole[family] += n
            elif family:
                parts[family] += n
        assert whole == parts
        assert len(statistics_array.snapshot(one.records)) == len(one.records)
    assert set(frozen[-1].fences) == {"topic/0", "topic/1"}
    assert key_hash("family", about[0][0].name) in frozen[-1].records["key"]
    assert np.all(frozen[-1].records["n"] >= 1)
