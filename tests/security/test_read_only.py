"""Workers run where not one file can be written (no working directory, no home, no /tmp) and without any right.

Without a capability, and none to be had, even root may do no more than any other user may with its own files.
"""

import os
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from leap.predictor.artifacts.local_store import LocalStore
from leap.streams.embedded import child, free_port
from leap.streams.runtime.settings import Settings

# A mount namespace of its own, in which everything that is mounted is read-only.
READ_ONLY = """
mount --make-rprivate /
mount -o remount,bind,ro /
for place in /tmp /var /home /root; do ! touch "$place/written" 2>/dev/null || exit 9; done
alone="setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
$alone grep -qE "CapEff:[[:space:]]+0+$" /proc/self/status
exec $alone "$@"
"""


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_workers_start_and_join_their_groups_without_a_place_to_write(
    topics: Settings, artifact_store: LocalStore, tmp_path: Path
) -> None:
    workers = {name: free_port() for name in ("history", "joiner", "ranking", "monitor")}
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    with ExitStack() as stack:
        for worker, port in workers.items():
            given = topics.to_environment() | {
                "LEAP_METRICS_PORT": str(port),
                "LEAP_ARTIFACTS": str(artifact_store.root),
                "HOME": "/nonexistent",
            }
            command = [*alone, "sh", "-e", "-c", READ_ONLY, "sh", sys.executable, "-m", "leap", "worker", worker]
            last = worker == "monitor"  # they start side by side
            ready = (lambda: all(map(answers, workers.values()))) if last else (lambda: True)
            stack.enter_context(child(command, tmp_path / f"{worker}.log", ready, given, deadline_s=90))
    for log in tmp_path.glob("*.log"):
        assert "Read-only" not in log.read_text() and "Traceback" not in log.read_text()
