"""FedCIL on embeddings, with noise: a generator and a classifier that clients train together, and replay what it invents.

Different from its source, for privacy: only the noised global generator is ever sampled from, by the server too, which in
the original gets every client's own generator. Its three terms of consistency are one cross-entropy on invented embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.adam import Adam
from dpcl_core.methods.base import Known
from dpcl_core.methods.cards.fedcil_dp import FedCilDpParams
from dpcl_core.methods.cslr.budget import Horizon, Noises
from dpcl_core.methods.cslr.head import stop_if_diverged
from dpcl_core.methods.cslr.networks import TwoLayers, class_slopes, coin_slopes
from dpcl_core.methods.cslr.rounds import Clients, averaged, moved
from dpcl_core.methods.cslr.tasks import Seen, clients_of_a_task, features
from dpcl_core.methods.cslr.training import participation
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec

Array = NDArray[np.float32]
_WIDTH = 256  # hidden units of the generator
_LEAST_HIDDEN = 1


class FedCilDp:
    """One cell's generator and classifier. Keeps the noised generator of the last task to replay from."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: Known) -> None:
        params = spec.params
        assert isinstance(params, FedCilDpParams)
        (self._cell,) = cells
        self._spec, self._params, self._known, self._seen = spec, params, known, Seen(spec, known)
        self._n_clients = clients_of_a_task(known)
        self._makes = TwoLayers(params.noise_size + known.n_classes, _WIDTH, known.n_inputs)
        self._tells = TwoLayers(known.n_inputs, max(_LEAST_HIDDEN, params.hidden), 1 + known.n_classes)
        random = generator(self._cell.seed, "head")
        self._generator, self._classifier = self._makes.initial(random), self._tells.initial(random)
        self._earlier: tuple[Array, tuple[int, ...]] | None = None  # the last task's generator, and the labels it knows
        self._participation = participation(params, spec, self._cell, known.n_users or 0)
        horizon = Horizon.of(spec.privacy, known.n_tasks, known.recurrence, params.rounds, params.participation)
        is_private = math.isfinite(self._cell.epsilon)
        self._noises = horizon.in_rounds(self._cell.epsilon, 0.5) if is_private else Noises()
        self._noise = noise_of(spec.privacy.noise, self._cell, "generator and classifier")

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        rows = self._seen.rows(task)
        if self._noises.head == 0:
            clean = dp.NonPrivateDpEvent()
            what = "updates of generator and classifier without noise"
            ledger.spend(clean, task=task.index, what=what, channels={REPLAY: clean, HEAD: clean})
        clients = Clients.of(rows.z, rows.targets, rows.users, self._known.n_users or 0)
        labels = tuple(sorted({*rows.space, *(self._earlier[1] if self._earlier is not None else ())}))
        release = self._spec.privacy.noise == "release" and self._noises.head > 0
        random = np.random.default_rng() if release else generator(self._cell.seed, f"rounds of task {task.index}")
        for done in range(self._params.rounds):
            chosen = self._participation.draw()
            self._average(self._updates(clients, chosen, random), task.index, ledger)
            self._consolidate(generator(self._cell.seed, f"consolidation {done} of task {task.index}"))
            yield Progress("training", done + 1, self._params.rounds, task.index, f"rounds on {task.name}")
        self._earlier = self._generator, labels

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """By the one rule there is: the classifier's logits [1, n, classes]."""
        _, found = self._tells.forward(self._classifier, features(task.test.inputs))
        return {"argmax": self._seen.masked(found[None, :, 1:], task)}

    def _updates(self, clients: Clients, chosen: NDArray[np.int64], random: np.random.Generator) -> tuple[Array, Array]:
        """What the chosen clients change, [n, P] of the generator and of the classifier. Private."""
        with_rows = [client for client in chosen if len(clients.places[client])]
        makes = np.repeat(self._generator[None], len(with_rows), axis=0)
        tells = np.repeat(self._classifier[None], len(with_rows), axis=0)
        if not with_rows:
            return makes, tells
        by_maker, by_teller = Adam(makes, self._params.learning_rate), Adam(tells, self._params.learning_rate)
        for step in range(self._params.local_steps):
            size = self._params.batch_size
            own = np.stack([random.choice(clients.places[client], size) for client in with_rows])
            z, labels = clients.z[own], clients.targets[own].argmax(axis=2)
            again = np.stack([self._replayed(size, random) for _ in with_rows]) if self._earlier is not None else None
            wanted = labels if again is None else np.concatenate([labels, again[..., -1].astype(np.int64)], axis=1)
            invented, asked, made_hidden = self._invented(makes, wanted, random)
            by_teller.step(tells, self._teller_slopes(tells, z, labels, invented, again))
            by_maker.step(makes, self._maker_slopes(makes, tells, asked, made_hidden, invented, wanted))
            for weights in (makes, tells):
                stop_if_diverged(weights, step, self._params.local_steps, self._params.learning_rate)
        return makes - self._generator, tells - self._classifier

    def _invented(
        self, makes: Array, labels: NDArray[np.int64], random: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Embeddings [..., b, d] for labels [..., b], what the generator was asked for, and its hidden values."""
        noise = random.standard_normal((*labels.shape, self._params.noise_size), dtype=np.float32)
        asked = np.concatenate([noise, np.eye(self._known.n_classes, dtype=np.float32)[labels]], axis=-1)
        hidden, found = self._makes.forward(makes, asked)
        return found, asked, hidden

    def _replayed(self, size: int, random: np.random.Generator) -> Array:
        """Earlier embeddings of the noised generator with their labels in the last column, [b, d + 1]."""
        assert self._earlier is not None
        weights, known = self._earlier
        labels = random.choice(np.array(known), size)
        found, _, _ = self._invented(weights, labels, random)
        return np.concatenate([found, labels[:, None].astype(np.float32)], axis=1)

    def _teller_slopes(
        self, tells: Array, z: Array, labels: NDArray[np.int64], invented: Array, again: Array | None
    ) -> Array:
        """Real rows are real and of their label; invented ones are not real; replayed ones are of theirs."""
        found = self._slopes_of(tells, z, 1.0, labels, 1.0) + self._slopes_of(tells, invented, 0.0, None)
        if again is not None:
            of = again[..., -1].astype(np.int64)
            found = found + self._slopes_of(tells, again[..., :-1], None, of, self._params.consistency)
        return found

    def _slopes_of(
        self, tells: Array, x: Array, wanted: float | None, labels: NDArray[np.int64] | None, weight: float = 1.0
    ) -> Array:
        """Slopes in the classifier of mean losses: real or not, where that is `wanted`, and labels, where there are any."""
        hidden, out = self._tells.forward(tells, x)
        slopes = np.zeros_like(out)
        if wanted is not None:
            slopes[..., :1] = coin_slopes(out[..., :1], wanted)
        if labels is not None:
            slopes[..., 1:] = weight * class_slopes(out[..., 1:], labels)
        found, _ = self._tells.backward(tells, x, hidden, slopes / x.shape[-2])
        return found

    def _maker_slopes(
        self, makes: Array, tells: Array, asked: Array, made_hidden: Array, invented: Array, labels: NDArray[np.int64]
    ) -> Array:
        """What is invented should pass for real, and for its label."""
        hidden, out = self._tells.forward(tells, invented)
        slopes = np.concatenate([coin_slopes(out[..., :1], 1.0), class_slopes(out[..., 1:], labels)], axis=-1)
        _, through = self._tells.backward(tells, invented, hidden, slopes / invented.shape[-2])
        found, _ = self._makes.backward(makes, asked, made_hidden, through)
        return found

    def _average(self, updates: tuple[Array, Array], index: int, ledger: Ledger) -> None:
        """Both updates of a round come from the same clients: two parts of one event, each clipped on its own."""
        if self._noises.head == 0:
            self._generator = averaged(self._generator[None], updates[0][None])[0]
            self._classifier = averaged(self._classifier[None], updates[1][None])[0]
            return
        clip, rate = self._params.clip_norm, self._params.participation
        parts = [
            ClientVectors(channel, own, clip, [noise * clip])
            for channel, own, noise in zip(
                (REPLAY, HEAD), updates, (self._noises.release, self._noises.head), strict=True
            )
        ]
        what = f"a round of generator and classifier, sampling rate {rate:g}"
        made, told = noisy_client_sums(parts, [self._noise], [ledger], task=index, what=what, sample_rate=rate)
        expected = rate * self._n_clients
        self._generator = moved(self._generator[None], made, expected)[0]
        self._classifier = moved(self._classifier[None], told, expected)[0]

    def _consolidate(self, random: np.random.Generator) -> None:
        """The server's steps on earlier embeddings of the noised generator: post-processing."""
        if self._earlier is None or not self._params.consolidation_steps:
            return
        weights = self._classifier[None].copy()
        adam = Adam(weights, self._params.learning_rate)
        for _ in range(self._params.consolidation_steps):
            again = self._replayed(self._params.batch_size, random)[None]
            adam.step(weights, self._slopes_of(weights, again[..., :-1], None, again[..., -1].astype(np.int64)))
        self._classifier = weights[0]


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: Known) -> FedCilDp:
    """The learner of one cell."""
    return FedCilDp(spec, cells, known)
