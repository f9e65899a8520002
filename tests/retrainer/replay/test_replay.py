"""Replay, on the broker that the suite runs on: the live worker's lists, each submission of the range once."""

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pandas as pd
import pytest
import typer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.models.accuracy import Accuracy
from leap.retrainer.cli.replay import as_text
from leap.retrainer.cli.replay import replay as replay_command
from leap.retrainer.replay.lines import Line
from leap.retrainer.replay.replay import LINES, OtherReplay, State, read_lines, read_state, replay, routers
from leap.retrainer.replay.summary import Summary, read_frame, summarise
from leap.schemas.codec import decode, encode
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobCompleted, JobSubmitted, PreferenceList
from leap.schemas.topics import ALLOCATED, COMPLETED, PREFERENCES, SUBMITTED
from leap.streams.kafka.clients import CheckedProducer, admin_config, producer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.ranking.worker import ranking_loop
from leap.streams.runtime.settings import Settings
from tests.artifacts import NIGHT, night_over, past
from tests.builders import MIDNIGHT, submission

START = MIDNIGHT + timedelta(days=10)
END = START + timedelta(days=1)
MINUTE = timedelta(minutes=1)


def day(count: int) -> list[JobSubmitted]:
    return [
        submission(f"j{n}", job_name=f"team/job-{n % 13}x", model_type=f"model-{n % 4}", at=START + n * MINUTE)
        for n in range(count)
    ]


def send(settings: Settings, *events: JobSubmitted | JobCompleted | bytes) -> None:
    producer = CheckedProducer(settings)
    for event in events:
        topic = COMPLETED if isinstance(event, JobCompleted) else SUBMITTED
        key = b"" if isinstance(event, bytes) else event.attempt_id.encode()
        producer.produce(settings.topic(topic), event if isinstance(event, bytes) else encode(event), key)
    producer.flush()


def completed(job: JobSubmitted, hardware_type: str, throughput: float, status: str = SUCCEEDED) -> JobCompleted:
    return JobCompleted(
        attempt_id=job.attempt_id,
        job_name=job.job_name,
        hardware_type=hardware_type,
        started_at=job.submitted_at,
        finished_at=job.submitted_at + timedelta(hours=1),
        status=status,
        accelerator_hours=16.0,
        measurements={THROUGHPUT: throughput},
    )


class Kept:
    """Lists by attempt, as `publish` gets them."""

    def __init__(self) -> None:
        self.lists: dict[str, PreferenceList] = {}

    def __call__(self, lists: Sequence[PreferenceList]) -> None:
        self.lists |= {answer.attempt_id: answer for answer in lists}


@pytest.fixture
def serving(topics: Settings, artifact_store: LocalStore) -> Settings:
    return replace(topics, artifacts=str(artifact_store.root))


def run(settings: Settings, folder: Path, kept: Kept | None = None) -> State:
    store = LocalStore(Path(settings.artifacts))
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    made = routers(settings, store, [pointer.version])
    return replay(settings, made, START, END, folder, kept or Kept())


def timeless(answer: PreferenceList) -> bytes:
    return encode(msgspec.structs.replace(answer, decided_at=MIDNIGHT))


def test_replay_gives_the_lists_of_the_live_worker(serving: Settings, tmp_path: Path) -> None:
    send(serving, *day(300))
    stop = threading.Event()
    ranking_loop(serving, stop).run(until_end=True)
    stop.set()
    live = {
        answer.attempt_id: answer
        for message in read_range(serving, serving.topic(PREFERENCES))
        for answer in [decode(message.value, PreferenceList)]
    }
    again = Kept()
    run(serving, tmp_path, again)
    assert all(answer.ranked for answer in live.values())
    assert {name: timeless(answer) for name, answer in again.lists.items()} == {
        name: timeless(answer) for name, answer in live.items()
    }


def test_the_time_of_the_submission_decides(serving: Settings, tmp_path: Path) -> None:
    moments = {
        "before": START - timedelta(milliseconds=1),
        "first": START,
        "last": END - timedelta(milliseconds=1),
        "after": END,
    }
    # The time of sending is now, long after all of them, as with a backfill.
    send(serving, *(submission(name, at=at) for name, at in moments.items()), b"no submission")
    state = run(serving, tmp_path)
    assert {line.attempt_id for line in read_lines(tmp_path)} == {"first", "last"}
    assert (state.submissions, state.rejected, state.done) == (2, 1, True)


def test_an_empty_topic_and_empty_partitions(serving: Settings, tmp_path: Path) -> None:
    state = run(serving, tmp_path / "none")
    assert (state.submissions, list(read_lines(tmp_path / "none"))) == (0, [])
    assert summarise(state, read_frame(tmp_path / "none")).sides[0].all is None
    send(serving, submission("alone", at=START))
    assert run(serving, tmp_path / "one").submissions == 1


class Killed(Exception):
    pass


def test_an_interrupted_replay_goes_on(serving: Settings, artifact_store: LocalStore, tmp_path: Path) -> None:
    jobs = day(400)
    send(serving, *jobs)
    run(serving, tmp_path / "whole")
    pointer = artifact_store.pointer(THROUGHPUT)
    assert pointer is not None

    def killed(state: State) -> None:
        if state.submissions > 150:
            raise Killed

    made = routers(serving, artifact_store, [pointer.version])
    with pytest.raises(Killed):
        replay(serving, made, START, END, tmp_path / "cut", told=killed)
    cut = read_state(tmp_path / "cut")
    assert cut is not None and 150 < cut.submissions < 400
    with (tmp_path / "cut" / LINES).open("ab") as file:
        file.write(b'{"attempt_id": "half a li')
    assert run(serving, tmp_path / "cut").submissions == 400
    whole, cut_up = ({line.attempt_id: line for line in read_lines(tmp_path / name)} for name in ("whole", "cut"))
    assert cut_up == whole
    assert len(list(read_lines(tmp_path / "cut"))) == 400


def test_a_folder_of_another_replay_is_refused(serving: Settings, tmp_path: Path) -> None:
    run(serving, tmp_path)
    other = replace(serving, topic_prefix="another-")
    with pytest.raises(OtherReplay, match="name another folder"):
        run(other, tmp_path)


@pytest.mark.real("the embedded broker shows aborted transactions")
def test_a_transactional_topic(serving: Settings, tmp_path: Path) -> None:
    producer = Producer(producer_config(serving) | {"transactional.id": serving.topic_prefix})
    producer.init_transactions(30)
    for number, job in enumerate(day(6)):
        producer.begin_transaction()
        producer.produce(serving.topic(SUBMITTED), encode(job), b"one key")
        producer.abort_transaction(30) if number % 2 else producer.commit_transaction(30)
    run(serving, tmp_path)
    assert [line.attempt_id for line in read_lines(tmp_path)] == ["j0", "j2", "j4"]


@pytest.mark.real("the embedded broker does not compact")
def test_a_topic_with_gaps(settings: Settings, artifact_store: LocalStore, tmp_path: Path) -> None:
    """Offsets that are no longer there, before and between, as deletion and compaction leave them."""
    serving = replace(settings, artifacts=str(artifact_store.root))
    admin = AdminClient(admin_config(serving))
    compacted = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    names = (SUBMITTED, ALLOCATED, COMPLETED)
    made = admin.create_topics([NewTopic(serving.topic(name), 2, 1, config=compacted) for name in names])
    for future in made.values():
        future.result(30)
    send(serving, *day(40), *day(40), *day(40))
    run(serving, tmp_path)
    assert {line.attempt_id for line in read_lines(tmp_path)} == {job.attempt_id for job in day(40)}


def test_two_artifacts_and_a_topic(
    serving: Settings, artifact_store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, _ = night_over(tmp_path, past(seed=1), NIGHT)
    [other] = second.versions(THROUGHPUT)
    pointer = artifact_store.pointer(THROUGHPUT)
    assert pointer is not None
    both = LocalStore(tmp_path / "both")
    both.add(THROUGHPUT, artifact_store.folder(THROUGHPUT, pointer.version))
    both.add(THROUGHPUT, second.folder(THROUGHPUT, other))
    jobs = day(30)
    send(serving, *jobs, *jobs[:5], *(completed(job, "fast", 300.0) for job in jobs))
    admin = AdminClient(admin_config(serving))
    admin.create_topics([NewTopic(serving.topic("again"), 1, 1)])[serving.topic("again")].result(30)
    for name, value in (serving.to_environment() | {"LEAP_ARTIFACTS": str(both.root)}).items():
        monkeypatch.setenv(name, value)
    arguments = ["--from", "2026-03-11", "--to", "2026-03-12", "--artifact", pointer.version, "--compare", other]
    arguments += ["--json", "--parquet", str(tmp_path / "rows.parquet"), "--topic", "again"]
    app = typer.Typer()
    app.command()(replay_command)
    invoke = CliRunner().invoke
    done = invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=Summary)
    assert [(side.artifact, side.submissions, side.finished) for side in found.sides] == [
        (pointer.version, 30, 30), (other, 30, 30),
    ]  # fmt: skip
    apart = [one.apart for one in found.differ_most]
    assert len(apart) == 20 and apart == sorted(apart, reverse=True) and apart[0] > 1
    assert len(pd.read_parquet(tmp_path / "rows.parquet")) == 60
    sent = [decode(message.value, PreferenceList) for message in read_range(serving, serving.topic("again"))]
    assert len(sent) == 70 and {answer.artifact for answer in sent} == {pointer.version, other}
    refused = invoke(app, [*arguments[:4], "--topic", PREFERENCES, "--artifact", other])
    assert refused.exit_code == 1 and "topic of the live system" in refused.stderr


def test_what_the_artifact_has_learned_from_is_told_and_scored_apart(
    serving: Settings, artifact_store: LocalStore, tmp_path: Path
) -> None:
    """An attempt ends an hour after its submission, and the window ends at midnight."""
    pointer = artifact_store.pointer(THROUGHPUT)
    assert pointer is not None
    made = routers(serving, artifact_store, [pointer.version])
    assert made[0].artifact is not None
    midnight = datetime.combine(NIGHT, datetime.min.time(), UTC)
    assert made[0].artifact.manifest.window_to == (midnight - timedelta(days=1)).date().isoformat()
    jobs = [submission(f"j{hour}", at=midnight + timedelta(hours=hour)) for hour in range(-3, 2)]
    send(serving, *jobs, *(completed(job, "fast", 300.0) for job in jobs))
    state = replay(serving, made, midnight - timedelta(days=1), END, tmp_path)
    found = summarise(state, read_frame(tmp_path))
    [side] = found.sides
    assert side.held_out is not None and side.all is not None
    assert (side.finished, side.all.n, side.learned, side.held_out.n) == (5, 5, 2, 3)
    assert "2 of 5 had finished by the end of what the artifact has learned from" in as_text(found)
    assert "  held out " in as_text(found) and "only the held out tell" in as_text(found)


def test_an_artifact_with_the_statistics_of_the_store_knows_all_until_it_was_made(
    serving: Settings, artifact_store: LocalStore, tmp_path: Path
) -> None:
    pointer = artifact_store.pointer(THROUGHPUT)
    assert pointer is not None
    [router] = routers(serving, artifact_store, [pointer.version])
    assert router.artifact is not None
    manifest = msgspec.structs.replace(router.artifact.manifest, fences={"t/0": 7})
    router._artifact = replace(router.artifact, manifest=manifest)
    job = submission("a", at=START)
    send(serving, job, completed(job, "fast", 300.0))
    state = replay(serving, [router], START, END, tmp_path)
    found = summarise(state, read_frame(tmp_path))
    assert (found.sides[0].learned, found.sides[0].held_out) == (1, None)
    assert "this does not tell how well it predicts" in as_text(found)


def test_summary_by_hand() -> None:
    def line(attempt: str, artifact: str, predicted: float | None, apart: float, **other: object) -> dict[str, object]:
        made = Line(attempt, "f", "m", 0.0, artifact, "ranked", predicted=predicted, apart=apart)
        return msgspec.structs.asdict(made) | other

    on_fast = {"hardware_type": "fast", "measured": 100.0, "lower": 90.0, "upper": 101.0, "basis": "family history"}
    rows = [
        line("a", "v", 100.0, 0.0, first="fast", **on_fast),
        line("a", "w", 300.0, math.log(3), first="basic", **on_fast),
        line("b", "v", 130.0, 0.0, first="fast", **(on_fast | {"upper": 99.0, "basis": "similar jobs"})),
        line("b", "w", 130.0, 0.0, first="fast", **on_fast),
        line("c", "v", None, 0.0, outcome="switched off"),
        line("c", "w", None, 0.0, outcome="switched off"),
    ]
    frame = pd.DataFrame(rows).astype({"predicted": float, "measured": float, "lower": float, "upper": float})
    state = State(what=("", "s", "e", "v", "w"), submissions=3, seconds=2.0)
    found = summarise(state, frame)
    one = found.sides[0]
    assert one.all == Accuracy(n=2, w20=50.0, w10=50.0, w5=50.0, mdape=15.0, ratio=1.15)
    assert one.known is not None and one.known.n == 1
    assert one.first_seen is not None and one.first_seen.w20 == 0.0
    assert (one.outcomes, one.finished) == ({"ranked": 2, "switched off": 1}, 2)
    assert (one.interval, one.on_first, found.sides[1].on_first) == (50.0, 100.0, 50.0)
    assert (found.same_first, found.per_s) == (66.7, 1.5)
    assert [(d.attempt_id, d.apart, d.first, d.predicted) for d in found.differ_most[:1]] == [
        ("a", 3.0, ("fast", "basic"), (100.0, 300.0))
    ]
