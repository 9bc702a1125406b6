"""FedCIL on embeddings with client-level DP: clients train a GAN in rounds and replay earlier labels from its generator.

One change from the source, for privacy: clients and server sample only the noised global generator (and a client its own),
where the original sends every client's generator to the server. The server's consolidation trains the classifier on earlier
labels only: a generator would train on its own output, and its rows of this task's labels are worse than the clients' rows.

The client losses are means over rows. With c the chance of being real and p(.) the classifier's softmax over labels,

    A(x, y) = -log c(x) - log p(x)[y]                                   rows that count as real
    F(x, y) = -log(1 - c(x)) - log p(x)[y]                              generated rows and the labels they are for
    classifier:  A(local) / 2 + A(replayed) / 2 + F(generated)          A(local) + F(generated) before the first replay
                 + w [ KL(p(s_y) || p(x_y)) + KL(p(s_a) || p(g_a)) - log p(s_a)[a] ]
    generator:   A(generated)

The bracket is the consistency enforcement of Qi, Zhao and Li (2023), in the form of their published code, which multiplies
it by zero. s are embeddings from the server's generator, g from the client's. The first term ties local rows x_y to the
server's rows of the same labels y, the second the client's generated rows to the server's of the same labels a; the third
is the labels' cross-entropy on the server's rows. As in their code, gradients flow through both sides of a divergence. Here
a are the labels of local and replayed rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Arrays, Rule
from dpcl_core.methods.common.dpsgd import Adam
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.federated import client_training
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import SeenLabels, clients_per_task, features, spend_unbounded
from dpcl_core.methods.federated.client_training import Clients, Head, averaged, moved
from dpcl_core.methods.federated.lists import Ints, Reals, Singles
from dpcl_core.methods.federated.release_schedule import Horizon
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums
from dpcl_core.privacy.noise import noise_of
from dpcl_core.published import Departure
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class FedCilDpParams(federated.ClippedParams):
    """A generator and a discriminator, averaged over clients."""

    noise_size: int = parameter(64, "Noise dimensions", "Random numbers that the generator starts from.", ge=1, le=1024)
    consolidation_steps: int = parameter(
        20, "", "Steps on embeddings of the noised generator alone, by the server, after a round.", ge=0, le=1000)
    consistency: float = parameter(
        1.0, "Consistency weight",
        "What agreeing with the server's generated embeddings counts for a client.", ge=0, le=1000)


CARD = federated.card(
    name="fedcil-dp", title="FedCIL with noise",
    summary="Clients train a generator of embeddings and a classifier that tells real from generated ones; their joint "
    "update is clipped, and the sum gets noise. The generator of the last round replays earlier classes. Unlike in the "
    "original, clients' own generators never reach the server.",
    source="Qi, Zhao and Li 2023 (FedCIL), on embeddings and under user-level privacy",
    params=FedCilDpParams, key_settings=("rounds", "participation", "clip_norm"), module=__name__,
    planned="dpcl_core.methods.federated.release_schedule:rounds",
    printed=federated.printed_settings(
        federated.ROUNDS, federated.CLIP_OPEN,
        {
            "params.noise_size": "The size of the generator's input is not given.",
            "params.consolidation_steps": "How long the server consolidates is not given.",
            "params.consistency": "The weight of consistency is not given.",
        },
        always=(
            Departure(
                "", "every client's generator", "the server consolidates from the noised global generator alone",
                "Clients' own generators would hand it what each of them holds."
            ),
        ),
    ),
    table_names=lambda spec: ("FedCIL+DP", ""),
    reference="FedCIL+DP",
)

_WIDTH = 256  # hidden units of the generator


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """Embeddings `x` [..., b, d] from a generator for `labels` [..., b], with its layers' `inputs`."""

    x: Singles
    labels: Ints
    inputs: Sequence[Singles]


@dataclass(frozen=True, slots=True)
class AcGan:
    """Both networks; the classifier's first output is the logit of being real, the other C are the labels'."""

    n_inputs: int
    n_classes: int
    noise_size: int
    hidden: int

    @property
    def generator(self) -> Head:
        """The generator: noise and a one-hot label in, an embedding out."""
        return Head(self.noise_size + self.n_classes, self.n_inputs, _WIDTH)

    @property
    def classifier(self) -> Head:
        """The classifier: an embedding in, the logit of being real and the labels' logits out."""
        return Head(self.n_inputs, 1 + self.n_classes, max(1, self.hidden))

    def generate(self, params: Singles, labels: Ints, draws: Sequence[np.random.Generator]) -> Generated:
        """Embeddings for `labels` [n, b], from n generators `params` [n, P] or one [P]; `draws[i]` draws row i."""
        size = (labels.shape[1], self.noise_size)
        noise = np.stack([random.standard_normal(size, dtype=np.float32) for random in draws])
        inputs = np.concatenate([noise, np.eye(self.n_classes, dtype=np.float32)[labels]], axis=-1)
        *layer_inputs, embeddings = self.generator.forward(params, inputs)
        return Generated(embeddings, labels, layer_inputs)

    def classifier_gradient(
        self, params: Singles, local: tuple[Singles, Ints], generated: Generated, replayed: Generated | None = None,
        server: Generated | None = None, consistency: float = 0.0
    ) -> Singles:
        """Gradient [..., P] of the classifier's loss in its parameters; see above.

        `local`: rows [..., b, d] and labels [..., b]. `server`: rows for the labels of `generated`, of which the first b are
        those of `local`; without it the consistency terms are left out.
        """
        rows = [local[0], generated.x, *(batch.x for batch in (replayed, server) if batch is not None)]
        *inputs, out = self.classifier.forward(params, np.concatenate(rows, axis=-2))
        parts = np.split(out, np.cumsum([batch.shape[-2] for batch in rows])[:-1], axis=-2)
        share = 1.0 if replayed is None else 0.5
        gradients = [share * _loss_gradient(parts[0], local[1], 1.0), _loss_gradient(parts[1], generated.labels, 0.0)]
        if replayed is not None:
            gradients.append(share * _loss_gradient(parts[2], replayed.labels, 1.0))
        if server is not None:
            gradients.append(self._consistency(parts[-1], parts[0], parts[1], server.labels, gradients, consistency))
        return self.classifier.backward(params, inputs, np.concatenate(gradients, axis=-2))

    def generator_gradient(self, generator: Singles, classifier: Singles, generated: Generated) -> Singles:
        """Gradient of the generator's loss in its parameters: low where the classifier takes the rows for real rows of their
        labels."""
        *inputs, out = self.classifier.forward(classifier, generated.x)
        in_embeddings = self.classifier.input_gradient(classifier, inputs, _loss_gradient(out, generated.labels, 1.0))
        return self.generator.backward(generator, generated.inputs, in_embeddings)

    def label_gradient(self, params: Singles, x: Singles, labels: Ints) -> Singles:
        """Gradient of the labels' cross-entropy alone, in the classifier's parameters."""
        *inputs, out = self.classifier.forward(params, x)
        in_outputs = _loss_gradient(out, labels, 1.0)
        in_outputs[..., :1] = 0
        return self.classifier.backward(params, inputs, in_outputs)

    def _consistency(
        self, server: Singles, local: Singles, generated: Singles, labels: Ints, gradients: list[Singles], weight: float
    ) -> Singles:
        """Gradient [..., a, 1 + C] in the outputs of the server's rows; adds that of the other sides to `gradients`, whose
        first two entries belong to local and generated rows."""
        n_local, n_labels = local.shape[-2], labels.shape[-1]
        in_server = np.zeros_like(server)
        in_server[..., 1:] = weight / n_labels * class_gradient(server[..., 1:], labels)
        in_target, in_local = kl_gradients(server[..., :n_local, 1:], local[..., 1:])
        in_server[..., :n_local, 1:] += weight / n_local * in_target
        gradients[0][..., 1:] += weight / n_local * in_local
        in_target, in_generated = kl_gradients(server[..., 1:], generated[..., 1:])
        in_server[..., 1:] += weight / n_labels * in_target
        gradients[1][..., 1:] += weight / n_labels * in_generated
        return in_server


def _loss_gradient(out: Singles, labels: Ints, real: float) -> Singles:
    """Gradient in the outputs [..., b, 1 + C] of A (`real` = 1) or F (`real` = 0), a mean over rows."""
    total: Singles = np.concatenate([binary_gradient(out[..., :1], real), class_gradient(out[..., 1:], labels)], axis=-1)
    return total / np.float32(out.shape[-2])


def class_gradient(logits: Singles, labels: Ints) -> Singles:
    """Gradient [..., b, C] of cross-entropy summed over rows, in the logits [..., b, C]; labels [..., b]."""
    gradient: Singles = np.exp(logits - logits.max(axis=-1, keepdims=True))
    gradient /= gradient.sum(axis=-1, keepdims=True)
    np.put_along_axis(gradient, labels[..., None], np.take_along_axis(gradient, labels[..., None], -1) - 1, -1)
    return gradient


def binary_gradient(logits: Singles, target: float) -> Singles:
    """Gradient of binary cross-entropy summed over rows, in the logits; `target` is 0 or 1."""
    return (1 / (1 + np.exp(-np.clip(logits, -60, 60))) - target).astype(np.float32)


def kl_gradients(target: Singles, logits: Singles) -> tuple[Singles, Singles]:
    """Gradients of KL(softmax(target) || softmax(logits)) summed over rows, in both arguments [..., b, C]."""
    log_p, log_q = (x - x.max(axis=-1, keepdims=True) for x in (target, logits))
    log_p, log_q = (x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) for x in (log_p, log_q))
    p: Singles = np.exp(log_p)
    gap = log_p - log_q
    in_target: Singles = p * (gap - (p * gap).sum(axis=-1, keepdims=True))
    in_logits: Singles = np.exp(log_q) - p
    return in_target, in_logits


class FedCilDp:
    """One cell's generator and classifier. Keeps the noised generator of the last task to replay from."""

    KEPT = ("_seen", "_generator", "_classifier", "_earlier", "_participation", "_noise")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        (self._cell,), params = cells, settings_of(spec, FedCilDpParams)
        self._spec, self._params, self._seen = spec, params, SeenLabels(spec, context)
        self._n_users, self._n_clients = context.n_users or 0, clients_per_task(context)
        self._gan = AcGan(context.n_inputs, context.n_classes, params.noise_size, params.hidden)
        random = generator(self._cell.seed, "head")
        self._generator, self._classifier = self._gan.generator.initial(random), self._gan.classifier.initial(random)
        self._earlier: tuple[Singles, tuple[int, ...]] | None = None  # the last task's generator, and its labels
        self._participation = client_training.participation(params, spec, self._cell)
        self._noises = Horizon.of(spec, context, params).in_rounds(self._cell.epsilon, 0.5)
        self._noise = noise_of(spec.privacy.noise, self._cell, "generator and classifier")

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        rows = self._seen.rows(task)
        if self._noises.head == 0:
            spend_unbounded(ledger, task.index, "updates of generator and classifier without noise", REPLAY, HEAD)
        clients = Clients.of(rows.z, rows.targets, rows.users, self._n_users)
        release = self._spec.privacy.noise == "release" and self._noises.head > 0
        for done in range(self._params.rounds):
            chosen = self._participation.draw(self._n_users)
            with_rows = [int(client) for client in chosen if len(clients.places[client])]
            seed, purpose = None if release else self._cell.seed, f"round {done} of task {task.index}"
            draws = client_training.client_draws(with_rows, seed, purpose)
            # At first the global generator has not seen the task's labels: consistency starts in the second round.
            self._average(self._updates(clients, with_rows, draws, is_first=done == 0), task.index, ledger)
            for weights in (self._generator, self._classifier):
                client_training.stop_if_diverged(weights, done, self._params.rounds, self._params.learning_rate, "round")
            self._consolidate(generator(self._cell.seed, f"consolidation {done} of task {task.index}"))
            yield Progress("training", done + 1, self._params.rounds, task.index, f"rounds on {task.name}")
        labels = self._earlier[1] if self._earlier is not None else ()
        self._earlier = self._generator, tuple(sorted({*labels, *rows.space}))

    def scores(self, seed: int, task: Task) -> Mapping[str, Reals]:
        """The classifier's logits [1, n, classes], the only prediction rule."""
        logits = self._gan.classifier.logits(self._classifier, features(task.test.inputs))
        return {"argmax": self._seen.masked(logits[None, :, 1:], task)}

    def released(self, cell: Cell) -> Arrays:
        """Weights of the generator and of the classifier as the last round left them."""
        return {"generator": self._generator.copy(), "classifier": self._classifier.copy()}

    def rule(self, cell: Cell) -> Rule:
        """The classifier's largest logit, its first output aside, which stands for made-up examples."""
        return self._seen.rule("federated-head", ("classifier",), n_hidden=self._gan.classifier.n_hidden, n_skipped=1)

    def _updates(
        self, clients: Clients, with_rows: Sequence[int], draws: Sequence[np.random.Generator], *, is_first: bool
    ) -> tuple[Singles, Singles]:
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

    def _average(self, updates: tuple[Singles, Singles], index: int, ledger: Ledger) -> None:
        """Averages a round's updates of both networks: two parts of one event, each clipped separately."""
        if self._noises.head == 0:
            self._generator, self._classifier = map(averaged, (self._generator, self._classifier), updates)
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
