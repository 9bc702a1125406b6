"""Episodic memory of whole batches: exactly one of every task, kept for good (Lai et al., Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from dpcl_core.methods.lifelong.cards.network_params import BatchParams

Batch = TypeVar("Batch")


@dataclass(slots=True)
class Memory(Generic[Batch]):
    """One batch for every task that has ended, as its method stored it, in the order of tasks."""

    batches: list[Batch] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.batches)

    def keep(self, batch: Batch) -> None:
        """Takes the one batch of a task. To be called when the task has ended: no task is its own reference."""
        self.batches.append(batch)

    def drawn(self, at_most: int, generator: np.random.Generator) -> Sequence[Batch]:
        """So many stored batches at random, none twice; all of them where fewer are stored, none before the first."""
        if at_most >= len(self.batches):
            return tuple(self.batches)
        places = generator.choice(len(self.batches), at_most, replace=False)
        return tuple(self.batches[place] for place in places)


def picked(params: BatchParams, n_batches: int, generator: np.random.Generator) -> int:
    """Which of a task's batches is kept: a random one (as printed), or the last (as in code of the same group)."""
    return n_batches - 1 if params.memory_pick == "last" else int(generator.integers(n_batches))
