"""Runs that belong to an earlier one, as an audit or as the next of a set, read the rows that it read, or refuse.

What is compared is when own data were last written: that is what somebody has done, and public. Rows are not compared,
because whether one has changed would differ between neighbours, and everybody who sees the run would hear of it.
"""

from __future__ import annotations

from sqlalchemy import func, select

from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.runs.run import Run
from dpcl_core.runs.sets import Sets
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import events


def check(store: Store, earlier: Run) -> None:
    """Raises BadInput where the files of a run's own data were written after it had first started."""
    name = earlier.spec.data.dataset
    began = _began(store, earlier)
    if began is not None and max(own.written(name).values(), default=0) > began * 1e9:
        allowed = f"must be as run {earlier.id} read it, but was written again since: start that run anew"
        raise BadInput("data.dataset", name, allowed)


def check_set(store: Store, run_id: str) -> None:
    """The same of a run in a set and the first of the others, on the same data, that was started."""
    sets = Sets(store)
    if (set_id := sets.of_run(run_id)) is not None:
        of_set = sets.get(set_id).runs.values()
        (mine,) = (run for run in of_set if run.id == run_id)
        same = [run for run in of_set if run is not mine and run.spec.data.dataset == mine.spec.data.dataset]
        began = {run.id: at for run in same if (at := _began(store, run)) is not None}
        if began:
            check(store, min((run for run in same if run.id in began), key=lambda run: began[run.id]))


def _began(store: Store, run: Run) -> float | None:
    """When a run started, in seconds since 1970; None if it never did.

    One that was resumed has the start of its last process alone: then it is when it was asked for, which is safe.
    """
    with store.reading() as connection:
        first = connection.scalar(select(func.min(events.c.at)).where(events.c.run_id == run.id))
    return run.created if run.started is not None and first is not None and first < run.started else run.started
