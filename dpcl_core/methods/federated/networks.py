"""Batched two-layer ReLU networks with hand-written gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TwoLayers:
    """Linear(n_inputs, n_hidden) - ReLU - Linear(n_hidden, n_outputs); parameters are flat vectors [..., P]."""

    n_inputs: int
    n_hidden: int
    n_outputs: int

    @property
    def n_parameters(self) -> int:
        """P."""
        return (self.n_inputs + 1) * self.n_hidden + (self.n_hidden + 1) * self.n_outputs

    def initial(self, random: np.random.Generator) -> Array:
        """Fresh parameters [P]: uniform within 1/sqrt(fan-in)."""
        first = random.uniform(-1, 1, (self.n_inputs + 1) * self.n_hidden) / np.sqrt(self.n_inputs)
        second = random.uniform(-1, 1, (self.n_hidden + 1) * self.n_outputs) / np.sqrt(self.n_hidden)
        return np.concatenate([first, second]).astype(np.float32)

    def forward(self, params: Array, x: Array) -> tuple[Array, Array]:
        """Hidden values [..., b, hidden] and outputs [..., b, outputs] of x [..., b, inputs] under params [..., P]."""
        first, first_bias, second, second_bias = self._layers(params)
        hidden = x @ first + first_bias
        hidden = np.maximum(hidden, 0, out=hidden)
        return hidden, hidden @ second + second_bias

    def backward(self, params: Array, x: Array, hidden: Array, in_outputs: Array) -> tuple[Array, Array]:
        """Gradients of a loss in the parameters [..., P] and in x, from its gradient in the outputs [..., b, outputs]."""
        first, _, second, _ = self._layers(params)
        back = (in_outputs @ np.swapaxes(second, -1, -2)) * (hidden > 0)
        parts = (
            np.swapaxes(x, -1, -2) @ back,
            back.sum(axis=-2),
            np.swapaxes(hidden, -1, -2) @ in_outputs,
            in_outputs.sum(axis=-2),
        )
        flat = [part.reshape(*params.shape[:-1], -1) for part in parts]
        return np.concatenate(flat, axis=-1), (back @ np.swapaxes(first, -1, -2)).astype(np.float32, copy=False)

    def _layers(self, params: Array) -> tuple[Array, Array, Array, Array]:
        lead = params.shape[:-1]
        sizes = (self.n_inputs * self.n_hidden, self.n_hidden, self.n_hidden * self.n_outputs, self.n_outputs)
        first, first_bias, second, second_bias = np.split(params, np.cumsum(sizes)[:-1], axis=-1)
        return (
            first.reshape(*lead, self.n_inputs, self.n_hidden),
            first_bias[..., None, :],
            second.reshape(*lead, self.n_hidden, self.n_outputs),
            second_bias[..., None, :],
        )


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
