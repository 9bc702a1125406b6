"""Federated training of one model's head: sampling of clients, local updates, noise, and vectors sent beside the updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput, Diverged
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Adam
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.federated import client_release
from dpcl_core.methods.federated.client_release import Collect, Question, Replay, TaskRows, clients_per_task, draws_of
from dpcl_core.methods.federated.lists import Floats, Ints, Reals, Singles
from dpcl_core.methods.federated.params import ClippedParams, RehearsalParams, RoundParams
from dpcl_core.privacy.ledger import HEAD, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums
from dpcl_core.privacy.noise import Batches, noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec

# Linear layers and two-layer ReLU networks, trained as a batch of copies in NumPy.




@dataclass(frozen=True, slots=True)
class Head:
    """Linear(d, C), or Linear(d, hidden)-ReLU-Linear(hidden, C) where `n_hidden` > 0; parameters are flat vectors [P]."""

    n_inputs: int
    n_classes: int
    n_hidden: int = 128

    @property
    def _shapes(self) -> tuple[tuple[int, int], ...]:
        return tuple(pairwise((self.n_inputs, *([self.n_hidden] if self.n_hidden else []), self.n_classes)))

    def initial(self, generator: np.random.Generator) -> Singles:
        """Initial parameters [P]: uniform within 1/sqrt(fan-in), as torch's Linear."""
        layers = [generator.uniform(-1, 1, (n_in + 1) * n_out) / np.sqrt(n_in) for n_in, n_out in self._shapes]
        return np.concatenate(layers).astype(np.float32)

    def logits(self, params: Singles, z: Reals) -> Singles:
        """Logits [..., n, C] of embeddings [n, d] or [..., n, d] under parameters [..., P]."""
        return self.forward(params, z.astype(np.float32, copy=False))[-1]

    def gradients(self, params: Singles, z: Singles, targets: Singles, weights: Singles) -> Singles:
        """Gradients [..., P] of each copy's weighted sum of cross-entropies, in the precision of the parameters [..., P].

        Args: z [..., b, d], soft targets [..., b, C], weights [..., b]; leading axes may be 1 where copies share rows.
        """
        *inputs, residuals = self.forward(params, z)
        residuals -= residuals.max(axis=-1, keepdims=True)
        np.exp(residuals, out=residuals)
        # Targets sum to 1, or to 0 for a row without a loss.
        residuals *= targets.sum(axis=-1, keepdims=True) / residuals.sum(axis=-1, keepdims=True)
        residuals -= targets
        residuals *= weights[..., None]
        return self.backward(params, inputs, residuals)

    def forward(self, params: Singles, z: Singles) -> list[Singles]:
        """z [..., b, d], the hidden values [..., b, hidden] if there are any, and the outputs [..., b, C]."""
        values = [z]
        for matrix, bias in self._layers(params):
            if len(values) > 1:
                np.maximum(values[-1], 0, out=values[-1])
            out = values[-1] @ matrix
            out += bias[..., None, :]
            values.append(out)
        return values

    def backward(self, params: Singles, inputs: Sequence[Singles], back: Singles) -> Singles:
        """A loss's gradients in the parameters [..., P], from its gradient `back` [..., b, C] in the outputs.

        Args: each layer's inputs, from `forward`.
        """
        gradients = np.empty_like(params)
        layers, views = self._layers(params), self._layers(gradients)
        for place in range(len(layers) - 1, -1, -1):
            np.matmul(np.swapaxes(inputs[place], -1, -2), back, out=views[place][0])
            np.sum(back, axis=-2, out=views[place][1])
            if place:
                back = back @ np.swapaxes(layers[place][0], -1, -2)
                back *= inputs[place] > 0
        return gradients

    def input_gradient(self, params: Singles, inputs: Sequence[Singles], back: Singles) -> Singles:
        """A loss's gradient in z [..., b, d], from that in the outputs."""
        for place, (matrix, _) in reversed(list(enumerate(self._layers(params)))):
            back = back @ np.swapaxes(matrix, -1, -2)
            if place:
                back *= inputs[place] > 0
        return back

    def _layers(self, params: Singles) -> list[tuple[Singles, Singles]]:
        """Views of each layer's weights [..., in, out] and bias [..., out]."""
        views, start = [], 0
        for n_in, n_out in self._shapes:
            middle, end = start + n_in * n_out, start + (n_in + 1) * n_out
            views.append((params[..., start:middle].reshape(*params.shape[:-1], n_in, n_out), params[..., middle:end]))
            start = end
        return views


def train_copies(
    head: Head, start: Singles, z: Singles, targets: Singles, n_steps: int, batch_size: int, learning_rate: float,
    generator: np.random.Generator
) -> Singles:
    """J copies [J, P] after `n_steps` of Adam from `start` [J, P], copy j on its own rows z [J, n, d], targets [J, n, C].

    All copies use one order of rows, in which every row comes once before any repeats; a batch is at most n rows, n >= 1.
    Raises Diverged where a weight exceeds every plausible size or is not finite.
    """
    params, size = start.copy(), min(batch_size, z.shape[1])
    adam = Adam(params, learning_rate)
    shares = np.full((1, size), 1 / size, dtype=np.float32)
    for step, rows in enumerate(cycled(z.shape[1], n_steps * size, generator).reshape(n_steps, size)):
        adam.step(params, head.gradients(params, z[:, rows], targets[:, rows], shares))
        stop_if_diverged(params, step, n_steps, learning_rate)
    return params


def cycled(n_rows: int, count: int, generator: np.random.Generator) -> Ints:
    """`count` row indices from successive random permutations: every row comes once before any repeats."""
    return np.concatenate([generator.permutation(n_rows) for _ in range(-(-count // n_rows))])[:count]


def stop_if_diverged(params: Singles, step: int, n_steps: int, learning_rate: float, turn: str = "step") -> None:
    """Raises Diverged where a weight is larger than any head needs, or not finite. `step` counts from 0."""
    if not max(params.max(initial=0), -params.min(initial=0)) <= LARGEST_WEIGHT:
        raise Diverged(
            f"training diverged at {turn} {step + 1} of {n_steps} with params.learning_rate = {learning_rate:g}: "
            "a smaller learning rate or more clients may help"
        )


# Rounds of federated training: local updates and averaging.


def client_draws(chosen: Iterable[int], seed: int | None, purpose: str) -> list[np.random.Generator]:
    """An independent generator for each chosen client: removing another client changes none of them.

    `seed` None: seeded by the operating system, as a release needs, so that draws cannot be predicted. Otherwise derived
    from seed, purpose and client number.
    """
    return [np.random.default_rng() if seed is None else draws_of(seed, purpose)(client) for client in chosen]


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """A client's training in a round: `n_steps` of Adam, each on `batch_size` local rows and as many replayed ones.

    The replayed rows' mean loss has weight `replay_weight` (lambda of Eq 3). All of this is public; a client's number of
    rows is not, and a client with too few uses them repeatedly.
    """

    n_steps: int
    batch_size: int = 32
    learning_rate: float = 3e-4
    replay_weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """Private rows of a task's clients: inputs float32 [n, d], targets float32 [n, C], and each client's row indices."""

    z: Singles
    targets: Singles
    places: tuple[Ints, ...]

    @classmethod
    def of(cls, z: Reals, targets: Reals, users: Ints, n_users: int) -> Clients:
        """From a task's rows and their clients, users int64 [n] in 0 ... n_users - 1."""
        if not len(z):  # one dummy row, for clients without rows to index
            z, targets = np.zeros((1, z.shape[1])), np.zeros((1, targets.shape[1]))
            return cls(z.astype(np.float32), targets.astype(np.float32), (users,) * n_users)
        order = np.argsort(users, kind="stable")
        ends = np.cumsum(np.bincount(users.astype(np.intp), minlength=n_users))[:-1]
        return cls(z.astype(np.float32, copy=False), targets.astype(np.float32), tuple(np.split(order, ends)))


def local_updates(
    head: Head, start: Singles, clients: Clients, chosen: Ints, plan: LocalPlan, draws: Sequence[np.random.Generator],
    replayed: tuple[Singles, Singles] | None = None
) -> Singles:
    """Weight updates [n, P] of the chosen clients, trained from the model `start` [P].

    `draws`: a generator for each chosen client, which orders its local rows first and the replayed rows next. `replayed`:
    the server's sampled embeddings [r, d] and targets [r, C]. A client without rows trains on replay alone, or returns zero.
    No noise is added here. A client's update depends only on its own rows and draws. Private: only a mechanism, or a mode
    that says "not private", may pass it on. A client whose training diverges, which one huge value can cause, raises no
    error and changes no other client: its update is clipped, or counts as zero where it is not finite.
    """
    n = len(chosen)
    if n == 0:
        return np.zeros((0, len(start)), dtype=np.float32)
    batch, n_rows = plan.batch_size, plan.n_steps * plan.batch_size
    rows, shares = np.zeros((n, n_rows), dtype=np.int64), np.zeros((n, batch), dtype=np.float32)
    for place, client in enumerate(chosen):
        if len(places := clients.places[client]):  # a client without rows has weights of zero
            rows[place], shares[place] = places[cycled(len(places), n_rows, draws[place])], 1 / batch
    orders = None if replayed is None else np.stack([cycled(len(replayed[0]), n_rows, draw) for draw in draws])
    if orders is not None:
        shares = np.concatenate([shares, np.full((n, batch), plan.replay_weight / batch, dtype=np.float32)], axis=1)
    params = np.repeat(start[None], n, axis=0)
    adam = Adam(params, plan.learning_rate)
    for step in range(plan.n_steps):
        now = slice(step * batch, (step + 1) * batch)
        z, targets = clients.z[rows[:, now]], clients.targets[rows[:, now]]
        if replayed is not None and orders is not None:
            z = np.concatenate([z, replayed[0][orders[:, now]]], axis=1)
            targets = np.concatenate([targets, replayed[1][orders[:, now]]], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            adam.step(params, head.gradients(params, z, targets, shares))
    return params - start


def averaged(start: Singles, updates: Singles) -> Singles:
    """FedAvg without privacy: `start` [P] plus the mean of `updates` [n, P]; unchanged in an empty round."""
    return start + updates.mean(axis=0) if len(updates) else start


def moved(start: Singles, noisy_sum: Reals, expected_clients: float) -> Singles:
    """DP-FedAvg's step: `start` [P] plus a noisy sum [P] divided by the expected number of clients, a constant."""
    return (start + noisy_sum / expected_clients).astype(np.float32)


Rows = tuple[Singles, Singles]  # embeddings [n, d] and their targets [n, C]


def participation(params: RoundParams, spec: RunSpec, cell: Cell) -> Batches:
    """Poisson sampling of a round's clients, independent for each model; seeded only under `noise = "seeded"`."""
    seed = cell.seed if spec.privacy.noise == "seeded" else None
    return Batches(params.participation, seed, f"clients at epsilon {cell.epsilon}")


class RoundHead:
    """One cell's head. `noise_multiplier` 0: updates are neither clipped nor noised, and the ledger records this.

    `coins`: what draws a round's clients, and what its sums are charged by. `collect`: asks clients that are processes of
    their own, who know themselves which task is theirs; None: they are simulated here, from the rows of the task.
    """

    KEPT = ("_weights", "_participation", "_noise")

    def __init__(
        self, spec: RunSpec, cell: Cell, context: PublicContext, noise_multiplier: float, collect: Collect | None = None
    ) -> None:
        params = settings_of(spec, RoundParams)
        self._spec, self._params, self._cell, self._context = spec, params, cell, context
        self._n_users, self._n_clients = context.n_users or 0, clients_per_task(context)
        self._multiplier, self._collect, self.n_hidden = noise_multiplier, collect, params.hidden
        self._head = Head(context.n_inputs, context.n_classes, params.hidden)
        self._weights = self._head.initial(generator(cell.seed, "head"))
        self.coins = self._participation = participation(params, spec, cell)
        self._noise = noise_of(spec.privacy.noise, cell, "head")
        weight = params.replay_weight if isinstance(params, RehearsalParams) else 0.0
        self._plan = LocalPlan(params.local_steps, params.batch_size, params.learning_rate, weight)
        self._clip = params.clip_norm if isinstance(params, ClippedParams) else 0.0

    def released(self) -> dict[str, NDArray[np.generic]]:
        """The `head`'s weights [P] after the last round."""
        return {"head": self._weights.copy()}

    def logits(self, z: Reals) -> Singles:
        """Logits [n, C] of embeddings [n, d]."""
        return self._head.logits(self._weights, z)

    def answers(self, rows: TaskRows, question: Question, chosen: Ints) -> Reals:
        """The chosen clients' updates [n, P] of the question's head, from their own rows. Private.

        Raises BadInput for a round beyond those that the budget was divided among, and for another head.
        """
        if question.round not in range(self._params.rounds):
            allowed = f"must be one of {self._params.rounds}, from 0: the budget was divided among them"
            raise BadInput("question.round", question.round, allowed)
        if question.state.shape != self._weights.shape:
            raise BadInput("question.state", question.state.shape, f"must be the {len(self._weights)} weights of a head")
        return self._updates(Clients.of(rows.z, rows.targets, rows.users, self._n_users), question, chosen)

    def trained(
        self, rows: TaskRows, index: int, ledger: Ledger, *, mixtures: Callable[[], Sequence[Replay]] | None = None,
        on_start: Callable[[Ints], None] | None = None, extra: Callable[[Ints], Sequence[ClientVectors]] | None = None,
        on_sums: Callable[[Sequence[Floats]], None] | None = None
    ) -> Iterator[int]:
        """Runs all rounds of a task; yields the number done. Each round's event is in the ledger before its sums exist.

        `mixtures`: rehearsed beside local rows; empty before the first release. `on_start`: called with each round's clients
        first. `extra`: what the clients send beside their updates, noised jointly with them; `on_sums` receives its sums.
        """
        if self._multiplier == 0:
            client_release.spend_unbounded(ledger, index, "updates of the head without noise", HEAD)
        clients = Clients.of(rows.z, rows.targets, rows.users, self._n_users)
        rehearsal = generator(self._cell.seed, f"rehearsal of task {index}")
        for done in range(self._params.rounds):
            chosen = self._participation.draw(self._n_users)
            if self._collect is None:
                chosen = client_release.clients_of_this_task(chosen, rows, self._context)
            if on_start is not None:
                on_start(chosen)
            replayed = self._replayed(mixtures() if mixtures is not None else (), rehearsal)
            question = Question(index, done, len(self._weights), self._weights)
            ask = self._collect or partial(self._updates, clients, replayed=replayed)
            updates, parts = ask(question, chosen), list(extra(chosen)) if extra is not None else []
            if self._multiplier > 0:
                head = ClientVectors(HEAD, updates, self._clip, [self._multiplier * self._clip])
                sums = self._sums([head, *parts], index, ledger)
                self._weights = moved(self._weights, sums.pop(0)[0], self._participation.rate * self._n_clients)
            else:
                sums = self._sums(parts, index, ledger) if parts else []
                self._weights = averaged(self._weights, updates.astype(np.float32, copy=False))
            stop_if_diverged(self._weights, done, self._params.rounds, self._params.learning_rate, "round")
            if on_sums is not None:
                on_sums(sums)
            yield done + 1

    def _updates(self, clients: Clients, question: Question, chosen: Ints, replayed: Rows | None = None) -> Reals:
        is_release = self._spec.privacy.noise == "release" and self._multiplier > 0
        purpose, start = f"round {question.round} of task {question.task}", question.state.astype(np.float32, copy=False)
        draws = client_draws(chosen, None if is_release else self._cell.seed, purpose)
        return local_updates(self._head, start, clients, chosen, self._plan, draws, replayed)

    def _sums(self, parts: Sequence[ClientVectors], index: int, ledger: Ledger) -> list[Floats]:
        channels = " and ".join(dict.fromkeys(part.channel for part in parts))
        what = f"a round of {channels}, sampling rate {self._participation.rate:g}"
        return noisy_client_sums(parts, [self._noise], [ledger], task=index, what=what, batches=self._participation)

    def _replayed(self, mixtures: Sequence[Replay], random: np.random.Generator) -> Rows | None:
        if not mixtures or not isinstance(self._params, RehearsalParams) or self._params.replay_weight == 0:
            return None
        return client_release.sampled(mixtures, self._params.samples, random, unit_length=self._params.unit_length)


class HeadOfRounds:
    """How a learner of one cell predicts whose head is trained in rounds: by the head's largest logit, its only rule."""

    _seen: client_release.SeenLabels
    _head: RoundHead

    def scores(self, seed: int, task: Task) -> Mapping[str, Reals]:
        """The head's logits [1, n, classes], the only prediction rule."""
        z = self._read(client_release.features(task.test.inputs))
        return {"argmax": self._seen.masked(self._head.logits(z)[None], task)}

    def rule(self, cell: Cell) -> Rule:
        """The head's largest logit."""
        return self._seen.rule("federated-head", ("head",), n_hidden=self._head.n_hidden)

    def _read(self, z: Singles) -> Singles:
        """What the head reads of embeddings [n, d]."""
        return z
