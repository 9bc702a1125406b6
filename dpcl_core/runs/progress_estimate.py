"""Share of a run that is done and its remaining time, from its events so far."""

from __future__ import annotations

from collections.abc import Iterable

from dpcl_core.events import Event, Progress, Started, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.spec import RunSpec

_TOO_EARLY = 0.02  # below this share of the work, elapsed time says nothing about the rest


def fraction_done(spec: RunSpec, events: Iterable[Event]) -> float:
    """Share of the training done, in [0, 1]. More events of the same run never lower it."""
    n_cells = len(spec.privacy.epsilons) * len(spec.seeds)
    n_together = {"all": n_cells, "epsilons": len(spec.privacy.epsilons), "cell": 1}[methods.card(spec.method).shares]
    n_tasks, learned, furthest = 0, 0, 0.0
    for event in events:
        if isinstance(event, Started):
            n_tasks = event.n_tasks
        elif isinstance(event, TaskLearned):
            learned += 1
            furthest = max(furthest, float(learned))
        elif isinstance(event, Progress) and event.phase == "training" and event.total > 0:
            # A learner trains its cells on a task together: its progress counts for all of them.
            furthest = max(furthest, learned // n_together * n_together + n_together * min(1.0, event.done / event.total))
    return min(1.0, furthest / (n_cells * n_tasks)) if n_tasks else 0.0


def seconds_left(fraction: float, elapsed: float, estimate: float | None = None) -> tuple[float, float] | None:
    """Range of the seconds left (shortest, longest); None when nothing is known.

    Args: `fraction` of the work done; `elapsed` seconds since the start; `estimate` of the total seconds (see `Run`).
    """
    guesses = [elapsed * (1 - fraction) / fraction] if fraction >= _TOO_EARLY else []
    if estimate is not None:
        guesses.append(max(0.0, estimate - elapsed))
    if not guesses:
        return None
    spread = 1 + (1 - fraction) / 2  # the less is done, the wider the range
    return min(guesses) / spread, max(guesses) * spread
