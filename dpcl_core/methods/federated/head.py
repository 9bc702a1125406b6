"""Linear layers and two-layer ReLU networks, trained as a batch of copies in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.adam import Adam
from dpcl_core.methods.common.dpsgd_plan import LARGEST_WEIGHT

Params = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Head:
    """Linear(d, C), or Linear(d, hidden)-ReLU-Linear(hidden, C) where `n_hidden` > 0; parameters are flat vectors [P]."""

    n_inputs: int
    n_classes: int
    n_hidden: int = 128

    @property
    def _shapes(self) -> tuple[tuple[int, int], ...]:
        widths = (self.n_inputs, *([self.n_hidden] if self.n_hidden else []), self.n_classes)
        return tuple(pairwise(widths))

    def initial(self, generator: np.random.Generator) -> Params:
        """Initial parameters [P]: uniform within 1/sqrt(fan-in), as torch's Linear."""
        layers = [generator.uniform(-1, 1, (n_in + 1) * n_out) / np.sqrt(n_in) for n_in, n_out in self._shapes]
        return np.concatenate(layers).astype(np.float32)

    def logits(self, params: Params, z: NDArray[np.floating]) -> NDArray[np.float32]:
        """Logits [..., n, C] of embeddings [n, d] or [..., n, d] under parameters [..., P]."""
        return self.forward(params, z.astype(np.float32, copy=False))[-1]

    def gradients(
        self, params: Params, z: NDArray[np.float32], targets: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> Params:
        """Gradients [..., P] of each copy's weighted sum of cross-entropies, in the precision of the parameters [..., P].

        Args: z [..., b, d], soft targets [..., b, C], weights [..., b]; leading axes may be 1 where copies share rows.
        """
        *inputs, logits = self.forward(params, z)
        residuals = _residuals(logits, targets)
        residuals *= weights[..., None]
        return self.backward(params, inputs, residuals)

    def forward(self, params: Params, z: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """z [..., b, d], the hidden values [..., b, hidden] if there are any, and the outputs [..., b, C]."""
        values = [z]
        for matrix, bias in self._layers(params):
            if len(values) > 1:
                np.maximum(values[-1], 0, out=values[-1])
            out = values[-1] @ matrix
            out += bias[..., None, :]
            values.append(out)
        return values

    def backward(self, params: Params, inputs: Sequence[NDArray[np.float32]], back: NDArray[np.float32]) -> Params:
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

    def input_gradient(
        self, params: Params, inputs: Sequence[NDArray[np.float32]], back: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The same loss's gradient in z [..., b, d]."""
        for place, (matrix, _) in reversed(list(enumerate(self._layers(params)))):
            back = back @ np.swapaxes(matrix, -1, -2)
            if place:
                back *= inputs[place] > 0
        return back

    def _layers(self, params: Params) -> list[tuple[Params, Params]]:
        """Views of each layer's weights [..., in, out] and bias [..., out]."""
        views, start = [], 0
        for n_in, n_out in self._shapes:
            middle, end = start + n_in * n_out, start + (n_in + 1) * n_out
            views.append((params[..., start:middle].reshape(*params.shape[:-1], n_in, n_out), params[..., middle:end]))
            start = end
        return views


def _residuals(logits: NDArray[np.float32], targets: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gradient of the loss in the logits, computed in place; targets sum to 1, or to 0 for a row without a loss."""
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits *= targets.sum(axis=-1, keepdims=True) / logits.sum(axis=-1, keepdims=True)
    logits -= targets
    return logits


def trained(
    head: Head,
    start: Params,
    z: NDArray[np.float32],
    targets: NDArray[np.float32],
    n_steps: int,
    batch_size: int,
    learning_rate: float,
    generator: np.random.Generator,
) -> Params:
    """J copies [J, P] after `n_steps` of Adam from `start` [J, P], copy j on its own rows z [J, n, d], targets [J, n, C].

    All copies use one order of rows, in which every row comes once before any repeats; a batch is at most n rows, n >= 1.
    Raises Diverged where a weight exceeds every plausible size or is not finite.
    """
    params, size = start.copy(), min(batch_size, z.shape[1])
    adam = Adam(params, learning_rate)
    order = cycled(z.shape[1], n_steps * size, generator).reshape(n_steps, size)
    shares = np.full((1, size), 1 / size, dtype=np.float32)
    for step, rows in enumerate(order):
        adam.step(params, head.gradients(params, z[:, rows], targets[:, rows], shares))
        stop_if_diverged(params, step, n_steps, learning_rate)
    return params


def cycled(n_rows: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """`count` row indices from successive random permutations: every row comes once before any repeats."""
    orders = [generator.permutation(n_rows) for _ in range(-(-count // n_rows))]
    return np.concatenate(orders)[:count]


def stop_if_diverged(params: Params, step: int, n_steps: int, learning_rate: float, turn: str = "step") -> None:
    """Raises Diverged where a weight is larger than any head needs, or not finite. `step` counts from 0."""
    if not max(params.max(initial=0), -params.min(initial=0)) <= LARGEST_WEIGHT:
        raise Diverged(
            f"training diverged at {turn} {step + 1} of {n_steps} with params.learning_rate = {learning_rate:g}: "
            "a smaller learning rate or more clients may help"
        )
