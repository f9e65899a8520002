"""What a launch costs in process: beside the same models through scikit-learn, beside one Redis read a candidate."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from leap.predictor.artifacts.artifact import CATALOG_FILE, Artifact, write
from leap.predictor.artifacts.store import Pointer
from leap.predictor.features.matrix import CandidateRows, Matrix
from leap.predictor.models.serving import Prediction
from leap.predictor.routing import ranking
from leap.predictor.routing.ranking import Policy
from leap.predictor.routing.router import Router
from leap.retrainer.bench.model import CANDIDATES, Estimator, Trained
from leap.schemas.codec import encode
from leap.schemas.events import THROUGHPUT, JobSubmitted
from leap.streams.redis_store.client import Client

TURN = 20
BATCH = 64
PUBLISHED_A_DAY = 25_000
#: Longer than any measurement: what is late is measured, not cut off.
PATIENCE_S = 60.0
#: A fresh launcher: from `python` to its first list.
FIRST_LIST = """
import sys
from pathlib import Path
from leap.predictor.routing.router import Router
from leap.predictor.artifacts.open import open_store
from leap.schemas.codec import decode
from leap.schemas.events import JobSubmitted
router = Router(open_store(sys.argv[1]), deadline=60.0)
router.refresh()
answer = router.rank(decode(Path(sys.argv[2]).read_bytes(), JobSubmitted))
assert answer.ranked, answer.no_opinion
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1], flush=True)
"""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One job and its candidates on one thread, from submission to the ranked list.

    Attributes
    ----------
    candidates
        Hardware types a job, 20 by default.
    jobs_per_s
        In batches of 64.
    sklearn_p50_ms, sklearn_ratio
        The same list with the same models called through scikit-learn; how many times longer, both without
        the hand-over to the thread that keeps the deadline. None of a recipe without trees.
    model_ratio
        The same of the model call alone.
    redis_p50_ms, redis_ratio
        One keyed read per candidate, one after the other, without any model; how many times the whole list.
    redis_pipelined_ratio
        The same reads in one round trip.
    """

    recipe: str
    candidates: int
    p50_ms: float
    p99_ms: float
    jobs_per_s: float
    sklearn_p50_ms: float | None = None
    sklearn_ratio: float | None = None
    model_ratio: float | None = None
    redis_p50_ms: float
    redis_ratio: float
    redis_pipelined_ratio: float


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A fresh process up to its first list, interpreter included: median time, greatest peak of memory."""

    seconds: float
    slowest_s: float
    rss_mb: float


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """Memory and open files after a tenth of the launches and after all of them."""

    launches: int
    artifacts_swapped: int
    seconds: float
    rss_mb_before: float
    rss_mb_after: float
    files_before: int
    files_after: int


@dataclass(frozen=True)
class Unexported:
    """A model in its training form."""

    reads_matrix: ClassVar[bool] = True
    estimator: Estimator

    def predict(self, pairs: CandidateRows, matrix: Matrix) -> Prediction:
        """See :class:`leap.predictor.models.serving.Model`."""
        return Prediction(self.estimator.predict(matrix))


def rank(trained: Trained, recipe: str, client: Client, candidates: int = CANDIDATES, jobs: int = 2000) -> Rank:
    """Measure all in turn, some jobs each, so that a busy machine slows all alike and none runs cold.

    Beyond the 20 hardware types of a job its candidates are the same types again; there are fewer jobs then.
    """
    jobs = min(jobs, max(10 * TURN, jobs * CANDIDATES // candidates))
    submissions = [
        msgspec.structs.replace(job, candidates=tuple(islice(cycle(job.candidates), candidates)))
        for job in trained.submissions[:jobs]
    ]
    router = _router(trained)
    artifact = router.artifact
    assert artifact is not None
    _fill(client, submissions[0].candidates)
    now = datetime.now(UTC)
    rows: dict[str, tuple[CandidateRows, Matrix]] = {}
    turns: dict[str, Callable[[JobSubmitted], object]] = {
        "list": router.rank,
        "ours": lambda job: ranking.rank(artifact, [job], Policy(), now),
        "model": lambda job: artifact.model.predict(*rows[job.attempt_id]),
        "reads": lambda job: _read_each(client, job.candidates),
        "pipelined": lambda job: _read_all(client, job.candidates),
    }
    if trained.estimator is not None:
        sklearn = replace(artifact, model=Unexported(trained.estimator))
        turns["sklearn"] = lambda job: ranking.rank(sklearn, [job], Policy(), now)
        turns["estimator"] = lambda job: sklearn.model.predict(*rows[job.attempt_id])
    took: dict[str, list[float]] = {name: [] for name in turns}
    with threadpool_limits(limits=1):
        for first in range(0, jobs, TURN):
            some = submissions[first : first + TURN]
            for job in some:
                pairs = artifact.candidate_rows(
                    artifact.job_batch([job]), np.zeros(len(job.candidates), np.intp), job.candidates
                )
                rows[job.attempt_id] = pairs, artifact.features(pairs).matrix
            for name, call in turns.items():
                for job in some:
                    began = time.perf_counter()
                    call(job)
                    took[name].append(time.perf_counter() - began)
    median = {name: float(np.median(seconds)) for name, seconds in took.items()}
    figures = Rank(
        recipe=recipe,
        candidates=candidates,
        p50_ms=round(1000 * median["list"], 2),
        p99_ms=round(1000 * float(np.percentile(took["list"], 99)), 2),
        jobs_per_s=round(_in_batches(router, submissions)),
        redis_p50_ms=round(1000 * median["reads"], 2),
        redis_ratio=round(median["reads"] / median["list"], 2),
        redis_pipelined_ratio=round(median["pipelined"] / median["list"], 2),
    )
    if trained.estimator is None:
        return figures
    return msgspec.structs.replace(
        figures,
        sklearn_p50_ms=round(1000 * median["sklearn"], 2),
        sklearn_ratio=round(median["sklearn"] / median["ours"], 1),
        model_ratio=round(median["estimator"] / median["model"], 1),
    )


def start(trained: Trained, folder: Path, times: int = 7) -> Start:
    """Start launchers one after the other; the first warms the file cache and does not count."""
    job = folder / "job.json"
    job.write_bytes(encode(trained.submissions[0]))
    command = [sys.executable, "-c", FIRST_LIST, str(trained.store.root), str(job)]
    seconds, peaks = [], []
    for _ in range(times + 1):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - began)
        peaks.append(int(done.stdout) / 1024)
    return Start(
        seconds=round(float(np.median(seconds[1:])), 3),
        slowest_s=round(max(seconds[1:]), 3),
        rss_mb=round(max(peaks[1:]), 1),
    )


def soak(trained: Trained, launches: int = 10 * PUBLISHED_A_DAY, swap_every: int = 2500) -> Soak:
    """24 h of launches at ten times the published rate, as fast as they go, with artifacts swapped meanwhile."""
    router = _router(trained)
    artifact = router.artifact
    assert artifact is not None
    production, swaps = artifact.manifest.version, 0
    other = _copy_of(trained, artifact)
    before = (0.0, 0)
    began = time.perf_counter()
    for number, job in enumerate(islice(cycle(trained.submissions), launches)):
        if number == launches // 10:
            before = _held()
        if number % swap_every == 0:
            pointer = trained.store.pointer(THROUGHPUT)
            assert pointer is not None
            to = other if pointer.version == production else production
            moved = Pointer(version=to, reason="soak", moved_at=datetime.now(UTC))
            trained.store.move(THROUGHPUT, moved, pointer)
            swaps += router.refresh()
        router.rank(job)
    after = _held()
    return Soak(
        launches=launches,
        artifacts_swapped=swaps,
        seconds=round(time.perf_counter() - began, 1),
        rss_mb_before=before[0],
        rss_mb_after=after[0],
        files_before=before[1],
        files_after=after[1],
    )


def _copy_of(trained: Trained, artifact: Artifact) -> str:
    """A second version with the same content."""
    manifest = artifact.manifest
    source = trained.store.folder(THROUGHPUT, manifest.version)
    later = manifest.created_at + timedelta(seconds=1)

    def write_files(draft: Path) -> None:
        for name in manifest.files.keys() - {CATALOG_FILE}:
            shutil.copyfile(source / name, draft / name)

    unnamed = msgspec.structs.replace(manifest, version="", files={}, created_at=later)
    return write(source.parent, unnamed, artifact.catalog, write_files).name


def _router(trained: Trained) -> Router:
    router = Router(trained.store, deadline=PATIENCE_S)
    router.refresh()
    return router


def _in_batches(router: Router, jobs: list[JobSubmitted]) -> float:
    began = time.perf_counter()
    for first in range(0, len(jobs), BATCH):
        router.rank_many(jobs[first : first + BATCH])
    return len(jobs) / (time.perf_counter() - began)


def _key(hardware_type: str) -> str:
    return f"bench:{{launch}}:{hardware_type}"


def _fill(client: Client, hardware_types: tuple[str, ...]) -> None:
    for name in hardware_types:
        client.hset(_key(name), mapping={"n": 17, "mean": 6.5, "deviation": 0.1, "last": 6.4, "last_at": 1.7e9})
        client.expire(_key(name), timedelta(hours=1))


def _read_each(client: Client, hardware_types: tuple[str, ...]) -> list[object]:
    return [client.hgetall(_key(name)) for name in hardware_types]


def _read_all(client: Client, hardware_types: tuple[str, ...]) -> list[object]:
    pipeline = client.pipeline(transaction=False)
    for name in hardware_types:
        pipeline.hgetall(_key(name))
    return pipeline.execute()


def _held() -> tuple[float, int]:
    """Resident MB and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1), sum(1 for _ in Path("/proc/self/fd").iterdir())
