"""Publishing: write the artifact, ask the one in production, and move the pointer."""

import platform
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from importlib.metadata import version as installed
from pathlib import Path

import msgspec
import numpy as np
import structlog

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.manifest import ArtifactError, Manifest
from leap.predictor.artifacts.store import ArtifactStore, Pointer
from leap.predictor.features import matrix
from leap.predictor.features.batch import Floats, HardwareTable, Rows
from leap.predictor.history.definitions import FILE as DEFINITIONS_FILE
from leap.predictor.history.snapshot import Snapshot
from leap.predictor.models.accuracy import Accuracy
from leap.predictor.models.serving import StructuredModel
from leap.predictor.models.serving import load as load_model
from leap.predictor.models.structured.estimator import with_refreshed_history
from leap.predictor.routing.trial import save_examples
from leap.retrainer.dataset.partitions import day_number
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.night.examples import examples_of
from leap.retrainer.night.model_selection import Comparison
from leap.retrainer.night.window import Window
from leap.schemas.events import ArtifactPublished
from leap.schemas.hardware import Catalog

log = structlog.get_logger(__name__)

LIBRARIES = ("numpy", "pandas", "scikit-learn")


def manifest(comparison: Comparison, window: Window, fences: dict[str, int], catalog: Catalog, target: str) -> Manifest:
    """Manifest of the champion."""
    features = matrix.names(comparison.vocabulary)
    return Manifest(
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


def renewed_manifest(serving: Artifact, window: Window, fences: dict[str, int], catalog: Catalog) -> Manifest:
    """Manifest of the model in production with the history of this window."""
    return msgspec.structs.replace(
        serving.manifest,
        created_at=datetime.now(UTC).replace(microsecond=0),
        window_to=window.last.isoformat(),
        catalog_digest=catalog.digest,
        fences=fences,
        files={},
    )


def write(about: Manifest, model: Path, window: Window, snapshot: Snapshot, catalog: Catalog, folder: Path) -> Path:
    """Write a model, the history of everything up to the night, the catalog and examples as one artifact in `folder`.

    Parameters
    ----------
    model
        Holds the files of the model's serving form. A structured model has a history of its own, of what it was
        trained on: it takes in all later outcomes of the window, or a launch would not see the day before.
    """

    def write_files(draft: Path) -> None:
        loaded = load_model(model, len(about.features))
        if isinstance(loaded, StructuredModel):
            rows, y = attempts(window.training, window.unseen)
            loaded = StructuredModel(with_refreshed_history(loaded.structured, rows, y))
        loaded.save(draft)
        snapshot.save(draft)
        (draft / DEFINITIONS_FILE).write_bytes(window.definitions.to_json())
        made = Artifact(
            about,
            load_model(draft, len(about.features)),
            Snapshot.load(draft),
            catalog,
            HardwareTable(catalog),
            window.definitions,
        )
        save_examples(draft, made, examples_of(window.held_out, catalog, about.created_at))

    return artifacts.write(folder, about, catalog, write_files)


def attempts(*parts: TrainingSet) -> tuple[Rows, Floats]:
    """Rows of the structured recipe, with (n,) ln of the target."""
    columns = [part.rows for part in parts]
    rows = {name: np.concatenate([column[name] for column in columns]) for name in columns[0]}
    return rows, np.concatenate([part.y for part in parts])


@dataclass(frozen=True)
class Production:
    """Production as a nightly run finds it.

    Attributes
    ----------
    pointer
        Where production is; none before the first night.
    serving
        What serves; none if there is nothing, or nothing that this version can load.
    previous_version
        Production before this run. On a rerun that is not the serving artifact: the first run published it, trained on
        the held-out outcomes.
    incumbent
        That artifact, which the new one has to equal.
    """

    pointer: Pointer | None
    serving: Artifact | None
    previous_version: str | None
    incumbent: Artifact | None

    @classmethod
    def of(cls, store: ArtifactStore, target: str, last: date) -> "Production":
        """Read it, for a night whose window ends with the day `last`."""
        pointer = store.pointer(target)
        if pointer is None:
            return cls(None, None, None, None)
        serving = _loaded(store, target, pointer.version)
        if serving is None or serving.manifest.window_to < last.isoformat():
            return cls(pointer, serving, pointer.version, serving)
        return cls(pointer, serving, pointer.previous, _loaded(store, target, pointer.previous))


def _loaded(store: ArtifactStore, target: str, version: str | None) -> Artifact | None:
    try:
        return artifacts.load(store.folder(target, version)) if version else None
    except ArtifactError as error:
        log.warning("production cannot be loaded, so nothing is compared with it", version=version, reason=str(error))
        return None


def served(artifact: Artifact, held_out: TrainingSet) -> Floats:
    """(n,) samples/s that an artifact's model predicts of the held-out attempts.

    History is what was known at each launch, as for the new model. An attempt of a day that the artifact was made of
    is NaN: of the day before, where two days are held out, it knows the outcomes.
    """
    pairs = replace(held_out.pairs, table=artifact.table)
    mean = artifact.predict(artifact.features(pairs)).mean
    since = day_number(date.fromisoformat(artifact.manifest.window_to)) + 1
    return np.where(held_out.submitted_day < since, np.nan, np.exp(mean))


def move(store: ArtifactStore, target: str, version: str, reason: str, production: Production) -> None:
    """Move production to `version` from where the run found it; the way back leads to before the run.

    Raises
    ------
    PointerMoved
        If it is not there any more.
    """
    moved = Pointer(version=version, previous=production.previous_version, reason=reason, moved_at=datetime.now(UTC))
    store.move(target, moved, production.pointer)


def _metrics(scores: Accuracy | None) -> dict[str, float]:
    assert scores is not None
    return {name: float(getattr(scores, name)) for name in ("n", "w20", "w10", "w5", "mdape", "ratio")}


def announcement(
    target: str, artifact: str, promoted: bool, reason: str, metrics: dict[str, float]
) -> ArtifactPublished:
    """The event that tells what was published."""
    return ArtifactPublished(
        target=target,
        artifact=artifact,
        promoted=promoted,
        reason=reason[:512],
        metrics={name: metrics[name] for name in ("w20", "w5", "mdape")},
        published_at=datetime.now(UTC),
    )
