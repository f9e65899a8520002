"""``python -m tests.faults.worker KIND SHARE FOLDER``: a worker that kills itself with -9 where it hurts most.

In that share of its commits it dies when all is written and nothing committed. Of each it leaves a trail in the folder.
"""

import os
import random
import signal
import sys
from pathlib import Path
from unittest.mock import patch

from leap.streams.cli.worker import app
from leap.streams.consumer.batch_loop import BatchLoop
from tests.faults import trail

commit = BatchLoop._commit


def main() -> None:
    """Run the worker."""
    kind, share, folder = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    rng = random.Random()

    def mortal(loop: BatchLoop) -> None:
        trail.leave(folder, loop.worker, loop._uncommitted)
        if rng.random() < share:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(loop)

    patch.object(BatchLoop, "_commit", mortal).start()  # for good: a loop goes on while an error ends its process
    app([kind])


if __name__ == "__main__":
    main()
