"""The nightly training run ("night"): from yesterday's attempts to the artifact in production, in named steps.

Every step can be run again. Nothing before the move of the pointer touches production, and the move is
atomic, so a crash at any step leaves production as it was and a rerun completes.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import msgspec
import numpy as np
import structlog

from leap.predictor.artifacts.manifest import Manifest
from leap.predictor.artifacts.signing import SigningKey
from leap.predictor.artifacts.store import ArtifactStore, prune
from leap.retrainer.dataset import statistics_array
from leap.retrainer.dataset.partitions import Partitions, day_number, day_of
from leap.retrainer.dataset.record import Record
from leap.retrainer.dataset.statistics_array import StatisticsSnapshot
from leap.retrainer.night import promotion_gate, publish
from leap.retrainer.night.model_selection import select_champion
from leap.retrainer.night.plan import Plan, Report, report_name
from leap.retrainer.night.publish import Production
from leap.retrainer.night.serving_skew import skew
from leap.retrainer.night.state import NightState
from leap.retrainer.night.window import open_window
from leap.retrainer.storage.files import Files
from leap.schemas.events import THROUGHPUT, ArtifactPublished
from leap.schemas.hardware import Catalog

log = structlog.get_logger(__name__)

#: Days that partitions are kept, unless stated.
KEEP_DAYS = 90
#: Share of the observations in the partitions that the store may lack: a store that was lost, or is another
#: fleet's, would be published as a fleet without history.
MAX_BEHIND = 0.01


class Night:
    """Nightly training runs over one fleet.

    Parameters
    ----------
    ingest
        Brings partitions up to date with the attempts of the topic; returns the days written.
    snapshot
        The statistics of the moment from Redis, backed up among files; none takes those of the partitions, as a run for
        a past date must.
    announce
        Tells the world.
    key
        Signs what is published.
    """

    def __init__(
        self,
        partitions: Partitions,
        store: ArtifactStore,
        catalog: Catalog,
        ingest: Callable[[Partitions], list[date]] = lambda partitions: [],
        snapshot: Callable[[Files], StatisticsSnapshot] | None = None,
        announce: Callable[[ArtifactPublished], None] = lambda event: None,
        key: SigningKey | None = None,
    ) -> None:
        self._partitions = partitions
        self._store = store
        self._catalog = catalog
        self._ingest_attempts = ingest
        self._store_statistics = snapshot
        self._announce = announce
        self._key = key

    def run(self, plan: Plan) -> Report:
        """Run all steps. A trial keeps its artifact and its report, and writes nothing else.

        Raises
        ------
        NothingToLearn
            If the window has too few attempts.
        PointerMoved
            If another night moved production meanwhile.
        """
        steps: dict[str, Callable[[NightState], None]] = {
            "absorb": self._ingest,
            "window": self._read_window,
            "train": self._train,
            "evaluate": self._evaluate,
            "snapshot": self._freeze_statistics,
            "publish": self._publish,
            "prune": self._prune,
            "report": self._write_report,
        }
        with _scratch_folder(self._partitions, plan.target) as folder:
            partitions = self._partitions if plan.promote else self._partitions.for_trial()
            state = NightState(plan, folder, partitions)
            for name, step in steps.items():
                log.info("step started", step=name)
                started = time.monotonic()
                step(state)
                state.seconds[name] = round(time.monotonic() - started, 2)
                log.info("step finished", step=name, seconds=state.seconds[name])
        return state.report

    def _ingest(self, state: NightState) -> None:
        """Merge the attempts of the topic into the partitions."""
        if state.partitions.days() and Record.read(state.partitions.files) is None:  # from before there were records
            state.partitions.learned(_in_reported_windows(state.partitions))
        log.info("partitions written", days=len(self._ingest_attempts(state.partitions)))

    def _read_window(self, state: NightState) -> None:
        """Read the days before the run, cut into training and held-out attempts."""
        plan = state.plan
        state.window = open_window(
            state.partitions, plan.night, plan.window_days, self._catalog, plan.target, plan.max_missing
        )
        log.info("window read", training=len(state.window.training), held_out=len(state.window.held_out))

    def _train(self, state: NightState) -> None:
        """Fit every recipe and name the champion."""
        window, plan = state.window, state.plan
        state.comparison = select_champion(
            window.training, window.held_out, plan.recipes, state.folder / "recipes", plan.n_jobs
        )

    def _evaluate(self, state: NightState) -> None:
        """Ask production for the same held-out attempts; decide whether it moves, and to which recipe."""
        plan, window = state.plan, state.window
        state.production = production = Production.of(self._store, plan.target, window.last)
        unanswered = np.full(len(window.held_out), np.nan)
        state.served = publish.served(production.incumbent, window.held_out) if production.incumbent else unanswered
        state.skew = skew(window.held_out) if plan.target == THROUGHPUT else {}  # no other is served with a list
        anomalies = () if plan.accept_anomalies else window.anomalies
        doubts = (*anomalies, *promotion_gate.is_stale_night(production.serving, window))
        measured = np.exp(window.held_out.y)
        state.comparison, state.decision = promotion_gate.choose(
            state.comparison, state.served, measured, production.pointer, plan.margin, doubts
        )

    def _freeze_statistics(self, state: NightState) -> None:
        """Take the statistics to publish: those of the store, unless it lacks what the partitions have."""
        statistics, last = state.window.statistics, day_number(state.window.last)
        if self._store_statistics is None:
            state.statistics, state.store_difference = StatisticsSnapshot(statistics.records(last)), None
        else:
            state.statistics = self._store_statistics(state.partitions.files)
            expected = statistics.records(last + 1)
            state.store_difference = statistics_array.difference(state.statistics.records, expected)
            log.info("store compared with partitions", **msgspec.structs.asdict(state.store_difference))
            if state.store_difference.behind > MAX_BEHIND * expected["n"].sum():
                log.warning("the store lacks history, the partitions' is published: see `leap history audit`")
                state.statistics = StatisticsSnapshot(expected)
        state.snapshot = statistics_array.snapshot(state.statistics.records)

    def _publish(self, state: NightState) -> None:
        """Publish the champion, and production's model with new history where it stays but is to be renewed."""
        plan, window, fences = state.plan, state.window, state.statistics.fences
        manifest = publish.manifest(state.comparison, window, fences, window.catalog, plan.target)
        state.artifact = self._release(state, manifest, state.comparison.folder, state.promoted)
        state.renewed, serving = None, state.production.serving
        if serving and state.decision.renew and plan.promote:
            manifest = publish.renewed_manifest(serving, window, fences, window.catalog)
            model = self._store.folder(plan.target, serving.manifest.version)
            state.renewed = self._release(state, manifest, model, promoted=True)

    def _release(self, state: NightState, manifest: Manifest, model: Path, promoted: bool) -> str:
        """Write, sign, store, promote and announce an artifact; returns its version."""
        target, artifacts = state.plan.target, state.folder / "artifacts"
        written = publish.write(manifest, model, state.window, state.snapshot, state.window.catalog, artifacts)
        if self._key is not None:
            self._key.sign_folder(written)
        self._store.add(target, written)
        if promoted:
            publish.move(self._store, target, written.name, state.decision.reason, state.production)
        if state.plan.promote:
            self._announce(publish.announcement(target, written.name, promoted, state.reason, manifest.metrics))
        log.info("artifact published", artifact=written.name, promoted=promoted, reason=state.reason)
        return written.name

    def _prune(self, state: NightState) -> None:
        """Remove partitions and artifacts beyond their retention; of a trial there is nothing to remove."""
        plan, window, partitions = state.plan, state.window, state.partitions
        if not plan.promote:
            return
        partitions.keep_definitions(window.definitions)
        partitions.learned(day_of(number) for number in range(day_number(window.first), day_number(plan.night)))
        unlearned = {day for day in partitions.unlearned() if day < window.first}
        if plan.keep_days:
            oldest, kept = plan.night - timedelta(days=plan.keep_days), set[date]()
        else:
            oldest, kept = min(plan.night - timedelta(days=KEEP_DAYS), window.first), unlearned
        state.pruned = [day for day in partitions.days() if day < oldest and day not in kept]
        state.unlearned = sorted(unlearned - {*state.pruned})
        partitions.prune(state.pruned)
        prune(self._store, plan.target, plan.keep_artifacts)

    def _write_report(self, state: NightState) -> None:
        """Keep the report beside the partitions; with it the run counts as done."""
        plan = state.plan
        state.report = state.to_report()
        data = msgspec.json.format(msgspec.json.encode(state.report), indent=1)
        self._partitions.files.write(report_name(plan.target, plan.night, trial=not plan.promote), data)


def _in_reported_windows(partitions: Partitions) -> Iterator[date]:
    """Days that runs have learned from, by their reports."""
    for name in partitions.files.names("reports/*.json"):
        report = msgspec.json.decode(partitions.files.read(name), type=Report)
        first, last = date.fromisoformat(report.window_from), date.fromisoformat(report.window_to)
        yield from (day for day in partitions.days() if first <= day <= last)


@contextmanager
def _scratch_folder(partitions: Partitions, target: str) -> Iterator[Path]:
    """A folder for what is not published yet; what a killed run left in it goes."""
    root = partitions.root if "://" in str(partitions.root) else Path(partitions.root).resolve()
    name = hashlib.sha256(f"{os.getuid()}:{root}:{target}".encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"leap-night-{name}"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
