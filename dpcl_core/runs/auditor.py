"""The engine of an audit's run: audits the settings at each budget and stores each lower bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from dpcl_core.events import Event, Progress, Started
from dpcl_core.runs import same_rows
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.patience import Patience
from dpcl_core.runs.store import Store
from dpcl_core.runs.tuner import Engine
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.lower_bound import Audited

Play = Callable[[RunSpec, float], "Audited"]


def engine_of(store: Store, run_id: str, *, play: Play | None = None) -> Engine | None:
    """The engine that carries out the run if it is an audit; None for any other.

    `play` audits one budget (None: the one-run audit; tests put a stand-in here).
    """
    audits = Audits(store)
    if not audits.is_audit(run_id):
        return None

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        # They may have been written while it waited.
        Patience().outlast(lambda: same_rows.check(store, store.get(audits.get(run_id).run_id)))
        budgets = spec.privacy.epsilons
        yield Started(1, ("audit",), "planted examples", 0, 0)
        yield Progress("training", 0, len(budgets), None, "planting examples")
        from dpcl_core.attacks import one_run  # loads the learners, torch included

        audit = play or one_run.audited
        for done, epsilon in enumerate(budgets):
            yield Progress("training", done, len(budgets), None, f"a training with planted examples at epsilon {epsilon:g}")
            Patience().outlast(partial(audits.add, run_id, audit(spec, epsilon)))
            yield Progress("training", done + 1, len(budgets), None, f"audited at epsilon {epsilon:g}")

    return engine
