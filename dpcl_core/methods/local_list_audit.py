"""An attack on noisy lists: all that one client sends over its life, through the mechanism that noises it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.methods.cslr.budget import Horizon
from dpcl_core.privacy.audit import Audited, lower_bound
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_vectors
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

_ADVERSARY = "is the server: sees one client's noisy list of every task and knows whose it is; the list is as long as can be"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One attack per budget of the spec: did the client contribute, or nothing (under "replace": the opposite)?

    Every task's noisy list is projected on what the client would send, and all are added up: the most powerful test against
    Gaussians. Args: trials: lives on each side.
    """
    return [_attacked(spec, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, epsilon: float, trials: int) -> Audited:
    found = datasets.facts(spec.data.dataset, spec.data.train_per_class, spec.data.test_per_class)
    n_tasks = scenarios.check(spec.scenario, found.n_classes, found.sources)
    horizon = Horizon.of(spec.privacy, n_tasks, spec.scenario.recurrence)
    multiplier = horizon.releases(epsilon) if math.isfinite(epsilon) else 0.0
    book = Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")

    def scores(sent: float) -> NDArray[np.float64]:
        """One coordinate of each life's lists, the one along what the client would send, at sensitivity 1."""
        total = np.zeros(trials)
        for task in range(horizon.n_tasks):
            own = Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")
            vectors = np.full((trials, 1), sent)  # as many clients, each with noise of its own
            part = ClientVectors(REPLAY, vectors, 1.0, [multiplier])
            total += noisy_client_vectors(part, [ReleaseNoise()], [own], task=task, what="one client's list")[0, :, 0]
            book.entries[task:] = own.entries
        return total

    other = -1.0 if spec.privacy.adjacency == "replace" else 0.0
    bound = lower_bound(scores(1.0), scores(other), spec.privacy.delta)
    return Audited(
        claimed=epsilon,
        accounted=book.epsilon(),
        lower_bound=bound,
        delta=spec.privacy.delta,
        confidence=0.95,
        trials=trials - trials // 2,
        attack="projection of all of one client's noisy lists on what it would send",
        adversary=_ADVERSARY,
    )
