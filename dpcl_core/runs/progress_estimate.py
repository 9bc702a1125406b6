"""How far a run is and how long it may still take, from what it has said so far."""

from __future__ import annotations

from collections.abc import Iterable

from dpcl_core.events import Event, Progress, Started, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.spec import RunSpec

_TOO_EARLY = 0.02  # below this share of the work, elapsed time says nothing about the rest


def fraction_done(spec: RunSpec, events: Iterable[Event]) -> float:
    """Share of the training done, in [0, 1]. More events of the same run never lower it."""
    n_cells = len(spec.privacy.epsilons) * len(spec.seeds)
    together = {"all": n_cells, "epsilons": len(spec.privacy.epsilons), "cell": 1}[methods.card(spec.method).shares]
    n_tasks, learned, furthest = 0, 0, 0.0
    for event in events:
        if isinstance(event, Started):
            n_tasks = event.n_tasks
        elif isinstance(event, TaskLearned):
            learned += 1
            furthest = max(furthest, float(learned))
        elif isinstance(event, Progress) and event.phase == "training" and event.total > 0:
            # A learner takes its cells through a task together: its progress counts for all of them.
            furthest = max(furthest, learned // together * together + together * min(1.0, event.done / event.total))
    return min(1.0, furthest / (n_cells * n_tasks)) if n_tasks else 0.0


def seconds_left(fraction: float, elapsed: float, estimate: float | None = None) -> tuple[float, float] | None:
    """From and to how many seconds may be left; None when there is nothing to go by.

    Args: fraction of the work done, seconds since the run started, seconds that such runs took in all (see `Run`).
    """
    guesses = [elapsed * (1 - fraction) / fraction] if fraction >= _TOO_EARLY else []
    if estimate is not None:
        guesses.append(max(0.0, estimate - elapsed))
    if not guesses:
        return None
    doubt = 1 + (1 - fraction) / 2  # the less is done, the wider the range
    return min(guesses) / doubt, max(guesses) * doubt
