"""The benchmarks of the launch path run, on a model that is trained in a second; what they find is not judged."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leap.retrainer.bench import launch as launch_bench
from leap.retrainer.bench import model as bench_model
from leap.retrainer.bench.model import FULL_SIZE, Trained, train
from leap.streams.bench import ranking as ranking_bench
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench_model, "DAYS", 3)
        patch.setattr(bench_model, "ATTEMPTS_A_DAY", 200)
        patch.setitem(FULL_SIZE, "boosted", {"max_iter": 5})
        return train("boosted", tmp_path_factory.mktemp("bench"))


def test_every_submission_has_twenty_candidates_that_can_be_ranked(trained: Trained) -> None:
    assert {len(set(job.candidates)) for job in trained.submissions} == {20}


def test_rank(trained: Trained, store: str) -> None:
    found = launch_bench.rank(trained, "boosted", connect(store), candidates=25, jobs=40)
    assert found.recipe == "boosted"
    assert 0 < found.p50_ms <= found.p99_ms
    assert found.sklearn_ratio and found.model_ratio and found.redis_ratio and found.jobs_per_s


def test_start(trained: Trained, tmp_path: Path) -> None:
    found = launch_bench.start(trained, tmp_path, times=1)
    assert 0 < found.seconds == found.slowest_s
    assert found.rss_mb > 20


def test_launches_and_swaps_leave_no_file_open(trained: Trained) -> None:
    found = launch_bench.soak(trained, launches=200, swap_every=20)
    assert found.artifacts_swapped == 10
    assert found.files_before == found.files_after > 0


def test_worker(trained: Trained, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_bench, "WARM_UP_S", 1.0)
    settings = replace(settings, artifacts=str(trained.store.root))
    command = [sys.executable, "-m", "leap", "worker", "ranking"]
    found = ranking_bench.bench(settings, trained.submissions, command, tmp_path, seconds=1.0, backlog=100)
    assert (found.jobs, found.unanswered) == (100, 0)
    assert 0 < found.p50_ms <= found.p99_ms <= found.worst_ms
