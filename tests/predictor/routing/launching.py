"""A launcher in a process of its own, which reports what it did to the machine: ``python -m`` this with store and job.

Prints one JSON object: what Python opened, connected and started, the threads there are after each step, and whether
forked and spawned children ranked and ended by themselves.
"""

import json
import multiprocessing
import os
import sys
from pathlib import Path

WATCHED = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.system", "ctypes.dlopen", "urllib.")
WRITES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}


def threads() -> int:
    """Threads of this process, those that Python does not know of included."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def watch(report: list[str]) -> None:
    """Note what Python does from now on."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path != os.devnull:
                report.append(f"open {path!r}")
        elif event in WRITES or event.startswith(WATCHED):
            report.append(f"{event} {arguments!r:.80}")

    sys.addaudithook(hook)


def ranked(store: str, job: str) -> bool:
    """Whether a router of this process ranks a job."""
    from leap.predictor.artifacts.open import open_store
    from leap.predictor.routing.router import Router
    from leap.schemas.codec import decode
    from leap.schemas.events import JobSubmitted

    router = Router(open_store(store), deadline=60.0)
    router.refresh()
    return bool(router.rank(decode(Path(job).read_bytes(), JobSubmitted)).ranked)


def forked(store: str, job: str) -> bool:
    """Whether a forked child ranks, and ends as an interpreter does."""
    child = os.fork()
    if child == 0:
        sys.exit(0 if ranked(store, job) else 3)
    return os.waitpid(child, 0)[1] == 0


def main(store: str, job: str) -> None:
    """Do it step by step."""
    import numpy as np  # noqa: F401

    tasks = {"numpy": threads()}
    report: list[str] = []
    watch(report)
    import leap.predictor.routing.router  # noqa: F401

    tasks["import"] = threads()
    before = forked(store, job)
    at_rank = ranked(store, job)
    tasks["rank"] = threads()
    after = forked(store, job)
    did = list(report)
    spawned = multiprocessing.get_context("spawn").Process(target=ranked, args=(store, job))
    spawned.start()
    spawned.join()
    outcome = {"before": before, "ranked": at_rank, "after": after, "spawned": spawned.exitcode == 0}
    print(json.dumps({"did": did, "threads": tasks, "outcome": outcome}))


if __name__ == "__main__":
    main(*sys.argv[1:])
