"""Losses: the printed weights by autograd, what one step does to a sensitive token, and where a term ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.gradients import Batch, batch_of, log_probs
from dpcl_core.methods.language.params import UnlearningForm
from dpcl_core.methods.language.public_text import ANSWER, TEMPLATE, TEXT
from dpcl_core.methods.language.training import Unlearning, pecl_loss, task_loss
from tests.methods.language import tiny

ALL = np.arange(len(tiny.STRINGS))
BOUNDED: tuple[UnlearningForm, ...] = ("mask", "unlikelihood", "npo", "hinge")


def batch() -> Batch:
    return batch_of(tiny.texts(), ALL, "cpu")


def drawn(given: Batch, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities that ask for gradients, scores in [0, 1] on texts, and a reference."""
    generator = torch.Generator().manual_seed(seed)
    likely = -3 * torch.rand(given.ids.shape, generator=generator, dtype=torch.float64)
    scores = torch.rand(given.ids.shape, generator=generator, dtype=torch.float64) * (given.role == TEXT)
    reference = -3 * torch.rand(given.ids.shape, generator=generator, dtype=torch.float64)
    return likely.requires_grad_(True), scores, reference


def slopes_of(loss: str, unlearning: Unlearning, seed: int = 0) -> tuple[Tensor, Tensor, Batch]:
    """What the total loss grows by with each token's cross-entropy, by autograd, and the scores."""
    given = batch()
    likely, scores, reference = drawn(given, seed)
    total = pecl_loss(likely, given, loss, unlearning, scores, reference).sum()  # type: ignore[arg-type]
    (found,) = torch.autograd.grad(total, likely)
    return -found, scores, given


@pytest.mark.parametrize("strength", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("loss", ["full", "answer"])
def test_published_weights_are_those_of_the_card(loss: str, sign: int, strength: float) -> None:
    """Check 9: (1 + lambda (s - theta)+) / M for full, lambda (s - theta)+ / M on the text for answer."""
    found, scores, given = slopes_of(loss, Unlearning("printed" if sign > 0 else "flipped", strength, 0.6))
    length = given.mask[:, 1:].sum(1, keepdim=True)
    extra = sign * strength * (scores - 0.6).clamp(min=0) / length
    is_text, is_answer = given.role == TEXT, given.role == ANSWER
    of_task = (given.mask & (torch.arange(given.ids.shape[1]) > 0)) / length
    if loss == "answer":
        of_task = is_answer / is_answer.sum(1, keepdim=True)
    torch.testing.assert_close(found, of_task + extra * is_text, rtol=0, atol=1e-15)


@pytest.mark.parametrize("loss", ["full", "answer"])
@pytest.mark.parametrize("form", ["printed", "flipped", "mask", "hinge"])
def test_weights_equal_those_that_pages_show(form: UnlearningForm, loss: str) -> None:
    given = batch()
    likely, scores, reference = drawn(given)
    unlearning = Unlearning(form, 2.0, 0.5, margin=0.7)
    total = pecl_loss(likely, given, loss, unlearning, scores, reference).sum()  # type: ignore[arg-type]
    found = -torch.autograd.grad(total, likely)[0] * given.mask[:, 1:].sum(1, keepdim=True)
    inside = (given.role == TEXT).numpy()
    shown = sensitivity.loss_weights(
        scores.numpy(),
        form,  # type: ignore[arg-type]
        loss,  # type: ignore[arg-type]
        strength=2.0,
        threshold=0.5,
        gap=(reference - likely).detach().numpy(),
        margin=0.7,
    )
    np.testing.assert_allclose(found.numpy()[inside], shown[inside], rtol=0, atol=2e-7)  # weights are single


def test_no_gradient_flows_through_the_scores() -> None:
    given = batch()
    likely, scores, reference = drawn(given)
    scores.requires_grad_(True)
    for form in ("printed", "hinge", "npo"):
        total = pecl_loss(likely, given, "full", Unlearning(form), scores, reference).sum()
        assert torch.autograd.grad(total, [likely, scores], allow_unused=True)[1] is None


@pytest.mark.parametrize("form", BOUNDED)
def test_bounded_forms_take_sensitive_tokens_out_of_the_task(form: UnlearningForm) -> None:
    """Without their own term nothing of them is left, and other tokens count as before."""
    without, scores, given = slopes_of("full", Unlearning(form, 0.0, 0.6))
    plain, _, _ = slopes_of("full", Unlearning("none"))
    is_sensitive = (given.role == TEXT) & (scores > 0.6)
    assert is_sensitive.any()
    assert not without[is_sensitive].any()
    torch.testing.assert_close(without[~is_sensitive], plain[~is_sensitive])


@pytest.mark.parametrize("loss", ["full", "answer"])
def test_the_loss_is_a_mean_inside_each_text(loss: str) -> None:
    """A text's loss does not depend on who is in the batch; only the text that answers is learned under answer."""
    net = tiny.adapted()
    of = task_loss(loss)  # type: ignore[arg-type]
    whole = of.of(log_probs(net, batch()), batch())
    for row in ALL:
        alone = batch_of(tiny.texts(), ALL[row : row + 1], "cpu")
        torch.testing.assert_close(of.of(log_probs(net, alone), alone)[0], whole[row], rtol=0, atol=1e-12)


def test_template_and_padding_have_no_part_in_unlearning() -> None:
    given = batch()
    likely, _, reference = drawn(given)
    everywhere = torch.ones_like(likely)
    total = pecl_loss(likely, given, "answer", Unlearning("printed"), everywhere, reference).sum()
    (found,) = torch.autograd.grad(total, likely)
    assert not found[(given.role == TEMPLATE) | ~given.mask].any()
    assert found[given.role == TEXT].all()


def step_on_one_token(form: UnlearningForm, margin: float, rate: float = 1e-3) -> tuple[float, float]:
    """How much log p of one sensitive token rises in a gradient step on its text, and the length of that step's gradient."""
    net = tiny.adapted()
    given = batch_of(tiny.texts(), np.array([1]), "cpu")
    with torch.no_grad():
        before = log_probs(net, given)
    scores = torch.zeros_like(before)
    place = 5
    scores[0, place] = 1.0
    parameters = list(net.trainable().values())
    total = pecl_loss(log_probs(net, given), given, "full", Unlearning(form, 5.0, 0.6, margin), scores, before).sum()
    slopes = torch.autograd.grad(total, parameters)
    with torch.no_grad():
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter -= rate * slope
        after = log_probs(net, given)
    return float(after[0, place] - before[0, place]), float(tiny.row(slopes).norm())


def test_one_step_with_each_term() -> None:
    """Check 10: printed raises log p more than no term does; the hinge lowers it while it is at work, and then stops."""
    without, printed = step_on_one_token("none", 0.0)[0], step_on_one_token("printed", 0.0)[0]
    assert printed > without > 0
    assert step_on_one_token("flipped", 0.0)[0] < without
    at_work, masked, done = (step_on_one_token("hinge", margin) for margin in (2.0, -1.0, -3.0))
    assert at_work[0] < 0
    assert masked == done == step_on_one_token("mask", 0.0)  # past the margin nothing of the term is left, to the last bit


@pytest.mark.parametrize("gap", [0.0, 0.4, 0.999, 1.001, 3.0])
def test_the_hinge_ends_exactly_at_its_margin(gap: float) -> None:
    """`gap`: how many nats less likely than the public model has it the token is."""
    given = batch()
    scores = (given.role == TEXT).double()
    reference = torch.full(given.ids.shape, -1.0, dtype=torch.float64)
    likely = (reference - gap).requires_grad_(True)
    term = Unlearning("hinge", 1.0, 0.6, margin=1.0)
    (found,) = torch.autograd.grad(pecl_loss(likely, given, "answer", term, scores, reference).sum(), likely)
    inside = found[given.role == TEXT]
    assert (inside > 0).all() if gap < 1 else not inside.any()


@pytest.mark.parametrize("p", [1e-6, 0.3, 0.9])
@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_bounded_terms_have_their_closed_slopes(p: float, beta: float) -> None:
    """Unlikelihood: p / (1 - p). NPO: 2 p^beta / (p^beta + p_ref^beta), never above 2."""
    given = batch()
    scores, p_ref = (given.role == TEXT).double(), 0.2
    reference = torch.full(given.ids.shape, math.log(p_ref), dtype=torch.float64)
    length = given.mask[:, 1:].sum(1, keepdim=True)
    for form, expected in (("unlikelihood", p / (1 - p)), ("npo", 2 * p**beta / (p**beta + p_ref**beta))):
        likely = torch.full(given.ids.shape, math.log(p), dtype=torch.float64, requires_grad=True)
        total = pecl_loss(likely, given, "answer", Unlearning(form, 1.0, 0.6, beta=beta), scores, reference).sum()  # type: ignore[arg-type]
        (found,) = torch.autograd.grad(total, likely)
        slopes = (found * length / 0.4)[given.role == TEXT]
        torch.testing.assert_close(slopes, torch.full_like(slopes, expected), rtol=1e-9, atol=0)
