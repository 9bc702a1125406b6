"""Episodic memory of exactly one batch per task, stored permanently (Lai et al., Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from dpcl_core.methods.lifelong.cards.network_params import BatchParams

Batch = TypeVar("Batch")


@dataclass(slots=True)
class Memory(Generic[Batch]):
    """One batch of every finished task, as its method stored it, in the order of tasks."""

    batches: list[Batch] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.batches)

    def keep(self, batch: Batch) -> None:
        """Stores a task's batch. Call when the task has ended, so that no task is its own reference."""
        self.batches.append(batch)

    def drawn(self, at_most: int, generator: np.random.Generator) -> Sequence[Batch]:
        """A random sample of `at_most` stored batches without replacement; all of them if fewer are stored."""
        if at_most >= len(self.batches):
            return tuple(self.batches)
        places = generator.choice(len(self.batches), at_most, replace=False)
        return tuple(self.batches[place] for place in places)


def picked(params: BatchParams, n_batches: int, generator: np.random.Generator) -> int:
    """Index of the batch to keep: random (as printed) or the last (as in code of the same group)."""
    return n_batches - 1 if params.memory_pick == "last" else int(generator.integers(n_batches))
