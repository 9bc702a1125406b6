"""A worker that is killed (SIGKILL) as soon as its run's first checkpoint is saved; called as `dpcl_core.runs.worker` is.

Its events of that task are then still in memory. A resumed run begins after it, and is not killed again.
"""

import os
import signal
import sys

from dpcl_core.methods.common.state import Checkpoint
from dpcl_core.runs import resumption, worker

WORKER = (sys.executable, "-m", "tests.support.dying_worker")


class _Killed(resumption.Stored):
    def save(self, checkpoint: Checkpoint) -> None:
        super().save(checkpoint)
        if checkpoint.task == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    resumption.Stored = _Killed  # type: ignore[misc]
    sys.exit(worker.main(worker=WORKER))
