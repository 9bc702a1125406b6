"""Federated training of one model's head: sampling of clients, local updates, noise, and vectors sent beside the updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.cards.federated_params import ClippedParams, RehearsalParams, RoundParams
from dpcl_core.methods.federated.head import Head, stop_if_diverged
from dpcl_core.methods.federated.questions import Collect, Question
from dpcl_core.methods.federated.replay import Replay, sampled
from dpcl_core.methods.federated.rounds import (
    Clients,
    LocalPlan,
    averaged,
    client_draws,
    local_updates,
    moved,
)
from dpcl_core.methods.federated.slot_assignment import TaskRows
from dpcl_core.methods.federated.task_rows import clients_of_this_task, clients_per_task
from dpcl_core.privacy.ledger import HEAD, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums
from dpcl_core.privacy.noise import Batches, noise_of
from dpcl_core.scenarios.stream import generator
from dpcl_core.spec import Cell, RunSpec

Chosen = NDArray[np.int64]
Rows = tuple[NDArray[np.float32], NDArray[np.float32]]  # embeddings [n, d] and their targets [n, C]


def participation(params: RoundParams, spec: RunSpec, cell: Cell) -> Batches:
    """Poisson sampling of a round's clients, independent for each model; seeded only under `noise = "seeded"`."""
    seed = cell.seed if spec.privacy.noise == "seeded" else None
    return Batches(params.participation, seed, f"clients at epsilon {cell.epsilon}")


class RoundHead:
    """One cell's head. `noise_multiplier` 0: updates are neither clipped nor noised, and the ledger records this.

    `collect`: asks clients that are processes of their own, who know themselves which task is theirs; None: they are
    simulated here, from the rows of the task.
    """

    KEPT = ("_weights", "_participation", "_noise")

    def __init__(
        self,
        spec: RunSpec,
        cell: Cell,
        context: PublicContext,
        noise_multiplier: float,
        collect: Collect | None = None,
    ) -> None:
        params = spec.params
        assert isinstance(params, RoundParams)
        self._spec, self._params, self._cell, self._context = spec, params, cell, context
        self._n_users, self._n_clients = context.n_users or 0, clients_per_task(context)
        self._multiplier, self._collect = noise_multiplier, collect
        self._head = Head(context.n_inputs, context.n_classes, params.hidden)
        self._weights = self._head.initial(generator(cell.seed, "head"))
        self._participation = participation(params, spec, cell)
        self._noise = noise_of(spec.privacy.noise, cell, "head")
        weight = params.replay_weight if isinstance(params, RehearsalParams) else 0.0
        self._plan = LocalPlan(params.local_steps, params.batch_size, params.learning_rate, weight)
        self._clip = params.clip_norm if isinstance(params, ClippedParams) else 0.0

    def released(self) -> dict[str, NDArray[np.generic]]:
        """The `head`'s weights [P] after the last round."""
        return {"head": self._weights.copy()}

    @property
    def coins(self) -> Batches:
        """What draws a round's clients, and what its sums are charged by."""
        return self._participation

    @property
    def n_hidden(self) -> int:
        """Hidden units of the head; 0: it is linear."""
        return self._head.n_hidden

    def logits(self, z: NDArray[np.floating]) -> NDArray[np.float32]:
        """Logits [n, C] of embeddings [n, d]."""
        return self._head.logits(self._weights, z)

    def answers(self, rows: TaskRows, question: Question, chosen: Chosen) -> NDArray[np.floating]:
        """The chosen clients' updates [n, P] of the question's head, from their own rows. Private.

        Raises BadInput for a round beyond those that the budget was divided among, and for another head.
        """
        if question.round not in range(self._params.rounds):
            allowed = f"must be one of {self._params.rounds}, from 0: the budget was divided among them"
            raise BadInput("question.round", question.round, allowed)
        if question.state.shape != self._weights.shape:
            raise BadInput("question.state", question.state.shape, f"must be the {len(self._weights)} weights of a head")
        clients = Clients.of(rows.z, rows.targets, rows.users, self._n_users)
        return self._updates(clients, question, chosen)

    def trained(
        self,
        rows: TaskRows,
        index: int,
        ledger: Ledger,
        *,
        mixtures: Callable[[], Sequence[Replay]] | None = None,
        on_start: Callable[[Chosen], None] | None = None,
        extra: Callable[[Chosen], Sequence[ClientVectors]] | None = None,
        on_sums: Callable[[Sequence[NDArray[np.float64]]], None] | None = None,
    ) -> Iterator[int]:
        """Runs all rounds of a task; yields the number done. Each round's event is in the ledger before its sums exist.

        `mixtures`: rehearsed beside local rows; empty before the first release. `on_start`: called with each round's clients
        first. `extra`: what the clients send beside their updates, noised jointly with them; `on_sums` receives its sums.
        """
        if self._multiplier == 0:
            clean = dp.NonPrivateDpEvent()
            ledger.spend(clean, task=index, what="updates of the head without noise", channels={HEAD: clean})
        clients = Clients.of(rows.z, rows.targets, rows.users, self._n_users)
        rehearsal = generator(self._cell.seed, f"rehearsal of task {index}")
        for done in range(self._params.rounds):
            chosen = self.coins.draw(self._n_users)
            if self._collect is None:
                chosen = clients_of_this_task(chosen, rows, self._context)
            if on_start is not None:
                on_start(chosen)
            replayed = self._replayed(mixtures() if mixtures is not None else (), rehearsal)
            question = Question(index, done, len(self._weights), self._weights)
            if self._collect is None:
                updates = self._updates(clients, question, chosen, replayed)
            else:
                updates = self._collect(question, chosen)
            parts = list(extra(chosen)) if extra is not None else []
            if self._multiplier > 0:
                head = ClientVectors(HEAD, updates, self._clip, [self._multiplier * self._clip])
                sums = self._sums([head, *parts], index, ledger)
                self._weights = moved(self._weights, sums.pop(0)[0], self.coins.rate * self._n_clients)
            else:
                sums = self._sums(parts, index, ledger) if parts else []
                self._weights = averaged(self._weights, updates.astype(np.float32, copy=False))
            stop_if_diverged(self._weights, done, self._params.rounds, self._params.learning_rate, "round")
            if on_sums is not None:
                on_sums(sums)
            yield done + 1

    def _updates(
        self, clients: Clients, question: Question, chosen: Chosen, replayed: Rows | None = None
    ) -> NDArray[np.floating]:
        is_release = self._spec.privacy.noise == "release" and self._multiplier > 0
        purpose = f"round {question.round} of task {question.task}"
        draws = client_draws(chosen, None if is_release else self._cell.seed, purpose)
        start = question.state.astype(np.float32, copy=False)
        return local_updates(self._head, start, clients, chosen, self._plan, draws, replayed)

    def _sums(self, parts: Sequence[ClientVectors], index: int, ledger: Ledger) -> list[NDArray[np.float64]]:
        what = f"a round of {' and '.join(dict.fromkeys(part.channel for part in parts))}, sampling rate {self.coins.rate:g}"
        return noisy_client_sums(parts, [self._noise], [ledger], task=index, what=what, batches=self.coins)

    def _replayed(
        self, mixtures: Sequence[Replay], random: np.random.Generator
    ) -> Rows | None:
        if not mixtures or not isinstance(self._params, RehearsalParams) or self._params.replay_weight == 0:
            return None
        return sampled(mixtures, self._params.samples, random, unit_length=self._params.unit_length)
