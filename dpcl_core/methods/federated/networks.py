"""Two layers with a bend between them, many copies side by side, and slopes of any loss through them."""

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

    def backward(self, params: Array, x: Array, hidden: Array, slopes: Array) -> tuple[Array, Array]:
        """Slopes of a loss in the parameters [..., P] and in x, from its slopes in the outputs [..., b, outputs]."""
        first, _, second, _ = self._layers(params)
        back = (slopes @ np.swapaxes(second, -1, -2)) * (hidden > 0)
        parts = (
            np.swapaxes(x, -1, -2) @ back,
            back.sum(axis=-2),
            np.swapaxes(hidden, -1, -2) @ slopes,
            slopes.sum(axis=-2),
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


def class_slopes(logits: Array, labels: NDArray[np.int64]) -> Array:
    """Slopes [..., b, C] of cross-entropy summed over rows, of logits [..., b, C] and labels [..., b]."""
    likely: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    likely /= likely.sum(axis=-1, keepdims=True)
    np.put_along_axis(likely, labels[..., None], np.take_along_axis(likely, labels[..., None], -1) - 1, -1)
    return likely


def coin_slopes(logits: Array, wanted: float) -> Array:
    """Slopes of binary cross-entropy summed over rows, where `wanted` is 0 or 1."""
    found: Array = (1 / (1 + np.exp(-np.clip(logits, -60, 60))) - wanted).astype(np.float32)
    return found


def apart_slopes(toward: Array, found: Array) -> tuple[Array, Array]:
    """Slopes of KL(softmax(toward) || softmax(found)) summed over rows, in both logits [..., b, C]."""
    log_p, log_q = (x - x.max(axis=-1, keepdims=True) for x in (toward, found))
    log_p, log_q = (x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) for x in (log_p, log_q))
    p: Array = np.exp(log_p)
    gap = log_p - log_q
    in_toward: Array = p * (gap - (p * gap).sum(axis=-1, keepdims=True))
    in_found: Array = np.exp(log_q) - p
    return in_toward, in_found
