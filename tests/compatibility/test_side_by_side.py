"""An upgrade over a running deployment: workers of an earlier commit and of this one in the same groups."""

import io
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.store import Pointer
from leap.schemas.codec import MAX_DECODED_BYTES, decode, encode
from leap.schemas.events import THROUGHPUT, JobAttempt, JobCompleted, PreferenceList
from leap.schemas.topics import ATTEMPTS, DEAD_LETTERS, PREFERENCES, SUBMITTED
from leap.streams.embedded import child
from leap.streams.history.worker import history_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings
from tests.builders import submission
from tests.compatibility.conftest import BEFORE
from tests.services import ROOT
from tests.streams.history.test_worker import assert_exact, completed, send

WORKERS = ("history", "joiner", "ranking")
NIGHT_OF_BEFORE = "import sys; from pathlib import Path; from tests.artifacts import night_over, past; \
night_over(Path(sys.argv[1]), past(), recipe='structured')"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier commit's files."""
    folder = tmp_path_factory.mktemp("before")
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", BEFORE], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@contextmanager
def running(settings: Settings, code: Path, logs: Path) -> Iterator[None]:
    """One worker of each kind, of the commit whose files are in `code`."""
    environment = settings.to_environment() | {"PYTHONPATH": str(code)}
    with ExitStack() as stack:
        for worker in WORKERS:
            command = [sys.executable, "-P", "-m", "leap", "worker", worker]  # not from the working folder
            stack.enter_context(child(command, logs / f"{worker}.log", lambda: True, environment))
        yield


def finish(settings: Settings, numbers: range) -> list[JobCompleted]:
    """Send submissions and completions of attempts, and wait for their lists and rows."""
    rng = random.Random(numbers.start)
    events = [completed(number, rng) for number in numbers]
    producer = CheckedProducer(settings)
    for event in events:
        job = submission(event.attempt_id, job_name=event.job_name, at=event.started_at)
        producer.produce(settings.topic(SUBMITTED), encode(job), job.attempt_id.encode())
    producer.flush()
    send(settings, [encode(event) for event in events])
    wanted = {event.attempt_id for event in events}
    await_all(lambda: wanted <= answers(settings).keys() and wanted <= rows(settings))
    return events


def answers(settings: Settings) -> dict[str, PreferenceList]:
    lists = (decode(message.value, PreferenceList) for message in read_range(settings, settings.topic(PREFERENCES)))
    return {answer.attempt_id: answer for answer in lists}


def rows(settings: Settings) -> set[str]:
    messages = read_range(settings, settings.topic(ATTEMPTS))
    return {decode(message.value, JobAttempt, MAX_DECODED_BYTES).attempt_id for message in messages}


def await_all(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline, "not every attempt has a list and a row"
        time.sleep(0.2)


@pytest.mark.real("rebalances as in production")
@pytest.mark.timeout(180)
def test_workers_of_two_versions_share_a_group_and_lose_nothing(
    topics: Settings, artifact_store: LocalStore, before: Path, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-c", NIGHT_OF_BEFORE, str(tmp_path)], env={"PYTHONPATH": str(before)}, check=True, cwd=before
    )
    store = LocalStore(tmp_path / "artifacts")
    settings = replace(topics, artifacts=str(store.root))
    [new] = artifact_store.versions(THROUGHPUT)
    logs = [tmp_path / name for name in ("old", "new")]
    for folder in logs:
        folder.mkdir()
    with running(settings, ROOT, logs[1]):
        with running(settings, before, logs[0]):
            events = finish(settings, range(40))
            store.add(THROUGHPUT, artifact_store.folder(THROUGHPUT, new))
            pointer = store.pointer(THROUGHPUT)
            assert pointer is not None
            moved = Pointer(version=new, previous=pointer.version, reason="upgrade", moved_at=datetime.now(UTC))
            store.move(THROUGHPUT, moved, pointer)
            events += finish(settings, range(40, 80))
        events += finish(settings, range(80, 120))
    history_loop(settings).run(until_end=True)
    assert_exact(settings, events)
    assert list(read_range(settings, settings.topic(DEAD_LETTERS))) == []
    lists = answers(settings)
    assert all(answer.ranked for answer in lists.values())
    assert {lists["attempt-0"].artifact, lists["attempt-119"].artifact} == {pointer.version, new}
