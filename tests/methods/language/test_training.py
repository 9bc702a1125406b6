"""Steps on adapters: a loop by hand, penalties after the noise, empty batches, passes, divergence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.dpsgd import ROUNDING, Schedule
from dpcl_core.methods.language.gradients import Batch, Gradients, batch_of
from dpcl_core.methods.language.training import Descent, plain_steps, private_steps, task_loss
from dpcl_core.privacy.noise import Batches, SeededNoise
from dpcl_core.spec import Cell
from tests.methods.language import tiny

PLAN = Schedule(sample_rate=0.5, n_steps=6, clip_norm=0.4, learning_rate=0.05, expected_batch=4.0)
CELL = Cell(1.0, 0)


class Drawn:
    """Batches as given."""

    def __init__(self, *rows: list[int]) -> None:
        self._rows = iter(rows)

    def draw(self, n_records: int) -> NDArray[np.int64]:
        return np.array(next(self._rows), np.int64)


def weights(net: tiny.Adapted) -> Tensor:
    return tiny.row([parameter.detach() for parameter in net.trainable().values()]).clone()


def trained(multiplier: float, batches: object, plan: Schedule = PLAN, **options: object) -> Tensor:
    net = tiny.adapted()
    steps = private_steps(
        net,
        tiny.texts(),
        plan,
        multiplier,
        batches,
        SeededNoise(CELL, "x"),
        task_loss("answer"),
        device="cpu",
        **options,  # type: ignore[arg-type]
    )
    assert list(steps) == list(range(1, plan.n_steps + 1))
    return weights(net)


def by_hand(multiplier: float, rows: list[list[int]], plan: Schedule = PLAN) -> Tensor:
    """DP-SGD with torch's AdamW along torch's cosine."""
    net, noise = tiny.adapted(), SeededNoise(CELL, "x")
    parameters = list(net.trainable().values())
    adam = torch.optim.AdamW(parameters, lr=plan.learning_rate)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, plan.n_steps)
    for chosen in rows:
        total = torch.zeros_like(weights(net))
        for row in chosen:
            alone = batch_of(tiny.texts(), np.array([row]), "cpu")
            own = tiny.row(Gradients(net, math.inf).of(alone, task_loss("answer")))
            total += own * min(1.0, plan.clip_norm / (float(own.norm()) + 1e-6)) if multiplier > 0 else own
        mean = total / plan.expected_batch
        if multiplier > 0:
            std = multiplier * plan.clip_norm * (1 + ROUNDING) / plan.expected_batch
            mean = torch.from_numpy(noise.added(mean.numpy(), std))
        pieces = mean.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
        adam.step()
        cosine.step()
    return weights(net)


@pytest.mark.parametrize("multiplier", [0.0, 1.3])
def test_private_steps_equal_a_loop_by_hand(multiplier: float) -> None:
    rows = [[0, 3, 5], [1], [], [2, 6, 7, 0], [4, 1], [3]]
    found, expected = trained(multiplier, Drawn(*rows)), by_hand(multiplier, rows)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_an_empty_batch_takes_a_step_of_noise_and_none_takes_none() -> None:
    nobody = [[]] * PLAN.n_steps
    plan = Schedule(0.5, PLAN.n_steps, 0.4, 0.05, 4.0)
    start = weights(tiny.adapted())
    assert float((trained(1.3, Drawn(*nobody), plan) - start).abs().max()) > 0.01
    moved = trained(0.0, Drawn(*nobody), plan)  # weight decay alone
    torch.testing.assert_close(moved, start, rtol=0.01, atol=0)


def test_a_penalty_joins_after_the_noise_and_is_not_clipped() -> None:
    """Check 21: with no data and no noise, steps are those along the penalty's gradient, exactly."""
    parameters_of: list[tiny.Adapted] = []

    def run(private: bool) -> Tensor:
        net = tiny.adapted()
        parameters = list(net.trainable().values())

        def penalty() -> Tensor:
            return 1000 * torch.stack([(parameter - 0.3).square().sum() for parameter in parameters]).sum()

        if private:
            none = Drawn(*[[]] * PLAN.n_steps)
            nothing = SeededNoise(CELL, "x")
            loss = task_loss("answer")
            list(private_steps(net, tiny.texts(), PLAN, 0.0, none, nothing, loss, device="cpu", penalty=penalty))  # type: ignore[arg-type]
        else:
            descent = Descent(parameters, PLAN)
            for _ in range(PLAN.n_steps):
                descent.step([2000 * (parameter.detach() - 0.3) for parameter in parameters])
        parameters_of.append(net)
        return weights(net)

    torch.testing.assert_close(run(True), run(False), rtol=0, atol=1e-12)


def test_a_penalty_adds_to_the_noisy_mean_as_it_is() -> None:
    """A single plain step tells: the difference that a penalty makes to the gradient is its own, however large."""
    seen: list[Tensor] = []

    class Watched(Descent):
        def step(self, means, penalty=None):  # type: ignore[no-untyped-def]
            super().step(means, penalty)
            seen.append(tiny.row([parameter.grad for parameter in self._parameters]))  # type: ignore[misc]

    patched = pytest.MonkeyPatch()
    patched.setattr("dpcl_core.methods.language.training.Descent", Watched)
    plan, rows = Schedule(0.5, 1, 0.4, 0.05, 4.0), [0, 1, 2]
    trained(1.3, Drawn(rows), plan)
    net = tiny.adapted()
    parameters = list(net.trainable().values())

    def penalty() -> Tensor:
        return 500 * torch.stack([parameter.square().sum() for parameter in parameters]).sum()

    start, noise = weights(net), SeededNoise(CELL, "x")
    list(private_steps(net, tiny.texts(), plan, 1.3, Drawn(rows), noise, task_loss("answer"), device="cpu", penalty=penalty))  # type: ignore[arg-type]
    patched.undo()
    torch.testing.assert_close(seen[1] - seen[0], 1000 * start, rtol=0, atol=1e-9)


def test_poisson_batches_of_a_release_differ_and_seeded_ones_repeat() -> None:
    assert not torch.equal(trained(1.3, Batches(0.5, None)), trained(1.3, Batches(0.5, None)))
    torch.testing.assert_close(trained(1.3, Batches(0.5, 1)), trained(1.3, Batches(0.5, 1)), rtol=0, atol=0)


def test_plain_steps_make_whole_passes() -> None:
    """Every text once in a pass, the rest of a pass in a smaller batch, epochs counted, and no more steps than asked for."""
    seen: list[tuple[int, list[int]]] = []

    def reading(embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        seen.append((epoch, batch.rows.tolist()))
        return embeddings

    plan, net = Schedule(1.0, 7, math.inf, 0.01, 3.0), tiny.adapted()
    order = np.random.default_rng(0)
    steps = plain_steps(net, tiny.texts(), plan, 3, order, task_loss("answer"), device="cpu", reading=reading)
    assert list(steps) == list(range(1, 8))
    assert [epoch for epoch, _ in seen] == [0, 0, 0, 1, 1, 1, 2]
    assert [len(rows) for _, rows in seen] == [3, 3, 2, 3, 3, 2, 3]
    assert sorted(seen[0][1] + seen[1][1] + seen[2][1]) == list(range(len(tiny.STRINGS)))
    assert seen[0][1] != seen[3][1]


def test_no_texts_no_plain_steps() -> None:
    none = tiny.prompted(tiny.Letters(), tiny.encoded(()), np.zeros(0, np.int64), tiny.CLASSES, "pets")  # type: ignore[arg-type]
    order = np.random.default_rng(0)
    assert not list(plain_steps(tiny.adapted(), none, PLAN, 3, order, task_loss("answer"), device="cpu"))


def test_a_training_that_diverged_stops_with_step_and_learning_rate() -> None:
    plan = Schedule(0.5, 6, 0.4, 5000.0, 4.0)
    with pytest.raises(Diverged, match=r"step 1 of 6 with params\.learning_rate = 5000"):
        trained(1.3, Batches(0.5, 1), plan)


def test_training_learns() -> None:
    """The likeliest answers become those of the texts that were trained on."""
    net = tiny.adapted(rank=8)
    plan = Schedule(1.0, 60, math.inf, 0.05, 8.0)
    texts = tiny.texts()
    batch = batch_of(texts, np.arange(len(texts)), "cpu")
    with torch.no_grad():
        before = float(task_loss("answer").of(tiny.log_probs(net, batch), batch).mean())
    list(plain_steps(net, texts, plan, 8, np.random.default_rng(0), task_loss("answer"), device="cpu"))
    with torch.no_grad():
        after = float(task_loss("answer").of(tiny.log_probs(net, batch), batch).mean())
    assert after < 0.5 * before
