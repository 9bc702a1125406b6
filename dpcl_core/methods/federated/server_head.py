"""Heads that the server trains on released mixtures only: all post-processing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.cards.federated_params import ServerParams
from dpcl_core.methods.federated.head import Head, trained
from dpcl_core.methods.federated.replay import Replay, sampled
from dpcl_core.scenarios.stream import generator


class ServerHeads:
    """One head per budget, retrained from the same initial weights after every task. Reads only released mixtures."""

    def __init__(self, params: ServerParams, seed: int, n_inputs: int, n_classes: int, n_budgets: int) -> None:
        self._params, self._seed = params, seed
        self._head = Head(n_inputs, n_classes, params.hidden)
        self._first = np.stack([self._head.initial(generator(seed, "head"))] * n_budgets)
        self._weights = self._first

    def learn(self, parts: Sequence[Sequence[Replay]], index: int) -> None:
        """Trains every budget's head on its mixtures of the tasks so far, all tasks with equal weight."""
        n_labels = max(1, len({int(target.argmax()) for part in parts[0] for target in part.targets}))
        n, units = self._params.samples * n_labels, self._params.unit_length
        samples = [sampled(mixtures, n, self._random("replay", index), unit_length=units) for mixtures in parts]
        z, targets = np.stack([sample[0] for sample in samples]), np.stack([sample[1] for sample in samples])
        steps, size, rate = self._params.steps, self._params.batch_size, self._params.learning_rate
        self._weights = trained(self._head, self._first, z, targets, steps, size, rate, self._random("steps", index))

    def released(self, budget: int) -> dict[str, NDArray[np.generic]]:
        """The `head`'s weights [P] of the budget with this index."""
        return {"head": self._weights[budget].copy()}

    def logits(self, z: NDArray[np.floating]) -> NDArray[np.float32]:
        """Logits [budgets, n, C] of embeddings [n, d]."""
        return self._head.logits(self._weights, z)

    def _random(self, purpose: str, index: int) -> np.random.Generator:
        return generator(self._seed, f"{purpose} after task {index}")
