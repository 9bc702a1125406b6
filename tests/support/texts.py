"""Made-up events of a method that trains a language model: scored texts, what is retained, what leaks."""

import math
from collections.abc import Sequence

from dpcl_core.events import Event, Leaks, Retained, ScoredText, TaskLearned, TokensScored
from dpcl_core.spec import Cell

SCORED = ScoredText(
    tokens=("Dear", " team", ",", " Grace", " O", "kafor", " is", " in", " Basel", "."),
    probability=(0.02, 0.2, 0.6, 0.001, 0.0005, 0.004, 0.3, 0.2, 0.0008, 0.7),
    commonness=(0.1, 0.05, -0.154, 0.0, 0.0, 0.0, 0.2, 0.2, 0.01, -0.1),
    is_stop=(False, False, False, False, False, False, True, True, False, False),
    kinds=("", "", "", "NAME", "NAME", "NAME", "", "", "D:city", ""),
    label="calm",
)


def leaking(cell: Cell, task: int, exposure: float) -> Leaks:
    """Codes planted 16 times with this mean exposure, once-planted ones and controls near chance."""
    first = 1.0 if exposure > 12 else 0.0
    return Leaks(
        cell, task, (0, 1, 16), (1.4, 1.5, exposure), (1.4, 1.4, 0.2), (0.0, 0.0, first), (0.0, 0.0, first), (10, 5, 5),
        0.4 if task >= 0 else 0.0, 0.95,
    )  # fmt: skip


def with_texts(said: Sequence[Event]) -> list[Event]:
    """What a run says, and after each task also what a method on texts would say of it."""
    found: list[Event] = []
    for event in said:
        if isinstance(event, TaskLearned):
            if event.task == 0:
                found.append(leaking(event.cell, -1, 1.8))
            found.append(TokensScored(event.cell, event.task, "base", (SCORED, SCORED)))
            found.append(TokensScored(event.cell, event.task, "current", (SCORED,)))
        found.append(event)
        if isinstance(event, TaskLearned):
            n = event.task + 1
            private = tuple(None if task == 0 else 2.0 + 0.1 * task for task in range(n))
            found.append(Retained(event.cell, event.task, tuple(0.5 + 0.1 * task for task in range(n)), private))
            found.append(leaking(event.cell, event.task, 10.8 if math.isinf(event.cell.epsilon) else 11.5))
    return found
