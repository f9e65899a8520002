"""A night: what it publishes, when it moves production, and what a rerun or a rival changes."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.store import Pointer, PointerMoved
from leap.predictor.features import architecture
from leap.retrainer.cli.summary import summary
from leap.retrainer.dataset.feature_table import log_target
from leap.retrainer.dataset.partitions import Partitions, day_number
from leap.retrainer.dataset.point_in_time import PointInTimeStatistics
from leap.retrainer.dataset.statistics_array import NONE, STATISTICS_DTYPE, StatisticsSnapshot
from leap.retrainer.night import publish
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan, Report, report_name
from leap.retrainer.night.recipes import RECIPES, Recipe
from leap.retrainer.night.window import NothingToLearn
from leap.retrainer.storage.files import Files
from leap.schemas.events import THROUGHPUT, ArtifactPublished
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG, MIDNIGHT, MODEL, submission

PLAN = Plan(night=NIGHT, recipes=("boosted",))
TARGETS = (THROUGHPUT, "memory")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Partitions, LocalStore]:
    partitions = Partitions(tmp_path / "partitions")
    partitions.ingest(past())
    return partitions, LocalStore(tmp_path / "artifacts")


def test_the_champion_is_published_and_told(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    told: list[ArtifactPublished] = []
    report = Night(partitions, store, CATALOG, announce=told.append).run(PLAN)
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert report.promoted
    assert [report.artifact] == store.versions(THROUGHPUT) == [pointer.version] == [told[0].artifact]
    assert told[0].promoted
    manifest = artifacts.load(store.folder(THROUGHPUT, report.artifact)).manifest
    assert (manifest.window_from, manifest.window_to) == ("2026-02-09", "2026-03-10")
    assert manifest.metrics["w20"] == report.recipes[0].all.w20 if report.recipes[0].all else False
    assert report.trained_on + report.held_out == len(partitions.read(partitions.days()))
    assert report.recipes[0].all is not None
    assert report.recipes[0].all.w20 > 80, "noise is 3%"
    kept = partitions.files.read(report_name(THROUGHPUT, NIGHT))
    assert msgspec.json.decode(kept, type=Report) == report


def test_the_snapshot_in_the_artifact_is_that_of_the_store(places: tuple[Partitions, LocalStore]) -> None:
    more = np.array([(7, 7, 2.0, 5.0, 0.5, 5.5, 86_400.0), (3, 0, 1.0, 4.0, 0.0, 4.0, 0.0)], STATISTICS_DTYPE)
    partitions, store = places
    rows = partitions.read(partitions.days())
    told = PointInTimeStatistics(rows, log_target(rows, THROUGHPUT)).records(day_number(NIGHT))
    frozen = StatisticsSnapshot(np.concatenate([told, more]), {"topic/0": 41})
    report = Night(partitions, store, CATALOG, snapshot=lambda files: frozen).run(PLAN)
    loaded = artifacts.load(store.folder(THROUGHPUT, report.artifact))
    assert loaded.snapshot.hashes[:2].tolist() == [3, 7]
    np.testing.assert_allclose(loaded.snapshot.statistics[1], [2.0, 5.0, 0.5**0.5, 5.5, 1.0], rtol=1e-6)
    assert loaded.manifest.fences == report.fences == {"topic/0": 41}
    assert "of the partitions" not in summary(report)
    assert report.keys == len(told) + 2
    assert report.store is not None
    assert (report.store.ahead, report.store.equal, report.store.behind) == (3, len(told), 0)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_store_that_lacks_history_is_not_published(places: tuple[Partitions, LocalStore], kept: int) -> None:
    partitions, store = places
    rows = partitions.read(partitions.days())
    whole = PointInTimeStatistics(rows, log_target(rows, THROUGHPUT)).records(day_number(NIGHT))
    frozen = StatisticsSnapshot(whole[:kept], {"topic/0": 41})
    report = Night(partitions, store, CATALOG, snapshot=lambda files: frozen).run(PLAN)
    assert (report.promoted, report.keys, report.fences) == (True, len(whole), {})
    assert "the artifact has the statistics of the partitions" in summary(report)
    assert report.store is not None
    assert report.store.behind == whole["n"][kept:].sum()
    snapshot = artifacts.load(store.folder(THROUGHPUT, report.artifact)).snapshot
    assert snapshot.statistics[:, 0].sum() == whole["n"].sum()


def test_a_trial_run_leaves_production_alone(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    told: list[ArtifactPublished] = []
    before = partitions.sizes()
    trial = replace(PLAN, promote=False, keep_days=5)
    late = past(days=12)
    report = Night(partitions, store, CATALOG, ingest=lambda into: into.ingest(late), announce=told.append).run(trial)
    assert (partitions.sizes(), told) == (before, []), "it only reads"
    assert partitions.unlearned() == partitions.days()
    assert store.pointer(THROUGHPUT) is None
    assert store.versions(THROUGHPUT) == [report.artifact]
    assert report.reason.startswith("trial run")
    assert partitions.files.names("reports/*.json") == [], "the night itself is still to come"
    assert partitions.files.names(report_name(THROUGHPUT, NIGHT, trial=True))


def test_a_crash_before_the_pointer_leaves_production_and_a_rerun_completes(
    places: tuple[Partitions, LocalStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions, store = places
    first = Night(partitions, store, CATALOG).run(PLAN)

    def crash(*_: object) -> Pointer:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(publish, "move", crash)
        with pytest.raises(KeyboardInterrupt):
            Night(partitions, store, CATALOG).run(PLAN)
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert pointer.version == first.artifact
    assert Night(partitions, store, CATALOG).run(PLAN).promoted


def test_a_pin_during_a_night_holds(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    Night(partitions, store, CATALOG).run(PLAN)
    before = store.pointer(THROUGHPUT)
    assert before is not None
    pinned = msgspec.structs.replace(before, pinned=True)

    def pin(files: Files) -> StatisticsSnapshot:
        store.move(THROUGHPUT, pinned, before)
        return StatisticsSnapshot(NONE)

    with pytest.raises(PointerMoved, match="pinned"):
        Night(partitions, store, CATALOG, snapshot=pin).run(PLAN)
    assert store.pointer(THROUGHPUT) == pinned


def test_a_rival_that_moved_the_pointer_first_wins(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    first = Night(partitions, store, CATALOG).run(PLAN)

    def overtake(files: Files) -> StatisticsSnapshot:
        now = store.pointer(THROUGHPUT)
        assert now is not None
        store.add(THROUGHPUT, store.folder(THROUGHPUT, first.artifact))
        rival = store.root / THROUGHPUT / "rival"
        store.folder(THROUGHPUT, first.artifact).rename(rival)
        store.move(THROUGHPUT, Pointer(version="rival", reason="test", moved_at=datetime.now(UTC)), now)
        return StatisticsSnapshot(NONE)

    with pytest.raises(PointerMoved, match="another writer won"):
        Night(partitions, store, CATALOG, snapshot=overtake).run(PLAN)
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert pointer.version == "rival"


def test_retention_prunes_partitions_and_artifacts_but_not_production(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    nights = [NIGHT - timedelta(days=2), NIGHT - timedelta(days=1), NIGHT]
    reports = [
        Night(partitions, store, CATALOG).run(replace(PLAN, night=night, keep_artifacts=1, keep_days=7, window_days=7))
        for night in nights
    ]
    assert partitions.days()[0] >= NIGHT - timedelta(days=7)
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert {pointer.version, reports[-1].artifact} <= set(store.versions(THROUGHPUT))


def test_a_night_that_is_run_again_is_not_measured_against_what_it_published(
    places: tuple[Partitions, LocalStore],
) -> None:
    partitions, store = places
    first, again = (Night(partitions, store, CATALOG).run(PLAN) for _ in range(2))
    assert again.production is None, "it holds the outcomes of the held-out day"
    assert (again.promoted, again.recipes[0].all) == (True, first.recipes[0].all)


def test_a_night_of_the_past_does_not_move_production(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    latest = Night(partitions, store, CATALOG).run(PLAN)
    report = Night(partitions, store, CATALOG).run(replace(PLAN, night=NIGHT - timedelta(days=2)))
    assert not report.promoted
    assert report.reason == "production was made of attempts up to 2026-03-10, later than 2026-03-08"
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert pointer.version == latest.artifact


def test_a_day_with_far_fewer_attempts_is_kept_out_of_production(tmp_path: Path) -> None:
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    partitions.ingest(past()[:545])
    report = Night(partitions, store, CATALOG).run(PLAN)
    assert report.doubts == ("2026-03-10 has 5 attempts with the target, where a day has 60",)
    assert (report.promoted, report.reason) == (False, report.doubts[0])
    assert store.versions(THROUGHPUT) == [report.artifact]


def test_missing_days_beyond_the_limit_keep_the_artifact_out_of_production(tmp_path: Path) -> None:
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    partitions.ingest(one for one in past() if one.completed.finished_at.day not in (4, 6))
    tolerated = Night(partitions, store, CATALOG).run(replace(PLAN, max_missing=2, promote=False))
    assert tolerated.doubts == ()
    assert tolerated.missing_days[-2:] == ("2026-03-04", "2026-03-06")
    report = Night(partitions, store, CATALOG).run(replace(PLAN, max_missing=1))
    assert (report.promoted, report.reason) == (False, "2 days are missing (2026-03-04, 2026-03-06), more than 1")


def test_each_target_has_its_own_line_of_artifacts_and_pointer(tmp_path: Path) -> None:
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    partitions.ingest(past())
    rows = partitions.read(partitions.days())
    partitions.merge(rows.assign(measured_memory=50.0 * rows["num_trainers"]))
    reports = {name: Night(partitions, store, CATALOG).run(replace(PLAN, target=name)) for name in TARGETS}
    for name, report in reports.items():
        pointer = store.pointer(name)
        assert pointer is not None
        assert [pointer.version] == store.versions(name) == [report.artifact]
        assert artifacts.load(store.folder(name, pointer.version)).manifest.target == name
    assert reports["memory"].skew == {}, "lists are served with the history of throughput"
    memory = reports["memory"].recipes[0].all
    assert memory is not None
    assert memory.w5 == 100.0


def test_an_empty_window_says_what_to_do(tmp_path: Path) -> None:
    night = Night(Partitions(tmp_path / "p"), LocalStore(tmp_path / "a"), CATALOG)
    with pytest.raises(NothingToLearn, match="Check `leap worker joiner`, or `leap learn`"):
        night.run(PLAN)


def test_missing_days_are_named(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    report = Night(partitions, store, CATALOG).run(replace(PLAN, window_days=12))
    assert report.missing_days == ("2026-02-27", "2026-02-28")


def test_a_recipe_that_fails_is_a_row_and_the_others_go_on(
    places: tuple[Partitions, LocalStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(n_jobs: int) -> Recipe:
        raise MemoryError("too large")

    monkeypatch.setitem(RECIPES, "broken", fail)
    partitions, store = places
    report = Night(partitions, store, CATALOG).run(replace(PLAN, recipes=("broken", "boosted")))
    assert report.champion == "boosted"
    assert report.recipes[0].error == "MemoryError: too large"


def test_the_window_moves_with_the_night(places: tuple[Partitions, LocalStore]) -> None:
    partitions, store = places
    early = Night(partitions, store, CATALOG).run(replace(PLAN, night=date(2026, 3, 6), window_days=4))
    late = Night(partitions, store, CATALOG).run(replace(PLAN, night=date(2026, 3, 9), window_days=4))
    assert (early.window_from, early.window_to) == ("2026-03-02", "2026-03-05")
    assert (late.window_from, late.window_to) == ("2026-03-05", "2026-03-08")


def test_a_definition_outlives_its_window_and_serves_who_states_none(tmp_path: Path) -> None:
    """Of four model types two state a definition; what comes later states none."""
    partitions, store = Partitions(tmp_path / "partitions"), LocalStore(tmp_path / "artifacts")
    of_model = architecture.summary(MODEL)
    early = [msgspec.structs.replace(each, architecture=of_model if each.submitted.model else None) for each in past()]
    later = past(seed=1, start=MIDNIGHT + timedelta(days=20))
    partitions.ingest(early)
    partitions.ingest([msgspec.structs.replace(each, attempt_id=f"later-{each.attempt_id}") for each in later])
    for night in (NIGHT, NIGHT + timedelta(days=20)):
        report = Night(partitions, store, CATALOG).run(replace(PLAN, night=night, window_days=10))
        assert report.definitions is not None
        assert sorted(report.definitions.missing) == ["model-0", "model-2"]
        assert report.definitions.share == pytest.approx(50, abs=5)
        assert "% of the attempts; of none of model-" in summary(report)
        assert "held out: with a definition w20" in summary(report)
    artifact = artifacts.load(store.folder(THROUGHPUT, report.artifact))
    jobs = artifact.job_batch([submission(model_type="model-1"), submission(model_type="model-0")])
    assert np.isfinite(jobs.architecture).any(axis=1).tolist() == [True, False]
