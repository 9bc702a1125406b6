"""Classifiers trained on sums: against autograd, against loops over examples, and where they lead."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dpcl_core import checks
from dpcl_core.errors import BadInput
from dpcl_core.methods.lifelong import nets, quadratic
from dpcl_core.methods.lifelong.params import Projection
from dpcl_core.methods.lifelong.quadratic import Memory, Quadratic, RandomProjection, RandomRelu
from dpcl_core.privacy.mechanisms import Coefficients

N_CLASSES, SIZE = 3, 4
ALL = (0, 1, 2)


def examples(seed: int = 0, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((n, SIZE))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.eye(N_CLASSES)[generator.integers(0, N_CLASSES, n)]


def sums(rows: np.ndarray, targets: np.ndarray) -> Coefficients:
    return Coefficients(rows.sum(axis=0)[None], (rows.T @ rows)[None], (targets.T @ rows)[None])


def loss_of(seed: int = 0, classes: tuple[int, ...] = ALL) -> Quadratic:
    rows, targets = examples(seed)
    return quadratic.of_task(sums(rows, targets), len(rows), classes, np.float64)


def start(seed: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, N_CLASSES, SIZE))


def test_the_gradient_is_that_of_the_second_order_loss_by_autograd() -> None:
    rows, targets = (torch.from_numpy(part) for part in examples())
    weights = torch.from_numpy(start()[0]).requires_grad_()
    z = rows @ weights.T
    (z / 2 + z**2 / 8 - targets * z).sum(dim=1).mean().backward()  # type: ignore[no-untyped-call]
    assert weights.grad is not None
    np.testing.assert_allclose(loss_of().gradient(start())[0], weights.grad.numpy(), atol=1e-12)


def test_classes_of_other_tasks_are_not_touched() -> None:
    gradient = loss_of(classes=(0, 2)).gradient(start())
    np.testing.assert_array_equal(gradient[:, 1], 0)
    np.testing.assert_array_equal(gradient[:, [0, 2]], loss_of().gradient(start())[:, [0, 2]])


@pytest.mark.parametrize("when", ["if-violated", "always", "never"])
def test_the_projection_is_that_of_networks_budget_by_budget(when: Projection) -> None:
    generator = np.random.default_rng(1)
    grads, refs = generator.standard_normal((2, 40, N_CLASSES, SIZE))
    refs[0] = 0
    found = quadratic.projected(grads, refs, when)
    for own, ref, got in zip(grads, refs, found, strict=True):
        expected = nets.project(torch.from_numpy(own.ravel()), torch.from_numpy(ref.ravel()), when)
        np.testing.assert_allclose(got.ravel(), expected.numpy(), atol=1e-12)
    np.testing.assert_array_equal(found[0], grads[0])


def test_steps_are_those_of_a_loop_over_examples_and_stored_tasks() -> None:
    """Three tasks of descent written anew, on the examples themselves, with the mean of the stored tasks as reference."""
    weights, memory = np.zeros((1, N_CLASSES, SIZE)), Memory()
    plain, stored = np.zeros((N_CLASSES, SIZE)), []

    def gradient(data: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        rows, targets = data
        return sum(np.outer(0.5 + plain @ row / 4 - target, row) for row, target in zip(rows, targets, strict=True)) / len(
            rows
        )

    n_projected = 0
    for seed in range(3):
        task = loss_of(seed)
        *_, weights = quadratic.steps(weights, task, memory, 15, 3.0, "if-violated")
        memory.keep(task)
        for _ in range(15):
            step = gradient(examples(seed))
            if stored:
                ref = np.mean([gradient(data) for data in stored], axis=0)
                if (step * ref).sum() < 0:
                    step, n_projected = step - (step * ref).sum() / (ref * ref).sum() * ref, n_projected + 1
            plain = plain - 3.0 * step
        stored.append(examples(seed))
    np.testing.assert_allclose(weights[0], plain, atol=1e-10)
    assert n_projected > 3
    assert memory.n_tasks == 3
    assert len(memory.groups) == 1, "tasks of the same classes are one sum"


def test_directions_of_negative_curvature_are_flattened_and_others_kept() -> None:
    generator = np.random.default_rng(2)
    noisy = generator.standard_normal((5, SIZE, SIZE))
    noisy = noisy + noisy.transpose(0, 2, 1)
    task = quadratic.of_task(Coefficients(np.zeros((5, SIZE)), noisy, np.zeros((5, N_CLASSES, SIZE))), 2.0, ALL, np.float64)
    for before, after in zip(noisy / 2, task.products, strict=True):
        values = np.linalg.eigvalsh(before)
        assert values.min() < -0.1
        np.testing.assert_allclose(np.linalg.eigvalsh(after), np.maximum(values, 0), atol=1e-12)
        np.testing.assert_allclose(after @ after, after @ before, atol=1e-12)


def test_descent_never_diverges_however_steep_the_noise_makes_the_loss() -> None:
    generator = np.random.default_rng(3)
    features, steep = 1e6 * generator.standard_normal((2, SIZE)), 1e6 * generator.standard_normal((2, SIZE, SIZE))
    drawn = Coefficients(features, steep + steep.transpose(0, 2, 1), generator.standard_normal((2, N_CLASSES, SIZE)))
    task = quadratic.of_task(drawn, 1.0, ALL)
    *_, weights = quadratic.steps(np.zeros((2, N_CLASSES, SIZE), np.float32), task, Memory(), 500, 100.0, "never")
    assert np.isfinite(weights).all()


def test_the_exact_solution_has_no_gradient_left_but_the_ridge() -> None:
    """Of three tasks, of which two share two classes: each class over the tasks that train it."""
    memory = Memory()
    tasks = [loss_of(0, (0, 1)), loss_of(1, (0, 1)), loss_of(2, (1, 2))]
    for task in tasks:
        memory.keep(task)
    found = quadratic.solved(start(), memory, [0.0])
    for label, own in ((0, tasks[:2]), (1, tasks), (2, tasks[2:])):
        left = sum(task.gradient(found)[0, label] for task in own) + 1e-4 * len(own) * found[0, label] / 4
        np.testing.assert_allclose(left, 0, atol=1e-10)
    untouched = Memory()
    untouched.keep(tasks[0])
    np.testing.assert_array_equal(quadratic.solved(start(), untouched, [0.0])[:, 2], start()[:, 2])


def test_the_ridge_is_the_largest_eigenvalue_that_noise_alone_has() -> None:
    """A symmetric matrix of the mechanism's noise: its largest eigenvalue lies near sqrt(2 K), which the ridge counts on."""
    generator, size = np.random.default_rng(4), 300
    noise = np.triu(generator.standard_normal((size, size)) / math.sqrt(2), 1)
    noise += noise.T + np.diag(generator.standard_normal(size))
    assert np.linalg.eigvalsh(noise)[-1] == pytest.approx(math.sqrt(2 * size), rel=0.05)


def test_public_features_depend_on_the_seed_alone_and_are_of_the_size_announced() -> None:
    inputs = np.random.default_rng(5).uniform(0, 1, (300, 50)).astype(np.float32)
    features = RandomRelu(50, 20, seed=1).of(inputs)
    assert features.shape == (300, 20)
    assert (features >= 0).all()
    np.testing.assert_array_equal(features, RandomRelu(50, 20, seed=1).of(inputs))
    assert not np.array_equal(features, RandomRelu(50, 20, seed=2).of(inputs))
    for size in (4, 50):
        norms = [np.abs(RandomProjection(50, size, seed).of(inputs[:1])).sum() for seed in range(400)]
        assert float(np.mean(norms)) == pytest.approx(1.0, abs=5 * float(np.std(norms)) / 20)
    one = RandomProjection(50, 4, 0)
    np.testing.assert_allclose(one.of(3 * inputs + 7), one.of(inputs), atol=1e-6)


@pytest.mark.parametrize("map_of", [RandomRelu, RandomProjection])
def test_public_features_of_a_row_do_not_depend_on_the_rows_beside_it(map_of: type[RandomRelu | RandomProjection]) -> None:
    public = map_of(700, 33, 1)
    rows = np.random.default_rng(6).standard_normal((501, 700))  # more than two blocks
    together = public.of(rows)
    for place in (0, 1, 186, 187, 188, 255, 256, 500):
        np.testing.assert_array_equal(public.of(np.delete(rows, place, axis=0)), np.delete(together, place, axis=0))
        np.testing.assert_array_equal(public.of(np.asfortranarray(rows)[place : place + 1])[0], together[place])


def test_settings_say_what_is_allowed() -> None:
    for key, value in (("steps", 0), ("learning_rate", 0), ("features", 0), ("solution", "none")):
        with pytest.raises(BadInput, match=rf"params\.{key}"):
            checks.parse({"method": "dp-coeff-memory", "params": {key: value}})
