"""A generator of embeddings and a classifier that tells real ones from invented ones: what FedCIL's clients descend on.

Losses are means over rows. With c the chance of being real and p(.) the classifier's softmax over labels,

    A(x, y) = -log c(x) - log p(x)[y]                                   of rows that count as real
    F(x, y) = -log(1 - c(x)) - log p(x)[y]                              of invented rows and what was asked for
    classifier:  A(own) / 2 + A(replayed) / 2 + F(invented)             A(own) + F(invented) before anything is replayed
                 + w [ KL(p(s_y) || p(x_y)) + KL(p(s_a) || p(g_a)) - log p(s_a)[a] ]
    generator:   A(invented)

The bracket is what Qi, Zhao and Li (2023) call consistency enforcement, in the form of their published code, which
multiplies it by zero. s are embeddings of the server's generator, g of the client's own: the first term ties own rows x_y
to the server's of the same labels y, the second the client's inventions to the server's, asked for the same labels a; the
third teaches the server's rows their labels. Both sides of a divergence move, as there. Here a are the labels of own and
replayed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.networks import TwoLayers, apart_slopes, class_slopes, coin_slopes

Array = NDArray[np.float32]
Labels = NDArray[np.int64]
_WIDTH = 256  # hidden units of the generator
_LEAST_HIDDEN = 1


@dataclass(frozen=True, slots=True, eq=False)
class Invented:
    """Embeddings [..., b, d] of a generator, labels [..., b] that were asked for, its inputs and hidden values."""

    x: Array
    labels: Labels
    asked: Array
    hidden: Array


@dataclass(frozen=True, slots=True)
class AcGan:
    """Both networks; the classifier's first output is the logit of being real, the other C are the labels'."""

    n_inputs: int
    n_classes: int
    noise_size: int
    hidden: int

    @property
    def makes(self) -> TwoLayers:
        """The generator: noise and a one-hot label in, an embedding out."""
        return TwoLayers(self.noise_size + self.n_classes, _WIDTH, self.n_inputs)

    @property
    def tells(self) -> TwoLayers:
        """The classifier."""
        return TwoLayers(self.n_inputs, max(_LEAST_HIDDEN, self.hidden), 1 + self.n_classes)

    def invent(self, makes: Array, labels: Labels, draws: Sequence[np.random.Generator]) -> Invented:
        """Embeddings of `labels` [n, b] by generators with parameters [n, P], or [P] of one; `draws[i]` draws row i."""
        size = (labels.shape[1], self.noise_size)
        noise = np.stack([random.standard_normal(size, dtype=np.float32) for random in draws])
        asked = np.concatenate([noise, np.eye(self.n_classes, dtype=np.float32)[labels]], axis=-1)
        hidden, found = self.makes.forward(makes, asked)
        return Invented(found, labels, asked, hidden)

    def teller_slopes(
        self,
        tells: Array,
        own: tuple[Array, Labels],
        invented: Invented,
        replayed: Invented | None = None,
        server: Invented | None = None,
        consistency: float = 0.0,
    ) -> Array:
        """Slopes of the classifier's loss in its parameters [..., P]; see above.

        `own`: rows [..., b, d] and labels [..., b]. `server`: asked for the labels of `invented`, whose first b are those of
        `own`; without it there is no consistency.
        """
        rows = [own[0], invented.x, *(batch.x for batch in (replayed, server) if batch is not None)]
        x = np.concatenate(rows, axis=-2)
        hidden, out = self.tells.forward(tells, x)
        parts = np.split(out, np.cumsum([batch.shape[-2] for batch in rows])[:-1], axis=-2)
        share = 1.0 if replayed is None else 0.5
        slopes = [share * _slopes(parts[0], own[1], 1.0), _slopes(parts[1], invented.labels, 0.0)]
        if replayed is not None:
            slopes.append(share * _slopes(parts[2], replayed.labels, 1.0))
        if server is not None:
            slopes.append(self._consistency(parts[-1], parts[0], parts[1], server.labels, slopes, consistency))
        found, _ = self.tells.backward(tells, x, hidden, np.concatenate(slopes, axis=-2))
        return found

    def maker_slopes(self, makes: Array, tells: Array, invented: Invented) -> Array:
        """Slopes of the generator's loss in its parameters: what it invents should pass for real, and for its label."""
        hidden, out = self.tells.forward(tells, invented.x)
        _, through = self.tells.backward(tells, invented.x, hidden, _slopes(out, invented.labels, 1.0))
        found, _ = self.makes.backward(makes, invented.asked, invented.hidden, through)
        return found

    def label_slopes(self, tells: Array, x: Array, labels: Labels) -> Array:
        """Slopes of the labels' cross-entropy alone, in the classifier's parameters."""
        hidden, out = self.tells.forward(tells, x)
        slopes = _slopes(out, labels, 1.0)
        slopes[..., :1] = 0
        found, _ = self.tells.backward(tells, x, hidden, slopes)
        return found

    def _consistency(
        self, server: Array, own: Array, invented: Array, labels: Labels, slopes: list[Array], weight: float
    ) -> Array:
        """Adds the other sides' slopes to `slopes` of own and invented rows; those of the server's rows [..., a, 1 + C]."""
        n_own, n_asked = own.shape[-2], labels.shape[-1]
        found = np.zeros_like(server)
        found[..., 1:] = weight / n_asked * class_slopes(server[..., 1:], labels)
        toward, of_own = apart_slopes(server[..., :n_own, 1:], own[..., 1:])
        found[..., :n_own, 1:] += weight / n_own * toward
        slopes[0][..., 1:] += weight / n_own * of_own
        toward, of_invented = apart_slopes(server[..., 1:], invented[..., 1:])
        found[..., 1:] += weight / n_asked * toward
        slopes[1][..., 1:] += weight / n_asked * of_invented
        return found


def _slopes(out: Array, labels: Labels, real: float) -> Array:
    """Slopes in the outputs [..., b, 1 + C] of the mean over rows of -log of `real` and of -log of the label."""
    found: Array = np.concatenate([coin_slopes(out[..., :1], real), class_slopes(out[..., 1:], labels)], axis=-1)
    return found / np.float32(out.shape[-2])
