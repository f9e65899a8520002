"""A table becomes lists in two commands, on this machine alone."""

import json
from pathlib import Path

import pytest

from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.record import Record
from leap.schemas.hardware import load_catalog
from leap.streams.joining.worker import joiner_loop
from leap.streams.runtime.settings import Settings
from tests.commands import invoke as run
from tests.services import ROOT

TABLE = ("learn", str(ROOT / "examples/jobs.csv"), "--mapping", str(ROOT / "examples/jobs.yaml"))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "LEAP_PARTITIONS": str(tmp_path / "partitions"),
        "LEAP_ARTIFACTS": str(tmp_path / "artifacts"),
        "LEAP_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "LEAP_REDIS_URL": "redis://127.0.0.1:1/0",
    }


def test_a_table_is_learned_and_ranked_from(env: dict[str, str], tmp_path: Path) -> None:
    learned = run(*TABLE, "--recipe", "structured", "--json", env=env)
    assert learned.exit_code == 0, learned.output
    report = json.loads(learned.stdout)
    assert report["promoted"]
    partitions = Partitions(tmp_path / "partitions", load_catalog())
    rows = partitions.read(partitions.days())
    record = Record.read(partitions.files)
    assert record is not None
    assert (record.offsets, record.learned) == ({}, partitions.sizes()), "a night over Kafka begins at the beginning"
    assert report["trained_on"] + report["held_out"] <= len(rows)
    assert report["window_from"] == str(partitions.days()[0]), "all days of the table are learned from"
    answer = run("rank", str(ROOT / "examples/job.json"), "--json", env=env)
    assert answer.exit_code == 0, answer.output
    ranked = json.loads(answer.stdout)
    assert ranked["artifact"] == report["artifact"]
    assert len(ranked["ranked"]) > 1

    again = run(*TABLE, "--recipe", "structured", "--json", env=env)
    assert len(partitions.read(partitions.days())) == len(rows), "the same table again adds nothing"
    assert json.loads(again.stdout)["trained_on"] == report["trained_on"]


def test_a_table_gives_what_the_night_over_kafka_gives(env: dict[str, str], topics: Settings, tmp_path: Path) -> None:
    learned = run(*TABLE, "--recipe", "structured", "--json", env=env)
    job = str(ROOT / "examples/job.json")
    at_once = run("rank", job, "--json", env=env)

    night = topics.to_environment() | {name: f"{env[name]}-kafka" for name in ("LEAP_PARTITIONS", "LEAP_ARTIFACTS")}
    assert run("backfill", *TABLE[1:], env=night).exit_code == 0
    joiner_loop(topics).run(until_end=True)
    report = json.loads(learned.stdout)
    trained = run("retrain", "--date", report["night"], "--recipe", "structured", "--json", env=night)
    assert trained.exit_code == 0, trained.output
    [other] = json.loads(trained.stdout)
    over_kafka = run("rank", job, "--version", other["artifact"], "--json", env=night)
    for one in (report, other):
        del one["recipes"][0]["seconds"]
    same = ("trained_on", "held_out", "recipes", "champion", "lookup", "champion_on_lookup", "keys")
    assert {name: other[name] for name in same} == {name: report[name] for name in same}
    first, second = (json.loads(answer.stdout)["ranked"] for answer in (at_once, over_kafka))
    assert len(first) > 1
    assert second == first


def test_a_table_without_attempts_says_why(env: dict[str, str], tmp_path: Path) -> None:
    head, *_ = (ROOT / "examples/jobs.csv").read_text().splitlines()
    table = tmp_path / "jobs.csv"
    table.write_text(head + "\n" + "," * head.count(",") + "\n")
    failed = run("learn", str(table), "--mapping", str(ROOT / "examples/jobs.yaml"), env=env)
    assert failed.exit_code == 1
    assert "none of its 1 rows is an attempt" in failed.output
    assert not (tmp_path / "artifacts").exists()
