"""The disk of the artifact store is full when a night wants to publish."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.router import Router
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.schemas.events import THROUGHPUT
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG, submission
from tests.faults.fault import Fault
from tests.faults.scene import Scene

SIZE = "8m"
ROOM_BYTES = 16_384


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a small file system, in memory; needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "leap", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def full(scene: Scene) -> None:
    """A night on a full disk fails and changes nothing; the next one, on a disk with room, publishes."""
    scene.count()
    partitions = Partitions(scene.folder / "partitions")
    partitions.ingest(past())
    plan = Plan(night=NIGHT, recipes=("boosted",), margin=100.0)
    with small_disk(scene.folder / "disk") as disk:
        store = LocalStore(disk)
        night = Night(partitions, store, CATALOG)
        published = night.run(plan).artifact
        time.sleep(1.0)  # the name tells the second and the content: the same again would be there already
        filler = disk / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(disk).free - ROOM_BYTES))
        try:
            night.run(plan)
        except OSError:
            _assert_in_production(store, published)
        else:
            raise RuntimeError("a night has published on a full disk")
        filler.unlink()
        _assert_in_production(store, night.run(plan).artifact)


def _assert_in_production(store: LocalStore, version: str) -> None:
    pointer, router = store.pointer(THROUGHPUT), Router(store)
    if pointer is None or pointer.version != version or not router.refresh():
        raise RuntimeError(f"{version} should be in production, but the pointer is {pointer}")
    (answer,) = router.rank_many([submission()])
    if answer.artifact != version:
        raise RuntimeError(f"ranked by {answer.artifact} instead of {version}: {answer.no_opinion}")


FAULTS = [Fault("disk of the artifact store full", full)]
