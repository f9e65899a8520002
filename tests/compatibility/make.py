"""Write what one commit makes of a small fleet, for later commits: ``python -m tests.compatibility.make FOLDER``.

Real workers on the embedded pair fill the topics and the store; nightly runs over what they joined publish an artifact
of each recipe; its lists for the last day's submissions are kept beside it.
"""

import base64
import gzip
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from leap.predictor.artifacts.artifact import load
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.ranking import Policy, rank
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.demo import Demo
from leap.retrainer.night import connectors
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.schemas.codec import encode
from leap.schemas.events import THROUGHPUT, JobSubmitted
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import load_topics
from leap.streams.embedded import embedded_pair
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from leap.streams.simulator.events import arrivals
from leap.streams.simulator.fleet import Fleet, FleetConfig

START, DAYS, A_DAY = date(2026, 3, 1), 6, 60
NIGHT = date(2026, 3, 6)
DECIDED_AT = datetime(2026, 3, 6, tzinfo=UTC)
RECIPES = ("structured", "boosted", "paper")
JOBS = 40


def events() -> tuple[list[Any], list[JobSubmitted]]:
    """All events before the last day, and the last day's submissions."""
    fleet = Fleet(FleetConfig(start=START, days=DAYS, attempts_per_day=A_DAY))
    arrived = sorted(
        (arrival for day in range(DAYS) for arrival in arrivals(fleet.day(day))), key=lambda arrival: arrival.arrives_ms
    )
    past = [arrival.event for arrival in arrived if arrival.arrives_ms < DECIDED_AT.timestamp() * 1000.0]
    later = [arrival.event for arrival in arrived if arrival.arrives_ms >= DECIDED_AT.timestamp() * 1000.0]
    return past, [event for event in later if isinstance(event, JobSubmitted)][:JOBS]


def stored(settings: Settings) -> dict[str, Any]:
    """Every key of the store as plain data; bytes in base64."""
    client: Any = connect(settings.redis_url)
    readers = {
        b"hash": client.hgetall,
        b"string": client.get,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    return {_text(key): {"type": client.type(key).decode(), "value": _plain(readers[client.type(key)](key))}
            for key in sorted(client.scan_iter("*"))}  # fmt: skip


def lines(settings: Settings) -> Iterator[bytes]:
    """Every record of every topic, as a line of JSON."""
    for topic in load_topics():
        for message in read_range(settings, settings.topic(topic)):
            record = {"topic": topic, "key": _plain(message.key), "value": _plain(message.value)}
            yield msgspec.json.encode(record) + b"\n"


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return _text(value)
        case dict():
            return {_text(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def make(folder: Path) -> None:
    """Run the fleet and write the set."""
    past, submissions = events()
    with tempfile.TemporaryDirectory() as scratch, embedded_pair(Path(scratch) / "services") as pair:
        demo = Demo(Path(scratch), print)
        settings = replace(Settings.from_environment(pair.environment()), partitions=str(folder / "partitions"))
        ensure_topics(settings, load_topics().values())
        with ExitStack() as workers:
            for name in ("history", "joiner"):
                workers.enter_context(demo._worker(name, settings))
            demo._send(settings, past)
            demo._wait_for(settings, past)
        partitions = Partitions(Path(settings.partitions))
        store = LocalStore(folder / "artifacts")
        ingest, snapshot = (
            connectors.ingest_attempts(settings),
            connectors.snapshot(settings, THROUGHPUT),
        )
        for recipe in RECIPES:
            night = Night(partitions, store, load_catalog(), ingest=ingest, snapshot=snapshot)
            version = night.run(Plan(night=NIGHT, window_days=DAYS - 1, recipes=(recipe,))).artifact
            lists = rank(load(store.folder(THROUGHPUT, version)), submissions, Policy(), DECIDED_AT)
            (folder / f"{recipe}.jsonl").write_bytes(b"\n".join(encode(answer) for answer in lists))
            (folder / f"{recipe}.version").write_text(version)
        (folder / "submissions.jsonl").write_bytes(b"\n".join(encode(job) for job in submissions))
        (folder / "store.json.gz").write_bytes(gzip.compress(msgspec.json.encode(stored(settings)), mtime=0))
        (folder / "topics.jsonl.gz").write_bytes(gzip.compress(b"".join(lines(settings)), mtime=0))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
