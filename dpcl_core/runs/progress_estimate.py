"""Share of a run that is done and its remaining time, from its events so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpcl_core.events import Event, Progress, Started, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.spec import RunSpec

Left = tuple[float, float]  # seconds left: shortest, longest
_LEAST, _MOST = 0.5, 1.5  # of the time left that was to be expected
_TOO_EARLY = 0.02  # below this share of the work, elapsed time says nothing about the rest


def fraction_done(spec: RunSpec, events: Iterable[Event]) -> float:
    """Share of the training done, in [0, 1]. More events of the same run never lower it."""
    n_cells, n_together = spec.n_cells, n_trained_together(spec)
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


def stage(events: Sequence[Event]) -> Progress | None:
    """What the run is doing before its first training: the newest progress of reading data or computing features, if any."""
    if any(isinstance(event, TaskLearned) for event in events):
        return None
    newest = next((event for event in reversed(events) if isinstance(event, (Started, Progress))), None)
    return newest if isinstance(newest, Progress) and newest.phase in ("data", "backbone") else None


def n_trained_together(spec: RunSpec) -> int:
    """Models that learn a task at the same time; the others wait until these have learned all tasks."""
    return {"all": spec.n_cells, "epsilons": len(spec.privacy.epsilons), "cell": 1}[methods.card(spec.method).shares]


def steady(fresh: Left, before: Left, since: float) -> Left:
    """The time left, at most half more or less than was to be expected `since` seconds after it was `before`.

    A guess changes suddenly where a slower stage begins; what is shown follows it over several looks.
    """
    low, high = (
        min(max(now, _LEAST * max(old - since, 1.0)), _MOST * max(old - since, 1.0))
        for now, old in zip(fresh, before, strict=True)
    )
    return low, max(low, high)


def seconds_left(fraction: float, elapsed: float, estimate: float | None = None) -> Left | None:
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
