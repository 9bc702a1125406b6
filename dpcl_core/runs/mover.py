"""Moves the queue of a store for as long as a server or `dpcl work` is up, whether or not anybody looks at a page."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from dpcl_core import unforeseen
from dpcl_core.data import intake
from dpcl_core.errors import StoreTrouble
from dpcl_core.runs.executor import Executor
from dpcl_core.runs.patience import Patience

PAUSE_SECONDS = 0.5


def move(
    open_executor: Callable[[], Executor],
    over: threading.Event,
    *,
    after_each: Callable[[], object] = lambda: None,
    on_trouble: Callable[[StoreTrouble], object] = lambda trouble: None,
    patience: Patience = Patience(),  # noqa: B008 (a value that nothing changes)
) -> None:
    """Looks after the queue until `over` is set: starts runs whose turn it is and ends those whose process is gone.

    A store that is away is tried again after pauses that grow, and `on_trouble` hears why, once; an unexpected error
    is printed, and the next look follows. `after_each` is called after every look that succeeded. Own data that a process
    which died has left halfway are removed first.
    """
    intake.sweep()
    executor: Executor | None = None
    failures = 0
    while not over.is_set():
        try:
            executor = executor or open_executor()
            executor.schedule()
            after_each()
            failures = 0
        except StoreTrouble as trouble:
            if failures == 0:
                on_trouble(trouble)
            failures += 1
        except Exception as error:
            print(unforeseen.trace(error), file=sys.stderr)
            failures += 1
        over.wait(max(PAUSE_SECONDS, patience.pause(failures)) if failures else PAUSE_SECONDS)
