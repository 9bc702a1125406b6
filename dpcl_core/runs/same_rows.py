"""Runs that belong to an earlier one, as an audit or as the next of a set, read the rows that it read, or refuse.

What is compared is when own data were last written: that is what somebody has done, and public. Rows are not compared,
because whether one has changed would differ between neighbours, and everybody who sees the run would hear of it.
"""

from __future__ import annotations

from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.runs.run import Run
from dpcl_core.runs.sets import Sets
from dpcl_core.runs.store import Store


def check(earlier: Run) -> None:
    """Raises BadInput where the files of a run's own data were written after it had started."""
    name = earlier.spec.data.dataset
    if earlier.started is not None and max(own.written(name).values(), default=0) > earlier.started * 1e9:
        allowed = f"must be as run {earlier.id} read it, but was written again since: start that run anew"
        raise BadInput("data.dataset", name, allowed)


def check_set(store: Store, run_id: str) -> None:
    """The same of a run in a set and the first of the others, on the same data, that was started."""
    sets = Sets(store)
    if (set_id := sets.of_run(run_id)) is not None:
        of_set = sets.get(set_id).runs.values()
        (mine,) = (run for run in of_set if run.id == run_id)
        same = [run for run in of_set if run is not mine and run.spec.data.dataset == mine.spec.data.dataset]
        if started := [run for run in same if run.started is not None]:
            check(min(started, key=lambda run: run.started or 0.0))
