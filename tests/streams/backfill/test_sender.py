"""Backfill: past jobs through Kafka, in order, at a chosen speed; and the command around it."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from leap.schemas.backfill.mapping import load_mapping
from leap.schemas.codec import decode
from leap.schemas.events import JobCompleted, JobSubmitted
from leap.schemas.hardware import load_catalog
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED
from leap.streams.backfill import sender
from leap.streams.backfill.processed import NotProcessed, wait_until_processed
from leap.streams.backfill.row_events import in_time_order
from leap.streams.backfill.sender import Interrupted, pace, read_table, send
from leap.streams.history.worker import history_loop
from leap.streams.joining.attempt import event_time
from leap.streams.joining.worker import joiner_loop
from leap.streams.kafka.partition_key import JobEvent
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings
from tests.commands import invoke

START = datetime(2019, 3, 1, 8, tzinfo=UTC)
MAPPING = """
attempt_id: id
job_name: name
model_type: name
hardware_type: gpu
submitted_at: start
run_seconds: seconds
config: {num_trainers: nodes, accelerators_per_trainer: 8}
measurements: {throughput: rate}
keep: [{column: state, equals: done}]
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twenty jobs an hour apart, backwards, of 90 minutes each; two bad rows and one that is left out."""
    lines = ["id,name,gpu,start,seconds,nodes,rate,state"]
    for number in reversed(range(20)):
        start = (START + timedelta(hours=number)).isoformat()
        lines.append(f"a-{number},bert-{number % 3},H200-NVL,{start},5400,2,{100 + number},done")
    lines += ["b-1,bert,H200-NVL,yesterday,1,2,5,done", "b-2,bert,H200-NVL,2019-03-01T08:00:00Z,1,0,5,done"]
    lines.append("c-1,bert,H200-NVL,2019-03-01T08:00:00Z,1,1,5,cancelled")
    (tmp_path / "map.yaml").write_text(MAPPING)
    (tmp_path / "jobs.csv").write_text("\n".join(lines))
    return tmp_path


def events_of(table: Path) -> list[JobEvent]:
    return in_time_order(read_table(table / "jobs.csv", load_mapping(table / "map.yaml"), load_catalog()).jobs)


def run(table: Path, *options: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    arguments = [str(table / "jobs.csv"), "--mapping", str(table / "map.yaml"), *options]
    done = invoke("backfill", *arguments, env=environment)
    return done.exit_code, done.stdout, done.stderr


def test_read_table_counts_rows_skipped_and_bad(table: Path) -> None:
    contents = read_table(table / "jobs.csv", load_mapping(table / "map.yaml"), load_catalog())
    assert (contents.tally.rows, contents.tally.left_out, len(contents.jobs), [bad.row for bad in contents.bad]) == (
        23,
        1,
        20,
        [21, 22],
    )


def test_backfill_delivers_all_events_in_time_order(topics: Settings, table: Path) -> None:
    code, out, err = run(table, "--json", environment=topics.to_environment())
    assert code == 0, err
    count = msgspec.json.decode(out)
    count.pop("seconds")
    assert count == {"rows": 23, "left_out": 1, "bad": 2, "attempts": 20, "to_learn_from": 20, "events_sent": 60}
    assert "bad, 1: submitted_at: does not match" in err and "row 21 ('yesterday')" in err and "row 22" in err
    now = datetime.now(UTC).timestamp() * 1000
    for topic in (SUBMITTED, ALLOCATED, COMPLETED):
        messages = list(read_range(topics, topics.topic(topic), None, None))
        assert len(messages) == 20
        assert all(message.timestamp_ms > now - 600_000 for message in messages)  # or retention deletes them
    by_partition: dict[int, list[datetime]] = {}
    for message in read_range(topics, topics.topic(COMPLETED), None, None):
        finished = decode(message.value, JobCompleted).finished_at
        by_partition.setdefault(message.partition, []).append(finished)
    assert all(times == sorted(times) for times in by_partition.values())


def test_interrupted_backfill_resumes_with_skip(topics: Settings, table: Path) -> None:
    events = events_of(table)
    acknowledged: list[int] = []
    send(topics, events[:25], lambda position, event: 0.0, on_sent=acknowledged.append)
    send(topics, events, lambda position, event: 0.0, skip=25, on_sent=acknowledged.append)
    assert acknowledged == [25, 35]
    for topic in (SUBMITTED, ALLOCATED, COMPLETED):
        assert len(list(read_range(topics, topics.topic(topic), None, None))) == 20


def test_unavailable_broker_interrupts_the_backfill(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "CHUNK", 10)
    absent = {"LEAP_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "LEAP_KAFKA_MESSAGE_TIMEOUT_MS": "20"}
    with pytest.raises(Interrupted, match="the first 0 events are delivered: resume with --skip 0"):
        send(Settings.from_environment(absent), events_of(table), lambda position, event: 0.0)


def test_pace_for_max_rate_and_multiples_of_real_time(table: Path) -> None:
    events = events_of(table)
    assert {pace("max", events)(n, event) for n, event in enumerate(events)} == {0.0}
    assert [pace("20", events)(n, events[n]) for n in (0, 3, 30)] == [0.0, 0.05, 0.5]
    fast = pace("3600x", events)
    assert [fast(n, event) for n, event in enumerate(events)] == [
        (event_time(event) - START).total_seconds() / 3600 for event in events
    ]
    for wrong in ("", "x", "-1", "0x", "nan", "inf", "fast"):
        with pytest.raises(ValueError, match="expected max, attempts per second"):
            pace(wrong, events)


def test_events_are_sent_at_their_due_time(topics: Settings, table: Path) -> None:
    events = events_of(table)
    now = 100.0
    sent_at: list[tuple[int, float]] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        assert 0 < seconds <= sender.SLEEP_S
        now += seconds

    def told(count: int) -> None:
        sent_at.append((count, now))

    send(topics, events, pace("3600x", events), on_sent=told, clock=lambda: now, sleep=sleep)
    assert sum(count for count, _ in sent_at) == 60
    assert sent_at[0] == (2, 100.0)  # the first job's submission and allocation, before any waiting
    assert now == pytest.approx(100.0 + 20.5)  # 19 hours and the last job's 90 minutes, at an hour a second


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--mapping", "nowhere.yaml"], "nowhere.yaml: No such file"),
        (["--speed", "fast"], "expected max, attempts per second"),
        (["--strict"], "nothing sent, because of --strict"),
    ],
)
def test_backfill_command_reports_invalid_arguments(table: Path, options: list[str], problem: str) -> None:
    code, _, err = run(table, *options)
    assert code == 1
    assert problem in err


def test_backfill_command_names_missing_topics(settings: Settings, table: Path) -> None:
    code, _, err = run(table, environment=settings.to_environment())
    assert code == 1
    assert settings.topic(SUBMITTED) in err


def test_dry_run_checks_limit_and_writes_rejects(table: Path) -> None:
    rejects = table / "rejects.jsonl"
    code, out, _ = run(table, "--dry-run", "--limit", "5", "--rejects", str(rejects))
    assert code == 0
    assert out.startswith("23 rows, 1 left out, 2 bad, 5 attempts, 20 to learn from, 0 events sent")
    bad = [msgspec.json.decode(line) for line in rejects.read_bytes().splitlines()]
    assert [(row["row"], row["field"], row["value"]) for row in bad] == [
        (21, "submitted_at", "yesterday"),
        (22, "config.num_trainers", ""),
    ]


def test_backfill_of_an_empty_table_fails(table: Path) -> None:
    code, _, err = run(table, "--dry-run", "--skip", "61")
    assert (code, "--skip 61" in err, "only 60 events" in err) == (1, True, True)
    (table / "jobs.csv").write_text((table / "jobs.csv").read_text().splitlines()[0])
    code, _, err = run(table, "--dry-run")
    assert (code, "no rows below" in err) == (1, True)


def test_backfill_names_hardware_types_missing_in_the_catalog(table: Path) -> None:
    jobs = table / "jobs.csv"
    assert "catalog" not in run(table, "--dry-run")[2]
    jobs.write_text(jobs.read_text().replace("bert-1,H200-NVL", "bert-1,Abacus"))
    code, _, err = run(table, "--dry-run")
    assert (code, "never ranked: hardware type Abacus (7 rows)" in err) == (0, True)
    jobs.write_text(jobs.read_text().replace("Abacus", "H200-NLV").replace("H200-NVL", "NVIDIA H200 NVL"))
    _, _, err = run(table, "--dry-run")
    assert "H200-NLV (7 rows): no" in err and "the nearest names are H200-NVL, H20, H200-SXM-141GB" in err


def test_mlperf_runs_through_kafka(topics: Settings, shared_data: Path) -> None:
    arguments = [str(shared_data / "mlperf-training/runs.csv"), "--mapping", "mlperf", "--json"]
    done = invoke("backfill", *arguments, env=os.environ | topics.to_environment())
    assert done.exit_code == 0, done.stderr
    count = msgspec.json.decode(done.stdout)
    assert (count["rows"], count["bad"], count["events_sent"]) == (19_647, 0, 3 * 17_067)
    messages = read_range(topics, topics.topic(SUBMITTED), None, None)
    assert len({decode(message.value, JobSubmitted).attempt_id for message in messages}) == 17_067


def test_waiting_for_workers_that_do_not_run_says_so(topics: Settings, table: Path) -> None:
    ends = send(topics, events_of(table), pace("max", []))
    with pytest.raises(NotProcessed, match=r"processed for 0 s; messages left: history \d+, joiner \d+\. All"):
        wait_until_processed(topics, ends, patience_s=0.0)
    history_loop(topics).run(until_end=True)
    with pytest.raises(NotProcessed, match=r"left: joiner \d+\."):
        wait_until_processed(topics, ends, patience_s=0.0)
    joiner_loop(topics).run(until_end=True)
    wait_until_processed(topics, ends, patience_s=0.0)


def test_an_interrupt_says_how_to_go_on(topics: Settings, table: Path) -> None:
    events = events_of(table)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=f"1 of {len(events)} events are delivered; run it again with --skip 1"):
        send(topics, events, lambda position, event: 60.0 * position, sleep=interrupt)
