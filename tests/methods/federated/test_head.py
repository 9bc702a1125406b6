"""The head: gradients against finite differences, copies side by side as if alone, and a training that learns."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from dpcl_core.errors import Diverged
from dpcl_core.methods.federated.client_training import Head, cycled, train_copies
from dpcl_core.methods.federated.fedcil_dp import binary_gradient, class_gradient

D, C = 5, 3


def size(head: Head) -> int:
    """Number of parameters P."""
    return len(head.initial(np.random.default_rng(0)))


def rows(copies: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.standard_normal((copies, n, D)), random.dirichlet(np.ones(C), (copies, n))


def loss(head: Head, params: np.ndarray, z: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    """One copy's, written anew from the layers' formulas: params [P], z [b, d]."""
    places, values = 0, z
    widths = [D, head.n_hidden, C] if head.n_hidden else [D, C]
    for layer, (n_in, n_out) in enumerate(pairwise(widths)):
        matrix = params[places : places + n_in * n_out].reshape(n_in, n_out)
        bias = params[places + n_in * n_out : places + (n_in + 1) * n_out]
        values = values @ matrix + bias
        places += (n_in + 1) * n_out
        if layer < len(widths) - 2:
            values = np.maximum(values, 0)
    probabilities = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    each = -(targets * np.log(probabilities)).sum(axis=1)
    return float(weights @ each)


@pytest.mark.parametrize("n_hidden", [0, 4])
def test_gradients_equal_finite_differences(n_hidden: int) -> None:
    head = Head(D, C, n_hidden)
    random = np.random.default_rng(1)
    z, targets = rows(2, 7)
    weights = random.uniform(0, 1, (2, 7))
    params = random.standard_normal((2, size(head)))
    found = head.gradients(params, z, targets, weights)
    for copy in range(2):
        for place in range(size(head)):
            step = np.zeros(size(head))
            step[place] = 1e-6
            up, down = (loss(head, params[copy] + s * step, z[copy], targets[copy], weights[copy]) for s in (1, -1))
            assert found[copy, place] == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_the_published_head_has_as_many_parameters_as_the_paper_s() -> None:
    assert size(Head(384, 4)) == 49_796
    assert size(Head(32, 4, 0)) == 132


def test_first_weights_lie_within_one_over_the_root_of_fan_in() -> None:
    first = Head(400, 10, 25).initial(np.random.default_rng(0))
    assert first.dtype == np.float32
    outer, inner = first[: 401 * 25], first[401 * 25 :]
    assert np.abs(outer).max() == pytest.approx(1 / 20, rel=0.01)
    assert np.abs(inner).max() == pytest.approx(1 / 5, rel=0.05)


def test_rows_that_copies_share_need_not_be_repeated() -> None:
    head = Head(D, C, 4)
    random = np.random.default_rng(2)
    params = random.standard_normal((3, 2, size(head))).astype(np.float32)
    z, targets = (each.astype(np.float32)[None] for each in rows(2, 6))
    weights = np.full((1, 2, 6), 1 / 6, dtype=np.float32)
    together = head.gradients(params, z, targets, weights)
    for copy in range(3):
        assert together[copy] == pytest.approx(head.gradients(params[copy], z[0], targets[0], weights[0]), abs=1e-6)
    assert head.logits(params, z[0, 0]).shape == (3, 2, 6, C)
    assert head.logits(params, z[0]).shape == (3, 2, 6, C)


def test_a_row_without_weight_or_target_moves_nothing() -> None:
    head = Head(D, C, 4)
    params = np.random.default_rng(3).standard_normal((1, size(head))).astype(np.float32)
    z, targets = (each.astype(np.float32) for each in rows(1, 4))
    targets[0, 0] = 0
    weights = np.array([[1, 0, 0, 0]], dtype=np.float32)
    assert not head.gradients(params, z, targets, weights).any()


def test_large_logits_stay_numbers() -> None:
    head = Head(D, C, 0)
    params = np.full((1, size(head)), 500.0, dtype=np.float32)
    z = np.full((1, 2, D), 30.0, dtype=np.float32)
    targets = np.full((1, 2, C), 1 / C, dtype=np.float32)
    assert np.isfinite(head.gradients(params, z, targets, np.ones((1, 2), dtype=np.float32))).all()


def test_copies_side_by_side_learn_what_each_would_alone() -> None:
    head = Head(D, C, 4)
    z, targets = (each.astype(np.float32) for each in rows(3, 20))
    start = np.stack([head.initial(np.random.default_rng(seed)) for seed in range(3)])
    together = train_copies(head, start, z, targets, 30, 8, 0.01, np.random.default_rng(4))
    for copy in range(3):
        own = slice(copy, copy + 1)
        alone = train_copies(head, start[own], z[own], targets[own], 30, 8, 0.01, np.random.default_rng(4))
        assert together[own] == pytest.approx(alone, abs=1e-5)


def test_one_step_is_adam_s_first() -> None:
    """Every weight moves by the learning rate against the sign of its gradient, but for the stabiliser."""
    head = Head(D, C, 0)
    z, targets = (each.astype(np.float32) for each in rows(1, 10))
    start = head.initial(np.random.default_rng(5))[None]
    gradient = head.gradients(start, z, targets, np.full((1, 10), 0.1, dtype=np.float32))
    found = train_copies(head, start, z, targets, 1, 10, 0.01, np.random.default_rng(6))
    assert found == pytest.approx(start - 0.01 * gradient / (np.abs(gradient) + 1e-8), abs=1e-6)


def test_a_head_learns_what_can_be_learned() -> None:
    random = np.random.default_rng(7)
    labels = random.integers(0, C, 300)
    z = (np.eye(C, D)[labels] * 3 + random.standard_normal((300, D))).astype(np.float32)
    head = Head(D, C, 16)
    start = head.initial(random)[None]
    found = train_copies(head, start, z[None, :200], np.eye(C, dtype=np.float32)[labels[None, :200]], 200, 32, 0.01, random)
    right = head.logits(found, z[200:])[0].argmax(axis=1) == labels[200:]
    assert right.mean() > 0.85


def test_each_row_comes_once_before_any_comes_again() -> None:
    order = cycled(7, 20, np.random.default_rng(8))
    assert sorted(order[:7]) == sorted(order[7:14]) == list(range(7))
    assert len(order) == 20
    assert len(set(order[14:])) == 6


def test_a_training_that_diverges_says_so() -> None:
    head = Head(D, C, 4)
    z, targets = (each.astype(np.float32) for each in rows(1, 10))
    start = head.initial(np.random.default_rng(9))[None]
    with pytest.raises(Diverged, match=r"diverged at step 1 of 5 with params\.learning_rate = 10000"):
        train_copies(head, start, z, targets, 5, 4, 1e4, np.random.default_rng(10))
    with pytest.raises(Diverged):
        train_copies(head, start * math.nan, z, targets, 5, 4, 0.01, np.random.default_rng(10))


# Slopes through two layers against finite differences, copies side by side against one at a time.


NET = Head(5, 3, 7)


def loss_of_copies(params: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
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
        found = (loss_of_copies(params + moved, x, labels) - loss_of_copies(params - moved, x, labels)) / (2 * step)
        assert in_params[place] == pytest.approx(found, abs=1e-4)
    for row, column in ((0, 0), (1, 3), (3, 4)):
        moved = np.zeros_like(x, dtype=np.float64)
        moved[row, column] = step
        found = (loss_of_copies(params, x + moved, labels) - loss_of_copies(params, x - moved, labels)) / (2 * step)
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
