"""The night: from yesterday's attempts to the artifact in production, in eight steps.

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
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import structlog

from leap.predictor.artifacts.manifest import Manifest
from leap.predictor.artifacts.signing import SigningKey
from leap.predictor.artifacts.store import ArtifactStore, prune
from leap.predictor.features.batch import HardwareTable
from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.retrainer.dataset import statistics_array as states
from leap.retrainer.dataset.partitions import Partitions, day_number
from leap.retrainer.dataset.statistics_array import Difference, StatisticsSnapshot
from leap.retrainer.night import promotion_gate as promotion
from leap.retrainer.night import publish
from leap.retrainer.night.anomaly_checks import MAX_MISSING
from leap.retrainer.night.model_selection import RecipeResult, select_champion
from leap.retrainer.night.serving_skew import Skew, skew
from leap.retrainer.night.window import Window, open_window
from leap.schemas.events import THROUGHPUT, ArtifactPublished
from leap.schemas.hardware import Catalog

log = structlog.get_logger(__name__)

#: Share of the observations in the partitions that the store may lack: a store that was lost, or is another
#: fleet's, would be published as a fleet without history.
MAX_BEHIND = 0.01

DEFAULT_RECIPES: tuple[str, ...] = ("structured", "boosted")


@dataclass(frozen=True)
class Plan:
    """What one night is to do.

    Attributes
    ----------
    night
        Date of the night; the window is the days before it.
    margin
        Points of w20 by which the new model may be worse than production's, beyond chance.
    max_missing
        Days without attempts, after the first that has some, above which nothing is promoted.
    keep_days, keep_artifacts
        Retention of partitions, and how many artifacts stay beside the one in production.
    promote
        False keeps the artifact without moving production (trial runs).
    """

    night: date
    target: str = THROUGHPUT
    window_days: int = 30
    recipes: tuple[str, ...] = DEFAULT_RECIPES
    margin: float = 1.0
    max_missing: int = MAX_MISSING
    keep_days: int = 90
    keep_artifacts: int = 30
    promote: bool = True
    n_jobs: int = 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a night did; kept as JSON beside the partitions.

    Attributes
    ----------
    missing_days, doubts
        Days without a partition, and why the window is not as usual: with a doubt nothing is promoted.
    skew
        History feature to how it was served on the held-out attempts and what it is recomputed; of throughput alone.
    store
        The statistics in the store against those of the partitions; none if no store was asked.
    fences
        Source (topic id/partition) to the offset that the statistics in the artifact reach to; none if they are
        those of the partitions.
    renewed
        Where the new model was worse: production's with the history of this night, to which production moved.
    keys
        Keys in the artifact's snapshot.
    seconds
        Step to wall clock.
    """

    night: str
    target: str
    window_from: str
    window_to: str
    missing_days: tuple[str, ...]
    doubts: tuple[str, ...]
    trained_on: int
    held_out: int
    recipes: list[RecipeResult]
    champion: str
    lookup: Accuracy | None
    champion_on_lookup: Accuracy | None
    production: Accuracy | None
    skew: dict[str, Skew]
    store: Difference | None
    fences: dict[str, int]
    artifact: str
    promoted: bool
    reason: str
    renewed: str | None = None
    keys: int
    seconds: dict[str, float]


class Night:
    """One night over one fleet.

    Parameters
    ----------
    absorb
        Brings the partitions up to date with the attempts of the topic; returns the days written.
    snapshot
        The statistics of the moment from Redis; none takes the offline twin's, as a night of the past must.
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
        absorb: Callable[[], list[date]] = list,
        snapshot: Callable[[], StatisticsSnapshot] | None = None,
        announce: Callable[[ArtifactPublished], None] = lambda event: None,
        key: SigningKey | None = None,
    ) -> None:
        self._partitions = partitions
        self._store = store
        self._catalog = catalog
        self._absorb = absorb
        self._snapshot = snapshot
        self._announce = announce
        self._key = key
        self._seconds: dict[str, float] = {}

    def run(self, plan: Plan) -> Report:
        """Run all steps.

        Raises
        ------
        NothingToLearn
            If the window has too few attempts.
        PointerMoved
            If another night moved production meanwhile.
        """
        with self._step("absorb"):
            days = self._absorb()
            log.info("partitions written", days=len(days))
        with self._step("window"):
            table = HardwareTable(self._catalog)
            window = open_window(self._partitions, plan.night, plan.window_days, table, plan.target, plan.max_missing)
            log.info("window read", training=len(window.training), held_out=len(window.held_out))
        with _folder(self._partitions, plan.target) as folder:
            with self._step("train"):
                comparison = select_champion(
                    window.training, window.held_out, plan.recipes, folder / "recipes", plan.n_jobs
                )
            with self._step("evaluate"):
                found = publish.Production.of(self._store, plan.target, window.last)
                measured = np.exp(window.held_out.y)
                served = publish.served(found.rival, window.held_out) if found.rival else np.full(len(measured), np.nan)
                skews = skew(window.held_out) if plan.target == THROUGHPUT else {}  # no other is served with a list
            with self._step("snapshot"):
                frozen, difference = self._freeze(window)
                snapshot = states.snapshot(frozen.records)
            with self._step("publish"):
                doubts = (*window.anomalies, *promotion.is_stale_night(found.serving, window))
                decision = promotion.decide(comparison, served, measured, found.pointer, plan.margin, doubts)
                reason = decision.reason if plan.promote else f"trial run; otherwise: {decision.reason}"

                learned = replace(window, held_out=window.unseen)  # what is published takes in all outcomes

                def release(about: Manifest, model: Path, promoted: bool) -> str:
                    made = publish.write(about, model, learned, snapshot, self._catalog, folder / "artifacts")
                    if self._key is not None:
                        self._key.sign_folder(made)
                    self._store.add(plan.target, made)
                    if promoted:
                        publish.move(self._store, plan.target, made.name, decision.reason, found)
                    self._announce(_announcement(plan.target, made.name, promoted, reason, about.metrics))
                    log.info("artifact published", artifact=made.name, promoted=promoted, reason=reason)
                    return made.name

                about = publish.manifest(comparison, window, frozen.fences, self._catalog, plan.target)
                promoted = decision.promote and plan.promote
                artifact, renewed = release(about, comparison.folder, promoted), None
                if found.serving and decision.renew and plan.promote:
                    about = publish.renewed_manifest(found.serving, window, frozen.fences, self._catalog)
                    model = self._store.folder(plan.target, found.serving.manifest.version)
                    renewed = release(about, model, True)
        with self._step("prune"):
            self._partitions.prune(plan.night - timedelta(days=plan.keep_days))
            prune(self._store, plan.target, plan.keep_artifacts)
        report = Report(
            night=plan.night.isoformat(),
            target=plan.target,
            window_from=window.first.isoformat(),
            window_to=window.last.isoformat(),
            missing_days=tuple(day.isoformat() for day in window.missing),
            doubts=window.anomalies,
            trained_on=len(window.training),
            held_out=len(window.held_out),
            recipes=comparison.table,
            champion=comparison.champion.recipe,
            lookup=comparison.lookup,
            champion_on_lookup=comparison.champion_on_lookup,
            production=accuracy(served, measured),
            skew=skews,
            store=difference,
            fences=frozen.fences,
            artifact=artifact,
            promoted=promoted,
            reason=reason,
            renewed=renewed,
            keys=len(snapshot),
            seconds=dict(self._seconds),
        )
        with self._step("report"):
            data = msgspec.json.format(msgspec.json.encode(report), indent=1)
            self._partitions.files.write(report_name(plan.target, plan.night, trial=not plan.promote), data)
        return report

    def _freeze(self, window: Window) -> tuple[StatisticsSnapshot, Difference | None]:
        """The statistics to publish, and how those of the store differ from the partitions'."""
        if not self._snapshot:
            return StatisticsSnapshot(window.twin.records(day_number(window.last))), None
        frozen = self._snapshot()
        expected = window.twin.records(day_number(window.last) + 1)
        found = states.difference(frozen.records, expected)
        log.info("store compared with partitions", **msgspec.structs.asdict(found))
        if found.behind > MAX_BEHIND * expected["n"].sum():
            log.warning("the store lacks history, the partitions' is published: see `leap history audit`")
            return StatisticsSnapshot(expected), found
        return frozen, found

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        log.info("step started", step=name)
        started = time.monotonic()
        yield
        self._seconds[name] = round(time.monotonic() - started, 2)
        log.info("step finished", step=name, seconds=self._seconds[name])


def report_name(target: str, night: date, *, trial: bool = False) -> str:
    """Name of the report of a night, beside the partitions; a trial does not stand for the night."""
    return f"reports/{'trials/' if trial else ''}{target}-{night.isoformat()}.json"


@contextmanager
def _folder(partitions: Partitions, target: str) -> Iterator[Path]:
    """A folder for what is not published yet; what a killed night left in it goes."""
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


def _announcement(
    target: str, artifact: str, promoted: bool, reason: str, metrics: dict[str, float]
) -> ArtifactPublished:
    return ArtifactPublished(
        target=target,
        artifact=artifact,
        promoted=promoted,
        reason=reason[:512],
        metrics={name: metrics[name] for name in ("w20", "w5", "mdape")},
        published_at=datetime.now(UTC),
    )
