"""Auxiliary-classifier GAN on embeddings: a generator, a classifier, and the gradients of FedCIL's client losses.

Losses are means over rows. With c the chance of being real and p(.) the classifier's softmax over labels,

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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.head import Head

Array = NDArray[np.float32]
Labels = NDArray[np.int64]
_WIDTH = 256  # hidden units of the generator


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """Embeddings `x` [..., b, d] from a generator for `labels` [..., b], with its layers' `inputs`."""

    x: Array
    labels: Labels
    inputs: Sequence[Array]


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

    def generate(self, params: Array, labels: Labels, draws: Sequence[np.random.Generator]) -> Generated:
        """Embeddings for `labels` [n, b], from n generators `params` [n, P] or one [P]; `draws[i]` draws row i."""
        size = (labels.shape[1], self.noise_size)
        noise = np.stack([random.standard_normal(size, dtype=np.float32) for random in draws])
        inputs = np.concatenate([noise, np.eye(self.n_classes, dtype=np.float32)[labels]], axis=-1)
        *layer_inputs, embeddings = self.generator.forward(params, inputs)
        return Generated(embeddings, labels, layer_inputs)

    def classifier_gradient(
        self,
        params: Array,
        local: tuple[Array, Labels],
        generated: Generated,
        replayed: Generated | None = None,
        server: Generated | None = None,
        consistency: float = 0.0,
    ) -> Array:
        """Gradient [..., P] of the classifier's loss in its parameters; see above.

        `local`: rows [..., b, d] and labels [..., b]. `server`: rows for the labels of `generated`, of which the first b are
        those of `local`; without it the consistency terms are left out.
        """
        rows = [local[0], generated.x, *(batch.x for batch in (replayed, server) if batch is not None)]
        x = np.concatenate(rows, axis=-2)
        *inputs, out = self.classifier.forward(params, x)
        parts = np.split(out, np.cumsum([batch.shape[-2] for batch in rows])[:-1], axis=-2)
        share = 1.0 if replayed is None else 0.5
        gradients = [share * _loss_gradient(parts[0], local[1], 1.0), _loss_gradient(parts[1], generated.labels, 0.0)]
        if replayed is not None:
            gradients.append(share * _loss_gradient(parts[2], replayed.labels, 1.0))
        if server is not None:
            gradients.append(self._consistency(parts[-1], parts[0], parts[1], server.labels, gradients, consistency))
        return self.classifier.backward(params, inputs, np.concatenate(gradients, axis=-2))

    def generator_gradient(self, generator: Array, classifier: Array, generated: Generated) -> Array:
        """Gradient of the generator's loss in its parameters: low where the classifier takes the rows for real rows of their
        labels."""
        *inputs, out = self.classifier.forward(classifier, generated.x)
        in_embeddings = self.classifier.input_gradient(classifier, inputs, _loss_gradient(out, generated.labels, 1.0))
        return self.generator.backward(generator, generated.inputs, in_embeddings)

    def label_gradient(self, params: Array, x: Array, labels: Labels) -> Array:
        """Gradient of the labels' cross-entropy alone, in the classifier's parameters."""
        *inputs, out = self.classifier.forward(params, x)
        in_outputs = _loss_gradient(out, labels, 1.0)
        in_outputs[..., :1] = 0
        return self.classifier.backward(params, inputs, in_outputs)

    def _consistency(
        self, server: Array, local: Array, generated: Array, labels: Labels, gradients: list[Array], weight: float
    ) -> Array:
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


def _loss_gradient(out: Array, labels: Labels, real: float) -> Array:
    """Gradient in the outputs [..., b, 1 + C] of A (`real` = 1) or F (`real` = 0), a mean over rows."""
    total: Array = np.concatenate([binary_gradient(out[..., :1], real), class_gradient(out[..., 1:], labels)], axis=-1)
    return total / np.float32(out.shape[-2])


def class_gradient(logits: Array, labels: NDArray[np.int64]) -> Array:
    """Gradient [..., b, C] of cross-entropy summed over rows, in the logits [..., b, C]; labels [..., b]."""
    gradient: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    gradient /= gradient.sum(axis=-1, keepdims=True)
    np.put_along_axis(gradient, labels[..., None], np.take_along_axis(gradient, labels[..., None], -1) - 1, -1)
    return gradient


def binary_gradient(logits: Array, target: float) -> Array:
    """Gradient of binary cross-entropy summed over rows, in the logits; `target` is 0 or 1."""
    gradient: Array = (1 / (1 + np.exp(-np.clip(logits, -60, 60))) - target).astype(np.float32)
    return gradient


def kl_gradients(target: Array, logits: Array) -> tuple[Array, Array]:
    """Gradients of KL(softmax(target) || softmax(logits)) summed over rows, in both arguments [..., b, C]."""
    log_p, log_q = (x - x.max(axis=-1, keepdims=True) for x in (target, logits))
    log_p, log_q = (x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) for x in (log_p, log_q))
    p: Array = np.exp(log_p)
    gap = log_p - log_q
    in_target: Array = p * (gap - (p * gap).sum(axis=-1, keepdims=True))
    in_logits: Array = np.exp(log_q) - p
    return in_target, in_logits
