"""FedCIL on embeddings with client-level DP: clients train a GAN in rounds and replay earlier labels from its generator.

The client losses are in `acgan`. One change from the source, for privacy: clients and server sample only the noised global
generator (and a client its own), where the original sends every client's generator to the server. The server's
consolidation trains the classifier on earlier labels only: a generator would train on its own output, and its rows of this
task's labels are worse than the clients' rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.adam import Adam
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.acgan import AcGan, Array, Generated
from dpcl_core.methods.federated.budget import Horizon
from dpcl_core.methods.federated.cards.fedcil_dp import FedCilDpParams
from dpcl_core.methods.federated.client_training import participation
from dpcl_core.methods.federated.head import stop_if_diverged
from dpcl_core.methods.federated.rounds import Clients, averaged, client_draws, moved
from dpcl_core.methods.federated.task_rows import SeenLabels, clients_per_task, features
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec


class FedCilDp:
    """One cell's generator and classifier. Keeps the noised generator of the last task to replay from."""

    KEPT = ("_seen", "_generator", "_classifier", "_earlier", "_participation", "_noise")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        params = spec.params
        assert isinstance(params, FedCilDpParams)
        (self._cell,) = cells
        self._spec, self._params, self._seen = spec, params, SeenLabels(spec, context)
        self._n_users, self._n_clients = context.n_users or 0, clients_per_task(context)
        self._gan = AcGan(context.n_inputs, context.n_classes, params.noise_size, params.hidden)
        random = generator(self._cell.seed, "head")
        self._generator, self._classifier = self._gan.generator.initial(random), self._gan.classifier.initial(random)
        self._earlier: tuple[Array, tuple[int, ...]] | None = None  # the last task's generator, and its labels
        self._participation = participation(params, spec, self._cell)
        horizon = Horizon.of(spec.privacy, context.n_tasks, context.recurrence, params.rounds, params.participation)
        self._noises = horizon.in_rounds(self._cell.epsilon, 0.5)
        self._noise = noise_of(spec.privacy.noise, self._cell, "generator and classifier")

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        rows = self._seen.rows(task)
        if self._noises.head == 0:
            clean = dp.NonPrivateDpEvent()
            what = "updates of generator and classifier without noise"
            ledger.spend(clean, task=task.index, what=what, channels={REPLAY: clean, HEAD: clean})
        clients = Clients.of(rows.z, rows.targets, rows.users, self._n_users)
        release = self._spec.privacy.noise == "release" and self._noises.head > 0
        for done in range(self._params.rounds):
            chosen = self._participation.draw(self._n_users)
            with_rows = [int(client) for client in chosen if len(clients.places[client])]
            draws = client_draws(with_rows, None if release else self._cell.seed, f"round {done} of task {task.index}")
            # At first the global generator has not seen the task's labels: consistency starts in the second round.
            updates = self._updates(clients, with_rows, draws, is_first=done == 0)
            self._average(updates, task.index, ledger)
            for weights in (self._generator, self._classifier):
                stop_if_diverged(weights, done, self._params.rounds, self._params.learning_rate, "round")
            self._consolidate(generator(self._cell.seed, f"consolidation {done} of task {task.index}"))
            yield Progress("training", done + 1, self._params.rounds, task.index, f"rounds on {task.name}")
        labels = self._earlier[1] if self._earlier is not None else ()
        self._earlier = self._generator, tuple(sorted({*labels, *rows.space}))

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The classifier's logits [1, n, classes], the only prediction rule."""
        logits = self._gan.classifier.logits(self._classifier, features(task.test.inputs))
        return {"argmax": self._seen.masked(logits[None, :, 1:], task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """Weights of the generator and of the classifier as the last round left them."""
        return {"generator": self._generator.copy(), "classifier": self._classifier.copy()}

    def rule(self, cell: Cell) -> Rule:
        """The classifier's largest logit, its first output aside, which stands for made-up examples."""
        return self._seen.rule("federated-head", ("classifier",), n_hidden=self._gan.classifier.n_hidden, n_skipped=1)

    def _updates(
        self, clients: Clients, with_rows: Sequence[int], draws: Sequence[np.random.Generator], *, is_first: bool
    ) -> tuple[Array, Array]:
        """Updates [n, P] of generator and classifier from the chosen clients that have rows. Private."""
        generators = np.repeat(self._generator[None], len(with_rows), axis=0)
        classifiers = np.repeat(self._classifier[None], len(with_rows), axis=0)
        if not with_rows:
            return generators, classifiers
        rate = self._params.learning_rate
        generator_adam, classifier_adam = Adam(generators, rate), Adam(classifiers, rate)
        size, gan = self._params.batch_size, self._gan
        # Only a client with a huge number overflows, and its update is clipped.
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self._params.local_steps):
                places = np.stack(
                    [draw.choice(clients.places[client], size) for client, draw in zip(with_rows, draws, strict=True)]
                )
                z, labels = clients.z[places], clients.targets[places].argmax(axis=2)
                replayed = self._replayed(size, draws) if self._earlier is not None else None
                all_labels = labels if replayed is None else np.concatenate([labels, replayed.labels], axis=1)
                generated = gan.generate(generators, all_labels, draws)
                server = None if is_first else gan.generate(self._generator, all_labels, draws)
                weight = self._params.consistency
                gradient = gan.classifier_gradient(classifiers, (z, labels), generated, replayed, server, weight)
                classifier_adam.step(classifiers, gradient)
                generator_adam.step(generators, gan.generator_gradient(generators, classifiers, generated))
        return generators - self._generator, classifiers - self._classifier

    def _replayed(self, size: int, draws: Sequence[np.random.Generator]) -> Generated:
        """Rows from the last task's noised generator: each of `draws` draws `size` earlier labels uniformly."""
        assert self._earlier is not None
        weights, labels = self._earlier
        return self._gan.generate(weights, np.stack([draw.choice(np.array(labels), size) for draw in draws]), draws)

    def _average(self, updates: tuple[Array, Array], index: int, ledger: Ledger) -> None:
        """Averages a round's updates of both networks: two parts of one event, each clipped separately."""
        if self._noises.head == 0:
            self._generator = averaged(self._generator, updates[0])
            self._classifier = averaged(self._classifier, updates[1])
            return
        clip, coins = self._params.clip_norm, self._participation
        parts = [
            ClientVectors(channel, rows, clip, [noise * clip])
            for channel, rows, noise in zip((REPLAY, HEAD), updates, (self._noises.release, self._noises.head), strict=True)
        ]
        what = f"a round of generator and classifier, sampling rate {coins.rate:g}"
        sums = noisy_client_sums(parts, [self._noise], [ledger], task=index, what=what, batches=coins)
        expected = coins.rate * self._n_clients
        self._generator = moved(self._generator, sums[0][0], expected)
        self._classifier = moved(self._classifier, sums[1][0], expected)

    def _consolidate(self, random: np.random.Generator) -> None:
        """The server's steps on replayed embeddings from the noised generator: post-processing."""
        if self._earlier is None:
            return
        weights = self._classifier[None].copy()
        adam = Adam(weights, self._params.learning_rate)
        for _ in range(self._params.consolidation_steps):
            replayed = self._replayed(self._params.batch_size, [random])
            adam.step(weights, self._gan.label_gradient(weights, replayed.x, replayed.labels))
        self._classifier = weights[0]


make_learner = FedCilDp
