"""Checks of :mod:`leap.streams.doctor.runner` of artifacts and the hardware catalog."""

import uuid
from datetime import UTC, datetime

from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.open import open_store
from leap.predictor.routing.trial import load
from leap.predictor.storage.urls import open_filesystem, redact_url
from leap.schemas.hardware import CatalogError, load_catalog
from leap.streams.doctor.check import CheckContext, CheckFailed, duration

#: Longest acceptable age of the production artifact: a failed run is retried, and the promotion gate may reject one.
MAX_AGE_S = 3 * 86_400.0


def reachable(context: CheckContext) -> str:
    """Artifacts are readable, and writable for the retrainer."""
    url = context.settings.artifacts
    shown = redact_url(url)
    try:
        versions = sum(len(open_store(url).versions(target)) for target in context.settings.targets)
        if "retrainer" not in context.roles():
            return f"{versions} under {shown}, readable"
        files, root = open_filesystem(url)
        probe = f"{root.rstrip('/')}/.doctor-{uuid.uuid4().hex}"
        files.makedirs(root, exist_ok=True)
        files.pipe_file(probe, b"leap")
        if files.cat_file(probe) != b"leap":
            raise OSError("read back other content than was written")
        files.rm_file(probe)
    except Exception as error:  # every file system has its own exceptions
        raise CheckFailed(
            redact_url(f"{shown}: {type(error).__name__}: {error}"),
            "correct LEAP_ARTIFACTS, or the permissions; only the retrainer needs to write (see --role)",
        ) from error
    return f"{versions} under {shown}, readable and writable"


def production(context: CheckContext) -> str:
    """Every target has an intact and recent artifact in production."""
    return "; ".join(_production(context, target) for target in context.settings.targets)


def _production(context: CheckContext, target: str) -> str:
    store = open_store(context.settings.artifacts)
    try:
        pointer = store.pointer(target)
        if pointer is None:
            raise CheckFailed(
                f"no artifact for {target} in production: lists are empty",
                "leap retrain trains one from finished attempts",
            )
        manifest = load(store.folder(target, pointer.version)).manifest
    except ArtifactError as error:
        raise CheckFailed(
            str(error), "leap artifact rollback returns to the previous one; workers keep the one they have loaded"
        ) from error
    age = (datetime.fromtimestamp(context.now(), UTC) - manifest.created_at).total_seconds()
    summary = f"{pointer.version}, created {duration(age)} ago, digests verified"
    if age > MAX_AGE_S:
        raise CheckFailed(
            f"{summary}{', pinned' if pointer.pinned else ''}",
            "leap artifact promote removes the pin"
            if pointer.pinned
            else "the last report says why training runs fail or are not promoted (docs/night.md)",
            can_wait=True,
        )
    return summary + (", pinned" if pointer.pinned else "")


def catalog(context: CheckContext) -> str:
    """The hardware catalog is valid and has prices."""
    try:
        entries = load_catalog(context.settings.catalog)
    except CatalogError as error:
        raise CheckFailed(str(error), "correct the file, or LEAP_CATALOG") from error
    priced = sum(hardware.price_per_hour is not None for hardware in entries.values())
    summary = f"{len(entries)} hardware types, {priced} with a price"
    if not priced:
        raise CheckFailed(summary, "add prices: hardware without one is ranked only for jobs that ask for the fastest")
    return summary
