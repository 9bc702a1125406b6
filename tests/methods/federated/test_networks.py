"""Slopes through two layers against finite differences, copies side by side against one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.methods.federated.client_training import Head
from dpcl_core.methods.federated.fedcil_dp import binary_gradient, class_gradient

NET = Head(5, 3, 7)


def loss(params: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
    """Cross-entropy of the labels and of "real" at the first output, written out in float64."""
    first, bias, second, out_bias = np.split(params.astype(np.float64), np.cumsum([35, 7, 21]))
    out = np.maximum(x @ first.reshape(5, 7) + bias, 0) @ second.reshape(7, 3) + out_bias
    likely = out - np.log(np.exp(out).sum(axis=1, keepdims=True))
    return float(-likely[np.arange(len(x)), labels].sum() + np.log1p(np.exp(-out[:, 0])).sum())


def test_slopes_are_those_of_the_loss() -> None:
    random = np.random.default_rng(0)
    params, x = NET.initial(random), random.standard_normal((4, 5)).astype(np.float32)
    assert params.shape == (6 * 7 + 8 * 3,)
    labels = np.array([0, 2, 1, 2])
    *inputs, out = NET.forward(params, x)
    slopes = class_gradient(out, labels)
    slopes[:, :1] += binary_gradient(out[:, :1], 1.0)
    in_params, in_x = NET.backward(params, inputs, slopes), NET.input_gradient(params, inputs, slopes)
    step = 1e-5
    for place in range(0, len(params), 7):
        moved = np.eye(len(params))[place] * step
        found = (loss(params + moved, x, labels) - loss(params - moved, x, labels)) / (2 * step)
        assert in_params[place] == pytest.approx(found, abs=1e-4)
    for row, column in ((0, 0), (1, 3), (3, 4)):
        moved = np.zeros_like(x, dtype=np.float64)
        moved[row, column] = step
        found = (loss(params, x + moved, labels) - loss(params, x - moved, labels)) / (2 * step)
        assert in_x[row, column] == pytest.approx(found, abs=1e-4)


def test_copies_side_by_side_are_the_copies_one_by_one() -> None:
    random = np.random.default_rng(1)
    params = np.stack([NET.initial(random) for _ in range(3)])
    x = random.standard_normal((3, 4, 5)).astype(np.float32)
    labels = random.integers(0, 3, (3, 4))
    *inputs, out = NET.forward(params, x)
    together = NET.backward(params, inputs, class_gradient(out, labels))
    for place in range(3):
        *own_inputs, own = NET.forward(params[place], x[place])
        alone = NET.backward(params[place], own_inputs, class_gradient(own, labels[place]))
        assert together[place] == pytest.approx(alone, abs=1e-5)
