"""A family that asks for one shape and is given another on some hardware, from events through workers to a replay."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.retrainer.dataset.feature_table import log_target
from leap.retrainer.dataset.partitions import Partitions, day_number
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.statistics_array import difference
from leap.retrainer.night import connectors
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.retrainer.replay.replay import read_lines, replay, routers
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.hardware import load_catalog
from leap.schemas.launch import LaunchConfig
from leap.streams.history.audit import audit
from leap.streams.history.store import HistoryStore
from leap.streams.history.worker import history_loop
from leap.streams.joining.worker import joiner_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.partition_key import JobEvent, address
from leap.streams.launcher.launcher import Launcher
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings

START, DAYS = datetime(2026, 6, 1, tzinfo=UTC), 20
NIGHT = date(2026, 6, 1) + timedelta(days=DAYS)
SLOW, FAST = "A100-SXM-80GB", "H100-SXM-80GB"
ASKED = LaunchConfig(num_trainers=4, accelerators_per_trainer=8, batch_size=512)


def attempt(number: int, hardware_type: str, hosts: int) -> tuple[JobSubmitted, JobAllocated, JobCompleted]:
    """One of a family that asks for 4 x 8 and gets some hosts, on which it reaches 4,000 samples/s."""
    hour, name, job = timedelta(hours=1), f"el-{number}", "elastic-llm-train"
    at = START + 12 * number * hour
    return (
        JobSubmitted(
            attempt_id=name,
            job_name=job,
            model_type="elastic-llm",
            submitted_at=at,
            config=ASKED,
            candidates=(SLOW, FAST),
        ),
        JobAllocated(
            attempt_id=name,
            hardware_type=hardware_type,
            hosts=hosts,
            accelerators=8 * hosts,
            allocated_at=at + hour / 60,
        ),
        JobCompleted(
            attempt_id=name,
            job_name=job,
            model_type="elastic-llm",
            hardware_type=hardware_type,
            started_at=at + hour / 30,
            finished_at=at + 2 * hour,
            status=SUCCEEDED,
            measurements={THROUGHPUT: 4000.0},
        ),
    )


def send(settings: Settings, events: list[JobEvent], by_launcher: bool) -> None:
    """Send them by a launcher, which states the shapes, or as they are."""
    if by_launcher:
        with Launcher(settings) as launcher:
            send_one = {
                JobSubmitted: launcher.submitted, JobAllocated: launcher.allocated, JobCompleted: launcher.completed
            }  # fmt: skip
            for event in events:
                assert send_one[type(event)](event)  # type: ignore[arg-type]
        return
    producer = CheckedProducer(settings)
    for event in events:
        topic, key = address(event)
        producer.produce(settings.topic(topic), msgspec.json.encode(event), key)
    producer.flush()


@pytest.mark.parametrize(
    ("by_launcher", "slow_hosts", "fast_hosts"),
    [(False, 4, 2), (True, 8, 4)],
    ids=["fewer, as the allocation says", "more, as the completion says"],
)
def test_what_ran_is_what_is_learned(
    topics: Settings, tmp_path: Path, by_launcher: bool, slow_hosts: int, fast_hosts: int
) -> None:
    events: list[JobEvent] = [
        event
        for number in range(2 * DAYS)
        for event in (attempt(number, FAST, fast_hosts) if number % 2 else attempt(number, SLOW, slow_hosts))
    ]
    send(topics, events + events[-30:], by_launcher)  # some twice
    for loop in (history_loop(topics), joiner_loop(topics)):
        loop.run(until_end=True)
    with connect(topics.redis_url) as client:
        audited = audit(topics, HistoryStore(client, topics.redis_prefix), THROUGHPUT)
    assert (audited.whole, audited.compared, audited.differences) == (True, 4, [])

    catalog = load_catalog()
    partitions, store = Partitions(tmp_path / "partitions", catalog), LocalStore(tmp_path / "artifacts")
    connectors.ingest_attempts(topics)(partitions)
    rows = partitions.read(partitions.days())
    assert rows.groupby("hardware_type")["num_trainers"].unique().map(list).to_dict() == {
        SLOW: [slow_hosts],
        FAST: [fast_hosts],
    }
    frozen = connectors.snapshot(topics, THROUGHPUT)(partitions.files)
    recomputed = PointInTimeStatistics(rows, log_target(rows, THROUGHPUT)).records(day_number(NIGHT))
    compared = difference(frozen.records[np.argsort(frozen.records["key"])], recomputed)
    assert (compared.keys, compared.equal) == (4, 4)

    report = Night(partitions, store, catalog, snapshot=lambda files: frozen).run(
        Plan(night=NIGHT, accept_anomalies=True)
    )
    (router,) = routers(topics, store, [report.artifact])
    answer = router.rank(attempt(2 * DAYS, FAST, 4)[0])
    expected = {candidate.hardware_type: candidate.throughput for candidate in answer.ranked}
    assert list(expected) == [FAST, SLOW]
    assert expected[SLOW] == pytest.approx(4000 * 4 / slow_hosts, rel=0.1)
    assert expected[FAST] == pytest.approx(4000 * 4 / fast_hosts, rel=0.1)
    last = dict(
        zip(answer.candidates, np.exp(np.array(answer.served_history["family_hardware_last"], float)), strict=True)
    )
    assert last[SLOW] == pytest.approx(2000 if by_launcher else 4000, rel=1e-3)

    replay(topics, [router], START, START + timedelta(days=1), tmp_path / "replay")
    for line in read_lines(tmp_path / "replay"):
        hosts = slow_hosts if line.hardware_type == SLOW else fast_hosts
        assert line.configuration == f"{hosts} x 8, batch 512"
        assert line.asked == (None if hosts == 4 else "4 x 8, batch 512")
        assert line.predicted == pytest.approx(line.measured, rel=0.05)
