"""Checks of :mod:`leap.streams.doctor.runner` of what nights write and workers read."""

import uuid
from datetime import UTC, datetime
from pathlib import Path

from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.open import open_store
from leap.predictor.routing.trial import load
from leap.predictor.storage.urls import open_filesystem, redact_url
from leap.schemas.hardware import CatalogError, load_catalog
from leap.streams.doctor.check import CheckContext, CheckFailed, duration

#: Nights that may pass without a new model: one that fails is tried again, and a gate may hold one back.
OLD_S = 3 * 86_400.0


def reachable(visit: CheckContext) -> str:
    """Whether artifacts can be read, and written by whoever runs nights."""
    url = visit.settings.artifacts
    shown = redact_url(url)
    try:
        found = sum(len(open_store(url).versions(target)) for target in visit.settings.targets)
        if "retrainer" not in visit.roles():
            return f"{found} under {shown}, read only"
        files, root = open_filesystem(url)
        probe = f"{root.rstrip('/')}/.doctor-{uuid.uuid4().hex}"
        files.makedirs(root, exist_ok=True)
        files.pipe_file(probe, b"leap")
        if files.cat_file(probe) != b"leap":
            raise OSError("what was written is not what is read")
        files.rm_file(probe)
    except Exception as error:  # every file system has errors of its own
        raise CheckFailed(
            redact_url(f"{shown}: {type(error).__name__}: {error}"),
            "correct LEAP_ARTIFACTS, or the rights there; with --role, only nights must write",
        ) from error
    return f"{found} under {shown}, can be read and written"


def production(visit: CheckContext) -> str:
    """Whether a whole and recent artifact of every target is in production."""
    return "; ".join(_production(visit, target) for target in visit.settings.targets)


def _production(visit: CheckContext, target: str) -> str:
    store = open_store(visit.settings.artifacts)
    try:
        pointer = store.pointer(target)
        if pointer is None:
            raise CheckFailed(
                f"nothing of {target} is in production: lists are empty",
                "leap retrain makes an artifact from finished attempts",
            )
        manifest = load(store.folder(target, pointer.version)).manifest
    except ArtifactError as error:
        raise CheckFailed(
            str(error), "leap artifact rollback goes back to the one before; workers keep what they have loaded"
        ) from error
    age = (datetime.fromtimestamp(visit.now(), UTC) - manifest.created_at).total_seconds()
    found = f"{pointer.version}, made {duration(age)} ago, every digest right"
    if age > OLD_S:
        raise CheckFailed(
            f"{found}{', pinned' if pointer.pinned else ''}",
            "leap artifact promote releases the pin"
            if pointer.pinned
            else "see the last report why nights do not run, or do not promote (docs/night.md)",
            can_wait=True,
        )
    return found + (", pinned" if pointer.pinned else "")


def catalog(visit: CheckContext) -> str:
    """Whether the hardware catalog can be read and has prices."""
    path = visit.settings.catalog
    try:
        entries = load_catalog(Path(path) if path else None)
    except CatalogError as error:
        raise CheckFailed(str(error), "correct the file, or LEAP_CATALOG") from error
    priced = sum(one.price_per_hour is not None for one in entries.values())
    found = f"{len(entries)} hardware types, {priced} with a price"
    if not priced:
        raise CheckFailed(found, "give prices: what has none is never ranked")
    return found
