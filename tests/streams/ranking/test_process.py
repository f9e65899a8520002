"""The ranking worker as a process: switched while it runs, and its answers explained from the topics."""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.codec import decode, encode
from leap.schemas.events import SUCCEEDED, JobCompleted, PreferenceList
from leap.schemas.topics import COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.cli.explain import LATE, explain
from leap.streams.cli.rollout import app as switch
from leap.streams.embedded import child
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.range_reader import read_range
from leap.streams.ranking.rollout_store import FOLLOW_EVERY_S
from leap.streams.runtime.settings import Settings
from tests.builders import submission

NUMBERS = itertools.count()


@pytest.fixture
def worker(topics: Settings, artifact_store: LocalStore, tmp_path: Path) -> Iterator[Settings]:
    settings = replace(topics, artifacts=str(artifact_store.root))
    command = [sys.executable, "-m", "leap", "worker", "ranking"]
    with child(command, tmp_path / "worker.log", lambda: True, settings.to_environment()):
        yield settings


def ask(settings: Settings) -> PreferenceList:
    """The list of a new attempt."""
    attempt = f"a-{next(NUMBERS)}"
    producer = CheckedProducer(settings)
    value = encode(submission(attempt, job_name="team/job-3x", model_type="model-3", at=datetime.now(UTC)))
    producer.produce(settings.topic(SUBMITTED), value, attempt.encode())
    producer.flush()
    while True:
        for message in read_range(settings, settings.topic(PREFERENCES)):
            answer = decode(message.value, PreferenceList)
            if answer.attempt_id == attempt:
                return answer


def test_switch_takes_effect_in_a_running_worker_and_lists_are_explained(
    worker: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in worker.to_environment().items():
        monkeypatch.setenv(name, value)
    answer = ask(worker)
    assert answer.ranked and not answer.shadow

    assert CliRunner().invoke(switch, ["set", "model-3", "shadow", "--by", "ann"]).exit_code == 0
    assert FOLLOW_EVERY_S < 5, "a worker asks the store so often"
    while not ask(worker).shadow:
        pass
    assert CliRunner().invoke(switch, ["set", "model-3", "off", "--by", "bob"]).exit_code == 0
    while ask(worker).no_opinion != "switched off":
        pass
    unknown = CliRunner().invoke(switch, ["unset", "nope"])
    assert unknown.exit_code == 1 and "nope has no switch of its own; these have: model-3" in unknown.stderr
    history = CliRunner().invoke(switch, ["history"]).output.splitlines()
    assert [line.split("  ")[1:3] for line in history] == [["bob", "model-3"], ["ann", "model-3"]]

    explain(answer.attempt_id)
    printed = capsys.readouterr().out
    assert f"{answer.attempt_id}: family team/job-3x, model type model-3\n" in printed
    assert f"1. {answer.ranked[0].hardware_type}\n" in printed
    assert LATE not in printed


def test_explain_marks_a_list_decided_after_the_attempt_as_late(
    worker: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in worker.to_environment().items():
        monkeypatch.setenv(name, value)
    answer = ask(worker)
    began = answer.decided_at - timedelta(hours=2)
    ran = JobCompleted(
        attempt_id=answer.attempt_id,
        job_name="team/job-3x",
        hardware_type="fast",
        started_at=began,
        finished_at=began + timedelta(hours=1),
        status=SUCCEEDED,
    )
    producer = CheckedProducer(worker)
    producer.produce(worker.topic(COMPLETED), encode(ran), b"")
    producer.flush()
    explain(answer.attempt_id)
    assert capsys.readouterr().out.startswith(f"{LATE}\n")
