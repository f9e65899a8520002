"""A night over the simulated fleet, with 250,000 families in the store and a writer that never stops."""

import logging
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.features.architecture import summary
from leap.retrainer.bench.resource_meter import end_with_parent
from leap.retrainer.dataset.feature_table import log_target, normalise
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.statistics_array import MAX_FAMILIES, Difference
from leap.retrainer.night import connectors
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, Report
from leap.schemas.codec import MAX_DECODED_BYTES, decode, encode
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobAttempt, JobCompleted, JobSubmitted
from leap.schemas.hardware import load_catalog
from leap.streams.history.store import HistoryStore
from leap.streams.history.updates import Key, Observation
from leap.streams.redis_store.client import connect
from leap.streams.runtime.logs import configure
from leap.streams.runtime.settings import Settings
from leap.streams.simulator.events import arrivals, attempt_columns, attempt_ids
from leap.streams.simulator.fleet import Fleet, FleetConfig

DAYS = 30
START = date(2026, 1, 1)
#: Observations applied to the store at once.
BATCH = 2500


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one night took.

    Attributes
    ----------
    seconds, cpu_seconds
        Wall clock, and processor time of the night's process and its workers.
    steps
        Step to seconds, wall clock.
    peak_gib
        Largest resident size of the night's process, and of its worker processes if it has any.
    w20
        Of the champion; the fleet is smaller than that of production unless `rows` is 750,000.
    families, written_meanwhile
        Families in the store before the night, and observations added to it while the night ran.
    """

    rows: int
    recipes: tuple[str, ...]
    seconds: float
    cpu_seconds: float
    peak_gib: float
    steps: dict[str, float]
    w20: float
    artifact_mb: float
    keys: int
    families: int
    written_meanwhile: int
    store: Difference
    load_average: float


@dataclass(frozen=True)
class _Task:
    """What the process of the night is told."""

    folder: Path
    settings: Settings
    plan: Plan
    messages: list[bytes]


def bench(settings: Settings, rows: int, recipes: tuple[str, ...], jobs: int, folder: Path) -> Figures:
    """Make a fleet whose window has about `rows` attempts, fill the store, and run one night in a fresh process."""
    settings = replace(settings, redis_prefix=f"bench-{os.getpid()}-{rows}")
    fleet = Fleet(FleetConfig(start=START, days=DAYS, attempts_per_day=rows // DAYS))
    partitions = Partitions(folder / "partitions")
    store = HistoryStore(connect(settings.redis_url), settings.redis_prefix)
    applied = 0
    for day in range(DAYS):
        table = normalise(pd.DataFrame(attempt_columns(fleet.day(day))))
        partitions.merge(table)
        applied = _apply(store, _of_rows(table), applied)
    families = _fill(store, applied)
    plan = Plan(night=START + timedelta(days=DAYS), window_days=DAYS, recipes=recipes, n_jobs=jobs)
    task = _Task(folder, settings, plan, [encode(attempt) for attempt in _attempts(fleet, DAYS - 1)])
    # Not a Pool, whose processes may not have processes of their own: fits side by side would be one after the other.
    alone = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=end_with_parent)
    with _writer(settings) as written, alone:
        report, seconds, cpu_seconds, peak = alone.submit(_night, task).result()
    folder_of_artifact = LocalStore(folder / "artifacts").folder(THROUGHPUT, report.artifact)
    assert report.store is not None
    champion = next(row.all for row in report.recipes if row.recipe == report.champion)
    assert champion is not None
    return Figures(
        rows=report.trained_on + report.held_out,
        recipes=recipes,
        seconds=round(seconds, 1),
        cpu_seconds=round(cpu_seconds, 1),
        peak_gib=round(peak, 2),
        steps=report.seconds,
        w20=champion.w20,
        artifact_mb=round(sum(path.stat().st_size for path in folder_of_artifact.iterdir()) / 1e6, 1),
        keys=report.keys,
        families=families,
        written_meanwhile=written.value,
        store=report.store,
        load_average=os.getloadavg()[1],
    )


def _night(task: _Task) -> tuple[Report, float, float, float]:
    """The night's report, its seconds by the clock and of the processor, and its peak in GiB."""
    configure(logging.WARNING)  # standard output is for the figures
    partitions = Partitions(task.folder / "partitions")

    def ingest(partitions: Partitions) -> list[date]:
        return partitions.ingest(decode(message, JobAttempt, MAX_DECODED_BYTES) for message in task.messages)

    night = Night(
        partitions,
        LocalStore(task.folder / "artifacts"),
        load_catalog(),
        ingest=ingest,
        snapshot=connectors.snapshot(task.settings, THROUGHPUT),
    )
    started, before = time.monotonic(), sum(os.times()[:4])
    report = night.run(task.plan)
    seconds = time.monotonic() - started
    # What workers used is told when they have ended; left alone they would wait five minutes for more.
    import_module("joblib.externals.loky").get_reusable_executor().shutdown()
    cpu_seconds = sum(os.times()[:4]) - before
    own, worker = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return report, seconds, cpu_seconds, (own + (task.plan.n_jobs * worker if task.plan.n_jobs > 1 else 0)) / 2**20


def _attempts(fleet: Fleet, day: int) -> Iterator[JobAttempt]:
    """The joined attempts of a day, as the joiner sends them."""
    batch = fleet.day(day)
    events = [arrival.event for arrival in arrivals(batch)]
    submitted = {event.attempt_id: event for event in events if isinstance(event, JobSubmitted)}
    names = fleet.families.names
    family = dict(zip(attempt_ids(batch), (names[number] for number in batch.family), strict=True))
    summaries: dict[str, dict[str, float]] = {}
    for event in events:
        if isinstance(event, JobCompleted) and event.status == SUCCEEDED and event.attempt_id in submitted:
            of = submitted[event.attempt_id]
            if of.model is not None and of.model_type not in summaries:
                summaries[of.model_type] = summary(of.model)
            yield JobAttempt(
                attempt_id=event.attempt_id,
                family=family[event.attempt_id],
                submitted=msgspec.structs.replace(of, model=None),
                completed=event,
                architecture=summaries[of.model_type] if of.model is not None else None,
            )


def _of_rows(rows: pd.DataFrame) -> Iterator[tuple[str, float, float, tuple[Key, ...]]]:
    columns = rows[["attempt_id", "finished_at", "family", "hardware_type", "model_type"]]
    for (name, finished_at, family, hardware, model), y in zip(
        columns.itertuples(index=False, name=None), log_target(rows, THROUGHPUT).tolist(), strict=True
    ):
        if y == y:
            keys = Key("family", family), Key("family_hardware", family, hardware), Key("model_type", model)
            yield name, y, finished_at, keys


def _of_filler(first: int, last: int, finished_at: float) -> Iterator[tuple[str, float, float, tuple[Key, ...]]]:
    """Attempts of families that ran once."""
    for number in range(first, last):
        family = f"filler-{number}x"
        keys = Key("family", family), Key("family_hardware", family, "h100"), Key("model_type", f"m{number % 600}")
        yield f"filler-{number}", 5.0 + number % 7, finished_at, keys


def _apply(store: HistoryStore, measured: Iterator[tuple[str, float, float, tuple[Key, ...]]], offset: int) -> int:
    """Add observations at the offsets from `offset` on; returns the next one."""
    batch = []
    for name, y, finished_at, keys in measured:
        batch.append(Observation("bench/0", offset, name, THROUGHPUT, y, finished_at, keys))
        offset += 1
        if len(batch) == BATCH:
            store.apply(batch)
            batch = []
    store.apply(batch)
    return offset


def _fill(store: HistoryStore, applied: int) -> int:
    """Families of one attempt, until there are more than an artifact keeps; returns how many there are."""
    there = sum(key.of == "family" for bucket in store.buckets(THROUGHPUT) for key in bucket.statistics)
    wanted = int(1.02 * MAX_FAMILIES)
    _apply(store, _of_filler(there, wanted, pd.Timestamp(START).timestamp()), applied)
    return max(there, wanted)


@contextmanager
def _writer(settings: Settings) -> "Iterator[multiprocessing.sharedctypes.Synchronized[int]]":
    """A process that adds observations, some 2,500 a second, until the block ends."""
    context = multiprocessing.get_context("spawn")
    written = context.Value("q", 0)
    process = context.Process(target=_write, args=(settings, written), daemon=True)
    process.start()
    try:
        yield written
    finally:
        process.terminate()
        process.join()


def _write(settings: Settings, written: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    end_with_parent()
    store = HistoryStore(connect(settings.redis_url), settings.redis_prefix)
    rng = np.random.default_rng(0)
    offset = 10**9
    while True:
        first = int(rng.integers(MAX_FAMILIES))
        finished_at = pd.Timestamp(START).timestamp() + 86_400.0 * DAYS
        offset = _apply(store, _of_filler(first, first + BATCH, finished_at + offset), offset)
        written.value += BATCH
        time.sleep(1.0)
