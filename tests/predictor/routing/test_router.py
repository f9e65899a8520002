"""The launch path: a list for every job whatever fails, never an exception, never a wait."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.store import Pointer
from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.models.serving import Prediction
from leap.predictor.routing import ranking
from leap.predictor.routing import router as router_module
from leap.predictor.routing.ranking import Policy
from leap.predictor.routing.rollout import Switch, Switches
from leap.predictor.routing.router import Router
from leap.schemas.codec import decode, encode
from leap.schemas.events import THROUGHPUT, JobSubmitted, PreferenceList
from tests.builders import MIDNIGHT, MODEL, submission

NOW = datetime(2026, 3, 11, tzinfo=UTC)
JOB = submission("new", job_name="team/job-3x", model_type="model-3", at=NOW, model=MODEL)


@pytest.fixture
def router(artifact_store: LocalStore) -> Router:
    made = Router(artifact_store, clock=lambda: NOW, deadline=60.0)
    assert made.refresh()
    return made


def test_a_job_is_ranked_with_its_evidence(router: Router) -> None:
    answer = router.rank(JOB)
    assert answer.no_opinion is None
    assert [one.score for one in answer.ranked] == sorted((one.score for one in answer.ranked), reverse=True)
    assert {one.hardware_type for one in answer.ranked} | {one.hardware_type for one in answer.excluded} == set(
        JOB.candidates
    )
    for one in answer.ranked:
        assert one.lower is not None and one.upper is not None
        assert one.lower < one.throughput < one.upper
        assert one.basis == "family history"
        assert one.observations > 0
        assert one.cost_per_hour is not None
        assert one.throughput_per_cost == pytest.approx(one.throughput / one.cost_per_hour)
    assert decode(encode(answer), PreferenceList) == answer
    assert router.counts == Counter(ranked=1)


def test_a_batch_gives_the_lists_of_its_jobs(router: Router) -> None:
    jobs = [
        submission(f"j{number}", job_name=f"team/job-{number}x", model_type="model-1", candidates=candidates, at=NOW)
        for number, candidates in enumerate([("fast",), (), ("basic", "newest"), ("nothing known",), ("fast", "basic")])
    ]
    together, alone = router.rank_many(jobs), [router.rank(job) for job in jobs]
    assert together == alone
    assert [answer.attempt_id for answer in together] == [job.attempt_id for job in jobs]
    assert [answer.no_opinion for answer in together] == [
        None, "no candidates", None, "all candidates excluded", None,
    ]  # fmt: skip


def test_what_was_never_seen_is_said(router: Router) -> None:
    answer = router.rank(submission("x", job_name="brand/new", model_type="model-?", batch_size=1e6, at=NOW))
    for one in answer.ranked:
        assert one.basis == "specification only"
        assert one.observations == 0
        assert {"family", "model type", "batch_size"} <= set(one.outside)


def test_served_history_is_what_the_matrix_held(router: Router) -> None:
    answer = router.rank(JOB)
    assert {len(values) for values in answer.served_history.values()} == {len(JOB.candidates)}
    served = zip(*(answer.served_history[f"family_{name}"] for name in ("hardware_count", "count")), strict=True)
    counts = dict(zip(answer.candidates, served, strict=True))
    assert [(one.here, one.observations) for one in answer.ranked] == [
        counts[one.hardware_type] for one in answer.ranked
    ]


def test_the_users_own_choice_is_recorded(router: Router) -> None:
    assert router.rank(submission("p", pinned="basic", at=NOW)).pinned == "basic"


def test_a_choice_that_was_not_eligible_is_recorded_and_said(router: Router) -> None:
    answer = router.rank(submission("p", pinned="unpriced", at=NOW))
    assert answer.pinned == "unpriced"
    assert ("unpriced", "pinned, but not among the candidates") in {
        (one.hardware_type, one.reason) for one in answer.excluded
    }


def test_switches(artifact_store: LocalStore) -> None:
    current = Switches(
        by_model_type={"off": Switch(mode="off"), "shadow": Switch(mode="shadow"), "quick": Switch(objective="fastest")}
    )
    router = Router(artifact_store, policy=lambda: Policy(current), deadline=60.0)
    router.refresh()
    off, shadow, quick = (router.rank(submission(name, model_type=name)) for name in ("off", "shadow", "quick"))
    assert (off.no_opinion, off.ranked) == ("switched off", ())
    assert shadow.shadow and shadow.ranked
    assert quick.objective == "fastest"
    assert [one.throughput for one in quick.ranked] == sorted((one.throughput for one in quick.ranked), reverse=True)


def test_the_jobs_objective_wins_and_a_deadline_needs_samples(router: Router) -> None:
    assert router.rank(submission("a", objective="fastest")).objective == "fastest"
    assert router.rank(submission("b", objective="cheapest_by_deadline")).objective == "throughput_per_cost"
    late = submission("c", objective="cheapest_by_deadline", samples=1e30, deadline=NOW, at=MIDNIGHT)
    answer = router.rank(late)
    assert {one.reason for one in answer.excluded} == {"would finish after the deadline"}
    assert len(answer.excluded) == len(late.candidates)


# Failures: each an empty list with its reason and a count.


def test_without_an_artifact_there_is_no_opinion(tmp_path: Path) -> None:
    router = Router(LocalStore(tmp_path), deadline=60.0)
    assert not router.refresh()
    answer = router.rank(JOB)
    assert (answer.ranked, answer.no_opinion) == ((), "no artifact")
    assert router.counts["no artifact"] == 1


def test_a_bug_is_no_opinion_for_that_job_alone(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ranking.rank

    def broken(artifact: Artifact, jobs: Sequence[JobSubmitted], policy: Policy, now: datetime) -> list[PreferenceList]:
        if any(job.attempt_id == "poison" for job in jobs):
            raise ZeroDivisionError("bug in a feature")
        return real(artifact, jobs, policy, now)

    monkeypatch.setattr(router_module, "rank", broken)
    answers = router.rank_many([submission("good"), submission("poison"), submission("fine")])
    assert [answer.no_opinion for answer in answers] == [None, "internal error: ZeroDivisionError", None]
    assert router.counts == Counter({"ranked": 2, "internal error": 1})


def test_past_the_deadline_there_is_no_opinion_and_the_late_answer_is_counted(
    artifact_store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    router = Router(artifact_store, deadline=0.05)
    router.refresh()
    real = ranking.rank

    def slow(artifact: Artifact, jobs: Sequence[JobSubmitted], policy: Policy, now: datetime) -> list[PreferenceList]:
        release.wait(30)
        return real(artifact, jobs, policy, now)

    monkeypatch.setattr(router_module, "rank", slow)
    assert router.rank(submission()).no_opinion == "deadline exceeded"
    assert router.counts["deadline exceeded"] == 1
    release.set()
    deadline = time.monotonic() + 30
    while router.counts["late"] < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert router.counts["late"] == 1


def test_a_prediction_that_is_missing_excludes_with_its_reason(router: Router) -> None:
    artifact = router.artifact
    assert artifact is not None

    class NoNumbers:
        reads_matrix: ClassVar[bool] = False

        def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
            return Prediction(np.full(len(pairs), np.nan))

    broken = replace(artifact, model=NoNumbers())
    [answer] = ranking.rank(broken, [JOB], Policy(), NOW)
    assert answer.no_opinion == "all candidates excluded"
    assert {one.reason for one in answer.excluded} == {"no prediction"}


def test_an_artifact_that_does_not_load_leaves_the_last_good_one(artifact_store: LocalStore, tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "artifacts"
    shutil.copytree(artifact_store.root, root)
    store = LocalStore(root)
    router = Router(store, deadline=60.0)
    assert router.followed_at is None
    router.refresh()
    followed = router.followed_at
    assert followed is not None
    good = store.pointer(THROUGHPUT)
    assert good is not None
    torn = root / THROUGHPUT / "torn"
    shutil.copytree(root / THROUGHPUT / good.version, torn)
    (torn / "trees_0.npy").write_bytes(b"torn")
    manifest = (torn / "manifest.json").read_text()
    (torn / "manifest.json").write_text(manifest.replace(good.version, "torn"))
    broken = Pointer(version="torn", reason="test", moved_at=NOW)
    store.move(THROUGHPUT, broken, good)
    assert not router.refresh()
    assert router.counts["refresh failed"] == 1
    assert router.followed_at == followed
    assert router.rank(JOB).artifact == good.version
    with pytest.raises(ArtifactError, match=r"not the .* bytes"):
        artifacts.load(torn)
    store.move(THROUGHPUT, good, broken)
    assert not router.refresh(), "it is already in use"
    assert router.followed_at > followed


def test_the_pointer_is_followed_in_the_background(artifact_store: LocalStore) -> None:
    router, stop = Router(artifact_store, deadline=60.0), threading.Event()
    thread = router.follow(0.01, stop)
    deadline = time.monotonic() + 30
    while router.artifact is None and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    thread.join(30)
    assert router.artifact is not None
    assert not thread.is_alive()


@pytest.fixture
def many_threads() -> Iterator[list[threading.Thread]]:
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join(60)


def test_threads_get_the_same_lists(router: Router, many_threads: list[threading.Thread]) -> None:
    jobs = [submission(f"t{number}", job_name=f"team/job-{number % 12}x", at=NOW) for number in range(40)]
    expected = router.rank_many(jobs)
    found: dict[str, PreferenceList] = {}
    for start in range(4):
        some = jobs[start::4]
        many_threads.append(
            threading.Thread(target=lambda some=some: found.update({job.attempt_id: router.rank(job) for job in some}))
        )
    for thread in many_threads:
        thread.start()
    for thread in many_threads:
        thread.join(60)
    assert [found[job.attempt_id] for job in jobs] == expected


@pytest.mark.filterwarnings("ignore:.*multi-?threaded")  # of JAX, which other tests may have started
def test_a_forked_child_ranks_too(router: Router) -> None:
    import os

    expected = router.rank(JOB)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, b"same" if router.rank(JOB) == expected else b"other")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        assert told.read() == b"same"
    os.waitpid(child, 0)
