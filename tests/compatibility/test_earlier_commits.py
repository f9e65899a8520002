"""What earlier commits wrote is read by this one: artifacts, partitions, topics, keys of the store and backups.

Each ``<commit>.tar.xz`` beside this file was made at that commit by :mod:`tests.compatibility.make`.
"""

import base64
import gzip
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from leap.predictor.artifacts.artifact import load
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.ranking import Policy, rank
from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.feature_table import log_target
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.point_in_time import observations
from leap.retrainer.night.connectors import snapshot
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.schemas.codec import decode, encode
from leap.schemas.events import (
    THROUGHPUT,
    ArtifactPublished,
    DeadLetter,
    Event,
    JobAllocated,
    JobAttempt,
    JobCompleted,
    JobSubmitted,
    PreferenceList,
)
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import load_topics
from leap.streams.history.backup import read_backup
from leap.streams.history.store import HistoryStore
from leap.streams.kafka.partition_key import address
from leap.streams.redis_store.client import Client, connect
from leap.streams.redis_store.offset_fence import OffsetRange
from leap.streams.runtime.settings import Settings
from tests.compatibility.make import DAYS, DECIDED_AT, NIGHT, RECIPES

SETS = sorted(Path(__file__).parent.glob("*.tar.xz"))
#: Of ln throughput, where trees were added up in float32: its steps are 1e-6 wide at the ln of 60,000 samples/s.
ROUNDING = {"structured": 1e-6, "boosted": 1e-6, "paper": 2e-6}
EVENTS: dict[str, type[Event]] = {
    "job-submitted": JobSubmitted,
    "job-allocated": JobAllocated,
    "job-completed": JobCompleted,
    "job-attempt": JobAttempt,
    "preference-list": PreferenceList,
    "artifact-published": ArtifactPublished,
    "dead-letter": DeadLetter,
}


@pytest.fixture(scope="module", params=SETS, ids=lambda path: path.name.partition(".")[0])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with what one earlier commit made."""
    folder = tmp_path_factory.mktemp("made")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    return folder


def of_json(path: Path, event_type: type[Any]) -> list[Any]:
    return [decode(line, event_type) for line in path.read_bytes().splitlines()]


def records(made: Path) -> Iterator[dict[str, str]]:
    for line in gzip.decompress((made / "topics.jsonl.gz").read_bytes()).splitlines():
        yield msgspec.json.decode(line)


@pytest.mark.parametrize("recipe", RECIPES)
def test_artifacts_rank_as_they_did(made: Path, recipe: str) -> None:
    store = LocalStore(made / "artifacts")
    artifact = load(store.folder(THROUGHPUT, (made / f"{recipe}.version").read_text()))
    before = of_json(made / f"{recipe}.jsonl", PreferenceList)
    lists = rank(artifact, of_json(made / "submissions.jsonl", JobSubmitted), Policy(), DECIDED_AT)
    assert len(lists) == len(before) > 20
    for answer, expected in zip(lists, before, strict=True):
        assert [candidate.hardware_type for candidate in answer.ranked] == [
            candidate.hardware_type for candidate in expected.ranked
        ]
        assert [excluded.reason for excluded in answer.excluded] == [excluded.reason for excluded in expected.excluded]
        for name in ("throughput", "lower", "upper", "score"):
            values, stored = ([getattr(one, name) for one in each.ranked] for each in (answer, expected))
            assert values == pytest.approx(stored, rel=ROUNDING[recipe])
        assert answer.served_history.keys() == expected.served_history.keys()
        for name, values in expected.served_history.items():
            assert answer.served_history[name] == pytest.approx(values, nan_ok=True)


def test_the_pointer_names_one_of_them(made: Path) -> None:
    store = LocalStore(made / "artifacts")
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert pointer.version in store.versions(THROUGHPUT)


def test_partitions_are_trained_on(made: Path, tmp_path: Path) -> None:
    partitions = Partitions(made / "partitions")
    assert len(partitions.days()) == DAYS - 1
    plan = Plan(night=NIGHT, window_days=DAYS - 1, recipes=("structured",))
    report = Night(partitions, LocalStore(tmp_path), load_catalog()).run(plan)
    before = msgspec.json.decode((made / f"partitions/reports/throughput-{NIGHT}.json").read_bytes())
    assert (report.trained_on, report.held_out) == (before["trained_on"], before["held_out"])


def test_records_of_every_topic_are_read_and_written_alike(made: Path) -> None:
    seen = set()
    for record in records(made):
        key, value = (base64.b64decode(record[name]) for name in ("key", "value"))
        event = decode(value, EVENTS[record["topic"]])
        assert msgspec.json.decode(encode(event)) == msgspec.json.decode(value)
        if isinstance(event, JobSubmitted | JobAllocated | JobCompleted):
            assert address(event) == (record["topic"], key)
        seen.add(record["topic"])
    assert {"job-submitted", "job-allocated", "job-completed", "job-attempt"} <= seen <= load_topics().keys()


def restore(client: Client, made: Path, prefix: str) -> None:
    """Put the keys of the earlier store under another prefix."""
    stored = msgspec.json.decode(gzip.decompress((made / "store.json.gz").read_bytes()))
    for encoded, entry in stored.items():
        name = base64.b64decode(encoded).decode()
        key = f"{prefix}:{name.partition(':')[2]}"
        match entry["type"], entry["value"]:
            case "hash", fields:
                pairs = {base64.b64decode(field): base64.b64decode(value) for field, value in fields.items()}
                client.hset(key, items=[part for pair in pairs.items() for part in pair])
            case "string", value:
                client.set(key, base64.b64decode(value))
            case "zset", members:
                client.zadd(key, {base64.b64decode(member): score for member, score in members})


def test_keys_of_the_store_go_on_being_exact(made: Path, settings: Settings, tmp_path: Path) -> None:
    client = connect(settings.redis_url)
    restore(client, made, settings.redis_prefix)
    partitions = Partitions(made / "partitions")
    rows = partitions.read(partitions.days())
    expected = statistics_array.merged([observations(rows, log_target(rows, THROUGHPUT))])
    files = Partitions(tmp_path).files
    frozen = snapshot(settings, THROUGHPUT)(files)
    difference = statistics_array.difference(frozen.records, expected)
    assert (difference.behind, difference.unequal) == (0, 0)
    assert difference.equal > 100

    store = HistoryStore(client, settings.redis_prefix)
    # Fences are those that were written: the offsets before them are known to be applied, and nothing is lost.
    positions = {source: OffsetRange(offset + 1, offset + 1) for source, offset in frozen.fences.items()}
    assert positions
    assert store.apply([], {THROUGHPUT: positions}) == (0, 0, 0)


def test_backups_hold_what_the_store_held(made: Path, settings: Settings) -> None:
    client = connect(settings.redis_url)
    restore(client, made, settings.redis_prefix)
    store = HistoryStore(client, settings.redis_prefix)
    [path] = (made / "partitions/history").glob("*.gz")
    lines = {line.number: line.fields for line in read_backup(path)}
    for number, fields in enumerate(store.dump(THROUGHPUT, store.generation())):
        held = {name.decode(): value.decode() for name, value in fields.items()}
        assert lines[number] == held
    assert np.sum([len(fields) for fields in lines.values()]) > 100
