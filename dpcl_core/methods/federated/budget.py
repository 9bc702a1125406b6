"""Noise calibration for replay and head under one budget: privacy losses are composed, epsilons never added."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import dp_accounting as dp

from dpcl_core.methods.common.planned import each_task
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.federated.cards.federated_params import RoundParams
from dpcl_core.privacy import accounting
from dpcl_core.privacy.accounting import noise_multiplier, subsampled_gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import Adjacency, PrivacySpec, Recurrence, RunSpec


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise over sensitivity of one replay release and of one round of the head; 0: none. Each is one Gaussian on a joint
    vector."""

    release: float = 0.0
    head: float = 0.0


@dataclass(frozen=True, slots=True)
class Horizon:
    """The number of uses of a client's data over the whole run: fixed before the first task, and charged in full.

    `n_tasks`: tasks that a client may be in; `rounds`: rounds of the head per task; `rate`: chance to be in a round. All
    noise multipliers are 0 for epsilon = inf.
    """

    n_tasks: int
    rounds: int
    rate: float
    delta: float
    adjacency: Adjacency

    @classmethod
    def of(cls, privacy: PrivacySpec, n_tasks: int, recurrence: Recurrence, rounds: int = 1, rate: float = 1.0) -> Horizon:
        """Horizon of a stream: one task where each client belongs to one task only, else all `n_tasks`."""
        return cls(n_tasks if recurrence == "every" else 1, rounds, rate, privacy.delta, privacy.adjacency)

    @classmethod
    def of_run(cls, spec: RunSpec, facts: PublicSizes) -> Horizon:
        """Horizon of a run whose clients answer in rounds."""
        assert isinstance(spec.params, RoundParams)
        return cls.of(spec.privacy, facts.n_tasks, facts.recurrence, spec.params.rounds, spec.params.participation)

    def rounds_of(self, *multipliers: float) -> dp.DpEvent:
        """The event of a task's rounds, in which the same clients answer with as many vectors as there are multipliers."""
        return subsampled_gaussian(1 / math.hypot(*(1 / one for one in multipliers)), self.rate, self.rounds)

    def releases(self, epsilon: float) -> float:
        """Noise multiplier at which one release per task, over all clients, spends epsilon."""
        return self._multiplier(epsilon, 1.0, self.n_tasks)

    def one_per_round(self, epsilon: float) -> float:
        """Noise multiplier at which one release per round, over the round's clients, spends epsilon."""
        return self._multiplier(epsilon, self.rate, self.n_tasks * self.rounds)

    def beside_releases(self, epsilon: float, share: float) -> Noises:
        """Noise for one release per task, calibrated alone to `share` * epsilon, and for head rounds that spend the rest."""
        release = self.releases(share * epsilon)
        return Noises(release, _head_beside(self, epsilon, release) if math.isfinite(epsilon) else 0.0)

    def in_rounds(self, epsilon: float, share: float) -> Noises:
        """Noise where every round sends the replay's vector and the head's update of the same clients: one event.

        `share`: the replay's part of 1/z² = 1/z_release² + 1/z_head², which determines a round's privacy loss.
        """
        both = self.one_per_round(epsilon)
        return Noises(both / math.sqrt(share), both / math.sqrt(1 - share))

    def _multiplier(self, epsilon: float, rate: float, n_uses: int) -> float:
        if math.isinf(epsilon):
            return 0.0
        return noise_multiplier(epsilon, self.delta, rate, n_uses, self.adjacency)


@lru_cache(maxsize=256)
def _head_beside(horizon: Horizon, epsilon: float, release: float) -> float:
    releases = subsampled_gaussian(release, 1.0, horizon.n_tasks)
    n_rounds = horizon.n_tasks * horizon.rounds

    def events(head: float) -> list[dp.DpEvent]:
        return [releases, subsampled_gaussian(head, horizon.rate, n_rounds)]

    return accounting.calibrated(events, epsilon, horizon.delta, horizon.adjacency)


def releases(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """A plan (`methods.planned`): one vector of every client a task."""
    multiplier = Horizon.of(spec.privacy, facts.n_tasks, facts.recurrence).releases(epsilon)
    each_task(ledger, facts, subsampled_gaussian(multiplier, 1.0, 1))


def rounds(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """A plan (`methods.planned`): one update of every sampled client a round, of one network or of two as one event."""
    horizon = Horizon.of_run(spec, facts)
    each_task(ledger, facts, horizon.rounds_of(horizon.one_per_round(epsilon)))
