"""Publishing: write the artifact, decide whether production moves to it, and move the pointer."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version as installed
from pathlib import Path
from shutil import copyfile

import numpy as np
import structlog

from predictor import artifact as artifacts
from predictor.artifact import Artifact
from predictor.features import matrix
from predictor.manifest import ArtifactError, Manifest
from predictor.snapshot import Snapshot
from predictor.store import ArtifactStore, Pointer
from retrainer.compare import Comparison
from retrainer.evaluate import Scores, scores
from retrainer.training import Data
from retrainer.window import Window
from schemas.hardware import Catalog

log = structlog.get_logger(__name__)

LIBRARIES = ("numpy", "onnx", "onnxruntime", "pandas", "scikit-learn")


@dataclass(frozen=True)
class Decision:
    """Whether production moves to the new artifact, and why."""

    promote: bool
    reason: str


def write(
    comparison: Comparison,
    window: Window,
    snapshot: Snapshot,
    fences: dict[str, int],
    catalog: Catalog,
    target: str,
    folder: Path,
) -> Path:
    """Write the champion, its snapshot and the catalog as one artifact under `folder`."""
    features = matrix.names(comparison.vocabulary)
    manifest = Manifest(
        version="",
        target=target,
        created_at=datetime.now(UTC).replace(microsecond=0),
        window_from=window.first.isoformat(),
        window_to=window.last.isoformat(),
        rows=len(window.training),
        recipe=comparison.champion.recipe,
        features=features,
        features_digest=matrix.digest(features),
        vocabulary=comparison.vocabulary,
        imputed=comparison.imputed,
        ranges=comparison.ranges,
        interval=comparison.interval,
        metrics=_metrics(comparison.champion.all),
        catalog_digest=catalog.digest,
        libraries={name: installed(name) for name in LIBRARIES} | {"python": platform.python_version()},
        fences=fences,
        files={},
    )

    def write_files(draft: Path) -> None:
        for path in comparison.folder.iterdir():
            copyfile(path, draft / path.name)
        snapshot.save(draft)

    return artifacts.write(folder, manifest, catalog, write_files)


def production(store: ArtifactStore, target: str) -> Artifact | None:
    """What serves now; none if there is nothing, or nothing that this version can load."""
    pointer = store.pointer(target)
    if pointer is None:
        return None
    try:
        return artifacts.load(store.folder(target, pointer.version))
    except ArtifactError as error:
        log.warning("production cannot be loaded, so nothing is compared with it", reason=str(error))
        return None


def served_scores(artifact: Artifact, held_out: Data) -> Scores | None:
    """How an artifact's model predicts the held-out attempts.

    History is what was known at each launch, as for the new model. The artifact's own snapshot will not do: that
    of a night that is run again, or of the day before where two days are held out, holds their outcomes.
    """
    pairs = replace(held_out.pairs, table=artifact.table)
    predicted = np.exp(artifact.model.predict(pairs, artifact.matrix(pairs)).mean)
    return scores(predicted, np.exp(held_out.y))


def overtaken(serving: Artifact | None, window: Window) -> list[str]:
    """Why a night of the past must not move production."""
    if serving is None or serving.manifest.window_to <= window.last.isoformat():
        return []
    return [f"production was made of attempts up to {serving.manifest.window_to}, later than {window.last}"]


def decide(
    comparison: Comparison, serving: Scores | None, pointer: Pointer | None, margin: float, doubts: Sequence[str] = ()
) -> Decision:
    """The promotion gate.

    Parameters
    ----------
    serving
        Scores of the model in production on the same attempts.
    margin
        Points of w20 that the new model may be worse by.
    doubts
        Why production should stay where it is, whatever the scores.
    """
    found = comparison.champion.all
    assert found is not None
    if pointer and pointer.pinned:
        return Decision(False, f"production is pinned to {pointer.version}")
    if doubts:
        return Decision(False, "; ".join(doubts))
    if serving and found.w20 < serving.w20 - margin:
        return Decision(False, f"w20 {found.w20} is worse than production's {serving.w20} by more than {margin}")
    beaten, baseline = comparison.champion_on_lookup, comparison.lookup
    if baseline and beaten and beaten.w20 < baseline.w20 - margin:
        return Decision(False, f"w20 {beaten.w20} is worse than the lookup table's {baseline.w20} where it answers")
    return Decision(True, f"w20 {found.w20} on {found.n} held-out attempts, production {serving and serving.w20}")


def move(store: ArtifactStore, target: str, version: str, reason: str, pointer: Pointer | None) -> Pointer:
    """Move production to `version` from where `pointer` says that it is.

    Raises
    ------
    PointerMoved
        If it is not there any more.
    """
    expected = pointer.version if pointer else None
    moved = Pointer(version=version, previous=expected, reason=reason, moved_at=datetime.now(UTC))
    store.move(target, moved, expected)
    return moved


def _metrics(found: Scores | None) -> dict[str, float]:
    assert found is not None
    return {name: float(getattr(found, name)) for name in ("n", "w20", "w10", "w5", "mdape", "ratio")}
