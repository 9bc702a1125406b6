"""Clipped sums of adapters' gradients: against one backward pass per text, Opacus, neighbours, and bad numbers."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor

from dpcl_core.methods.language import gradients
from dpcl_core.methods.language.gradients import Batch, Gradients, TextLoss, batch_of, log_probs
from dpcl_core.methods.language.public_text import ANSWER
from dpcl_core.methods.language.training import task_loss
from tests.methods.language import tiny

ALL = np.arange(len(tiny.STRINGS))


def one_by_one(net: tiny.Adapted, batch: Batch, loss: TextLoss) -> list[Tensor]:
    """Gradients of each text alone, without padding, by autograd."""
    found = []
    for place in range(len(batch)):
        alone = batch_of(tiny.texts(), batch.rows[place : place + 1], "cpu")
        total = loss.of(log_probs(net, alone), alone).sum()
        found.append(tiny.row(torch.autograd.grad(total, list(net.trainable().values()))))
    return found


@pytest.mark.parametrize("kind", ["answer", "full"])
@pytest.mark.parametrize("at_once", [64, 3])
def test_sums_equal_one_backward_pass_per_text(kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "AT_ONCE", at_once)
    monkeypatch.setitem(gradients.SIDE_BY_SIDE, "cpu", at_once)
    net, batch, loss = tiny.adapted(), batch_of(tiny.texts(), ALL, "cpu"), task_loss(kind)  # type: ignore[arg-type]
    own = one_by_one(net, batch, loss)
    norms = torch.stack([gradient.norm() for gradient in own])
    clip = float(norms.median())
    assert 0 < int((norms > clip).sum()) < len(norms)
    expected = (torch.stack(own) * (clip / (norms + 1e-6)).clamp(max=1)[:, None]).sum(0)
    found = tiny.row(Gradients(net, clip).of(batch, loss))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * float(expected.norm()))
    plain = tiny.row(Gradients(net, math.inf).of(batch, loss))
    torch.testing.assert_close(plain, torch.stack(own).sum(0), rtol=0, atol=1e-11 * float(norms.sum()))


def test_texts_come_one_by_one_as_they_are_summed() -> None:
    net, batch, loss = tiny.adapted(), batch_of(tiny.texts(), ALL, "cpu"), task_loss("full")
    own = torch.stack(one_by_one(net, batch, loss))
    clip = float(own.norm(dim=1).median())
    found = torch.zeros_like(own, dtype=torch.float64)
    for rows, clipped in Gradients(net, clip).each(batch, loss):
        found[rows] = clipped
    expected = own * (clip / (own.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1)
    torch.testing.assert_close(found, expected.double(), rtol=0, atol=1e-12 * float(expected.norm()))


def test_sums_equal_opacus() -> None:
    """Per-text gradients by Opacus' hooks, with positions given for every text as its rules need them."""
    net, batch = tiny.adapted(), batch_of(tiny.texts(), ALL, "cpu")
    ours = tiny.row(Gradients(net, 0.3).of(batch, task_loss("full")))
    net = tiny.adapted()
    wrapped = GradSampleModule(net.model, loss_reduction="sum", strict=False)
    positions = torch.arange(batch.ids.shape[1]).expand(batch.ids.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logits = wrapped(inputs_embeds=net.embed(batch.ids), position_ids=positions, use_cache=False).logits
        steps = logits[:, :-1].log_softmax(-1).gather(2, batch.ids[:, 1:, None])[..., 0]
        padded = torch.nn.functional.pad(steps, (1, 0)) * batch.mask
        task_loss("full").of(padded, batch).sum().backward()  # type: ignore[no-untyped-call]
    own = torch.cat([parameter.grad_sample.flatten(1) for parameter in net.trainable().values()], dim=1)  # type: ignore[attr-defined]
    expected = (own * (0.3 / (own.norm(dim=1) + 1e-6)).clamp(max=1)[:, None]).sum(0)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_one_text_changes_the_sums_by_at_most_the_clipping_norm() -> None:
    net, loss = tiny.adapted(), task_loss("answer")
    found = Gradients(net, 0.2)
    whole = tiny.row(found.of(batch_of(tiny.texts(), ALL, "cpu"), loss))
    changes = [
        float((whole - tiny.row(found.of(batch_of(tiny.texts(), np.delete(ALL, row), "cpu"), loss))).norm()) for row in ALL
    ]
    assert max(changes) <= 0.2 + 1e-12
    assert max(changes) > 0.2 - 1e-4  # reached: no looser bound holds


def test_a_text_adds_the_same_bits_whoever_is_beside_it() -> None:
    """In single precision, with logits so large that a last digit would decide which token wins."""
    net = tiny.adapted(dtype=torch.float32)
    with torch.no_grad():
        for parameter in net.trainable().values():
            parameter.copy_(1000 * parameter.sign())
    found, loss = Gradients(net, 0.3), task_loss("full")
    whole = tiny.row(found.of(batch_of(tiny.texts(), ALL, "cpu"), loss)).double()
    alone = sum(tiny.row(found.of(batch_of(tiny.texts(), ALL[k : k + 1], "cpu"), loss)).double() for k in ALL)
    # What is summed is rounded to single precision once: half a step of 2^-23 of each entry, on both sides.
    torch.testing.assert_close(whole, alone, rtol=2.0**-22, atol=len(ALL) * 0.3 * 2.0**-23)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("clip", [0.5])
def test_text_whose_gradient_is_not_finite_counts_zero(broken: float, clip: float) -> None:
    net = tiny.adapted()

    def with_one_broken(log_probabilities: Tensor, batch: Batch) -> Tensor:
        losses = task_loss("answer").of(log_probabilities, batch)
        return losses * torch.where(torch.from_numpy(batch.rows == 2), broken, 1.0)

    found = Gradients(net, clip)
    whole = tiny.row(found.of(batch_of(tiny.texts(), ALL, "cpu"), TextLoss(with_one_broken)))
    expected = tiny.row(found.of(batch_of(tiny.texts(), np.delete(ALL, 2), "cpu"), task_loss("answer")))
    torch.testing.assert_close(whole, expected, rtol=0, atol=1e-13)
    alone = found.of(batch_of(tiny.texts(), ALL[2:3], "cpu"), TextLoss(with_one_broken))
    assert not tiny.row(alone).any()


@pytest.mark.parametrize("clip", [0.5, math.inf])
def test_nobody_in_the_batch_gives_zeros_for_every_weight(clip: float) -> None:
    net = tiny.adapted()
    found = Gradients(net, clip).of(batch_of(tiny.texts(), ALL[:0], "cpu"), task_loss("full"))
    assert [part.shape for part in found] == [parameter.shape for parameter in net.trainable().values()]
    assert not tiny.row(found).any()


def test_log_probabilities_equal_the_whole_tables_of_logits() -> None:
    net, batch = tiny.adapted(), batch_of(tiny.texts(), ALL, "cpu")
    with torch.no_grad():
        logits = net(net.embed(batch.ids), batch.mask)
        expected = logits[:, :-1].log_softmax(-1).gather(2, batch.ids[:, 1:, None])[..., 0] * batch.mask[:, 1:]
        found = log_probs(net, batch)
        answers = log_probs(net, batch, answers_only=True)
    torch.testing.assert_close(found[:, 1:], expected, rtol=0, atol=1e-12)
    assert not found[:, 0].any()
    torch.testing.assert_close(answers, found * (batch.role == ANSWER), rtol=0, atol=1e-12)
