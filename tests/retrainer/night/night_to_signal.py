"""A night in a process of its own that signals itself at one point: ``python -m ... <root> <point> <signal>``."""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.store import ArtifactStore
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night import publish
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.retrainer.night.publish import Production
from leap.retrainer.storage.lease import night_lock
from tests.artifacts import NIGHT, past
from tests.builders import CATALOG

#: Whatever its scores, the night promotes.
PLAN = Plan(night=NIGHT, recipes=("boosted",), margin=100.0, keep_days=9, keep_artifacts=1)


def run(root: Path, point: str, signal: int) -> None:
    """Run a night over `past` whose last day is still to come; `point` is a step that has ended, or ``move``."""

    def at_step(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if event["event"] == "step finished" and event["step"] == point:
            os.kill(os.getpid(), signal)
        return event

    move = publish.move

    def before_move(store: ArtifactStore, target: str, version: str, reason: str, production: Production) -> None:
        os.kill(os.getpid(), signal)
        move(store, target, version, reason, production)

    structlog.configure(processors=[at_step, structlog.processors.JSONRenderer()])
    if point == "move":
        publish.move = before_move
    partitions = Partitions(root / "partitions")
    night = Night(partitions, LocalStore(root / "artifacts"), CATALOG, ingest=lambda into: into.ingest(past()))
    with night_lock(partitions.root):
        night.run(PLAN)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
