"""A worker with a stand-in for the engine: python stand_in.py BEHAVIOUR RUN_ID, as `LocalExecutor(worker=...)` starts it.

BEHAVIOUR is `replay:SECONDS` or one of the ways to misbehave below.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial

from dpcl_core.events import Event
from dpcl_core.runs import worker
from dpcl_core.spec import RunSpec
from tests.support import replay
from tests.support.waiting import NEVER_SECONDS


def command(behaviour: str) -> tuple[str, ...]:
    """What starts such a worker; the id of the run goes after it."""
    return (sys.executable, "-m", "tests.support.stand_in", behaviour)


def engine(behaviour: str, spec: RunSpec, device: str) -> Iterator[Event]:
    """Says what the first task of a run says, then behaves as asked."""
    said = replay.recorded(spec)
    name, _, seconds = behaviour.partition(":")
    if name == "replay":
        yield from replay.slowly(said, float(seconds))
        return
    yield from said[:10]
    time.sleep(0.6)  # so that these are in the store, whatever happens next
    if name == "asleep":
        time.sleep(NEVER_SECONDS)  # a step inside a library that lets other threads run
    elif name == "stubborn":
        ctypes.PyDLL(None).sleep(NEVER_SECONDS)  # a step inside a library that lets no other thread run
    elif name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "broken":
        raise RuntimeError("a part fell\noff")
    else:
        raise ValueError(name)


if __name__ == "__main__":
    sys.exit(worker.main(sys.argv[2:], engine=partial(engine, sys.argv[1]), worker=command(sys.argv[1])))
