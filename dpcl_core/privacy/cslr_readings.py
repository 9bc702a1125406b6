"""Readings of CSLR's text against which its claims are tested: what is released, how often, from whom, how clipped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpcl_core.privacy.cslr_accounting import ROUNDS_PER_TASK, Reading
from dpcl_core.privacy.cslr_claim import BENCHMARKS

SAMPLE_RATE = 0.3


@dataclass(frozen=True, slots=True)
class Row:
    """A named reading; `of` sets its noise multiplier. `is_as_printed`: the protocol that the paper describes."""

    name: str
    reading: Reading
    is_head_alike: bool = False
    is_as_printed: bool = False

    def of(self, noise_multiplier: float) -> Reading:
        """The reading with this noise on each statistic, and on the head where it has any."""
        head = noise_multiplier if self.is_head_alike else None
        return replace(self.reading, noise_multiplier=noise_multiplier, head_multiplier=head)


def rows(n_clients: int = 20, n_tasks: int = 4, delta: float = 1e-5) -> Mapping[str, Row]:
    """All readings by short name, for these numbers of clients and tasks (K groups as printed: one per task)."""
    n_rounds = ROUNDS_PER_TASK * n_tasks
    base = Reading(1.0, n_rounds, sample_rate=SAMPLE_RATE, n_clients=n_clients, delta=delta)
    fixed = replace(base, sampling="fixed", adjacency="replace")
    by_task = replace(base, n_rounds=n_tasks)
    all_rounds = f"{n_rounds} rounds"
    readings = {
        "round": Row("one round, 4 statistics", replace(base, n_rounds=1)),
        "round-1": Row("one round, 1 statistic", replace(base, n_rounds=1, n_statistics=1)),
        "task-1": Row(f"once a task ({n_tasks}), 1 statistic", replace(by_task, n_statistics=1)),
        "task": Row(f"once a task ({n_tasks}), 4 statistics", by_task),
        "task-all": Row(f"once a task ({n_tasks}), 4 statistics, all clients", replace(by_task, sampling="everyone")),
        "printed": Row(f"{all_rounds}, 4 statistics: the paper's protocol", base, is_as_printed=True),
    }
    for name, benchmark in BENCHMARKS.items():
        if benchmark.n_tasks != n_tasks:
            rounds = ROUNDS_PER_TASK * benchmark.n_tasks
            readings[f"rounds-{rounds}"] = Row(f"the same with {rounds} rounds ({name})", replace(base, n_rounds=rounds))
    return readings | {
        "one": Row(f"{all_rounds}, 1 statistic counted", replace(base, n_statistics=1)),
        "list": Row(f"{all_rounds}, the clients' own lists released too", replace(base, with_list=True)),
        "modes": Row(
            f"{all_rounds}, each of K = {n_tasks} groups clipped on its own", replace(base, sensitivity=math.sqrt(n_tasks))
        ),
        "whole": Row(
            f"{all_rounds}, lists released too, every entry clipped on its own: the printed algorithm, whole",
            replace(base, with_list=True, sensitivity=math.sqrt(n_tasks)),
        ),
        "plain": Row(f"{all_rounds}, nothing amplified (Eqs. 6 to 9)", replace(base, sampling="everyone")),
        "fixed": Row(f"{all_rounds}, {fixed.n_sampled} of {n_clients} clients, one replaced by another", fixed),
        "head": Row(f"{all_rounds}, and a head with the same noise", base, is_head_alike=True),
    }
