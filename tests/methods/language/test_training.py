"""Steps on adapters: a loop by hand, penalties after the noise, empty batches, passes, divergence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcl_core.backbones import causal
from dpcl_core.data.texts import PADDING
from dpcl_core.errors import Diverged
from dpcl_core.methods.common.dpsgd import ROUNDING, Schedule
from dpcl_core.methods.language import evaluation, training
from dpcl_core.methods.language.gradients import Batch, Forks, Gradients, batch_of, log_probs
from dpcl_core.methods.language.public_text import Prompted, answer_ids, prompted, template
from dpcl_core.methods.language.training import Descent, plain_steps, private_steps, task_loss
from dpcl_core.privacy.noise import Batches, SeededNoise
from dpcl_core.spec import Cell
from tests.backbones import language_models
from tests.methods.language import tiny

PLAN = Schedule(sample_rate=0.5, n_steps=6, clip_norm=0.4, learning_rate=0.05, expected_batch=4.0)
CELL = Cell(1.0, 0)


class Drawn:
    """Batches as given."""

    def __init__(self, *rows: list[int]) -> None:
        self._rows = iter(rows)

    def draw(self, n_records: int) -> NDArray[np.int64]:
        return np.array(next(self._rows), np.int64)


def trained(
    multiplier: float, batches: object, plan: Schedule = PLAN, penalty_of: Callable[[tiny.Adapted], Tensor] | None = None
) -> Tensor:
    net, noise, loss = tiny.adapted(), SeededNoise(CELL, "x"), task_loss("answer")
    penalty = None if penalty_of is None else lambda: penalty_of(net)
    steps = private_steps(net, tiny.texts(), plan, multiplier, batches, noise, loss, device="cpu", penalty=penalty)
    assert list(steps) == list(range(1, plan.n_steps + 1))
    return tiny.weights(net)


def by_hand(multiplier: float, rows: list[list[int]], plan: Schedule = PLAN) -> Tensor:
    """DP-SGD with torch's AdamW along torch's cosine."""
    net, noise = tiny.adapted(), SeededNoise(CELL, "x")
    parameters = list(net.trainable().values())
    adam = torch.optim.AdamW(parameters, lr=plan.learning_rate)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, plan.n_steps)
    for chosen in rows:
        total = torch.zeros_like(tiny.weights(net))
        for row in chosen:
            own = tiny.row(Gradients(net, math.inf).of(tiny.batch(np.array([row])), task_loss("answer")))
            total += own * min(1.0, plan.clip_norm / (float(own.norm()) + 1e-6)) if multiplier > 0 else own
        mean = total / plan.expected_batch
        if multiplier > 0:
            std = multiplier * plan.clip_norm * (1 + ROUNDING) / plan.expected_batch
            mean = torch.from_numpy(noise.added(mean.numpy(), std))
        for parameter, piece in zip(parameters, mean.split([one.numel() for one in parameters]), strict=True):
            parameter.grad = piece.view_as(parameter)
        adam.step()
        cosine.step()
    return tiny.weights(net)


@pytest.mark.parametrize("multiplier", [0.0, 1.3])
def test_private_steps_equal_a_loop_by_hand(multiplier: float) -> None:
    rows = [[0, 3, 5], [1], [], [2, 6, 7, 0], [4, 1], [3]]
    found, expected = trained(multiplier, Drawn(*rows)), by_hand(multiplier, rows)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_an_empty_batch_takes_a_step_of_noise_and_none_takes_none() -> None:
    nobody = [[]] * PLAN.n_steps
    start = tiny.weights(tiny.adapted())
    assert float((trained(1.3, Drawn(*nobody)) - start).abs().max()) > 0.01
    moved = trained(0.0, Drawn(*nobody))  # weight decay alone
    torch.testing.assert_close(moved, start, rtol=0.01, atol=0)


def test_a_penalty_joins_after_the_noise_and_is_not_clipped() -> None:
    """Check 21: with no data and no noise, steps are those along the penalty's gradient, exactly."""
    found = trained(0.0, Drawn(*[[]] * PLAN.n_steps), penalty_of=lambda net: 1000 * (trainable(net) - 0.3).square().sum())
    net = tiny.adapted()
    descent = Descent(list(net.trainable().values()), PLAN)
    for _ in range(PLAN.n_steps):
        descent.step([2000 * (parameter.detach() - 0.3) for parameter in net.trainable().values()])
    torch.testing.assert_close(found, tiny.weights(net), rtol=0, atol=1e-12)


def trainable(net: tiny.Adapted) -> Tensor:
    return tiny.row(list(net.trainable().values()))


def test_a_penalty_adds_to_the_noisy_mean_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single plain step tells: the difference that a penalty makes to the gradient is its own, however large."""
    seen: list[Tensor] = []

    class Watched(Descent):
        def step(self, means, penalty=None):  # type: ignore[no-untyped-def]
            super().step(means, penalty)
            seen.append(tiny.row([parameter.grad for parameter in self._parameters]))  # type: ignore[misc]

    monkeypatch.setattr(training, "Descent", Watched)
    for penalty_of in (None, lambda net: 500 * trainable(net).square().sum()):
        trained(1.3, Drawn([0, 1, 2]), replace(PLAN, n_steps=1), penalty_of)
    torch.testing.assert_close(seen[1] - seen[0], 1000 * tiny.weights(tiny.adapted()), rtol=0, atol=1e-9)


def test_poisson_batches_of_a_release_differ_and_seeded_ones_repeat() -> None:
    assert not torch.equal(trained(1.3, Batches(0.5, None)), trained(1.3, Batches(0.5, None)))
    torch.testing.assert_close(trained(1.3, Batches(0.5, 1)), trained(1.3, Batches(0.5, 1)), rtol=0, atol=0)


def test_plain_steps_make_whole_passes() -> None:
    """Every text once in a pass, the rest of a pass in a smaller batch, epochs counted, and no more steps than asked for."""
    seen: list[tuple[int, list[int]]] = []

    def reading(embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        seen.append((epoch, batch.rows.tolist()))
        return embeddings

    plan, order, loss = Schedule(1.0, 7, math.inf, 0.01, 3.0), np.random.default_rng(0), task_loss("answer")
    steps = plain_steps(tiny.adapted(), tiny.texts(), plan, 3, order, loss, device="cpu", reading=reading)
    assert list(steps) == list(range(1, 8))
    assert [epoch for epoch, _ in seen] == [0, 0, 0, 1, 1, 1, 2]
    assert [len(rows) for _, rows in seen] == [3, 3, 2, 3, 3, 2, 3]
    assert sorted(seen[0][1] + seen[1][1] + seen[2][1]) == list(range(len(tiny.STRINGS)))
    assert seen[0][1] != seen[3][1]


def test_no_texts_no_plain_steps() -> None:
    none, order = tiny.texts(strings=()), np.random.default_rng(0)
    assert not list(plain_steps(tiny.adapted(), none, PLAN, 3, order, task_loss("answer"), device="cpu"))


def test_a_training_that_diverged_stops_with_step_and_learning_rate() -> None:
    with pytest.raises(Diverged, match=r"step 1 of 6 with params\.learning_rate = 5000"):
        trained(1.3, Batches(0.5, 1), replace(PLAN, learning_rate=5000.0))


def test_training_learns() -> None:
    """The likeliest answers become those of the texts that were trained on."""
    net, plan, batch, loss = tiny.adapted(rank=8), Schedule(1.0, 60, math.inf, 0.05, 8.0), tiny.batch(), task_loss("answer")
    before = loss.of(log_probs(net, batch), batch).mean().item()
    list(plain_steps(net, tiny.texts(), plan, 8, np.random.default_rng(0), loss, device="cpu"))
    assert loss.of(log_probs(net, batch), batch).mean().item() < 0.5 * before


# A label as a choice among labels: against every label read whole, with priors and names that begin alike.


CLASSES = ("very bad", "bad", "very good", "mixed")
NAME, LETTERS = "pets", tiny.Letters()
NAMES = [answer_ids(tiny.Letters(), name) for name in CLASSES]  # type: ignore[arg-type]
N = len(tiny.STRINGS)
FIRST, AFTER_VERY = 2, 3  # the two forks of these names; another task's is before them


def forks() -> Forks:
    found = Forks()
    found.add("other", {0: [5, 6], 1: [7, 6]})
    found.add(NAME, dict(enumerate(NAMES)))
    return found


def texts_of(labels: NDArray[np.int64], own: Forks) -> Prompted:
    return prompted(tiny.Letters(), tiny.encoded(tiny.STRINGS), labels, CLASSES, NAME, own.answers(NAME))  # type: ignore[arg-type]


def scores(net: tiny.Adapted, own: Forks, classes: tuple[str, ...] = CLASSES) -> NDArray[np.float32]:
    return evaluation.choice_scores(net, LETTERS, tiny.encoded(tiny.STRINGS), own, classes, NAME, device="cpu")


def one_by_one(net: tiny.Adapted, string: str, prior: dict[tuple[int, ...], NDArray[np.float64]]) -> list[float]:
    """Each label's log-likelihood: at every token of its name, among all tokens that continue some name from there."""
    ids = [LETTERS.bos, *LETTERS.encode(string)[0][:16], *LETTERS.encode(template(NAME))[0]]
    found = []
    for name in NAMES:
        total = 0.0
        for place, token in enumerate(name):
            path = tuple(name[:place])
            following = sorted({other[place] for other in NAMES if tuple(other[:place]) == path and len(other) > place})
            with torch.no_grad():
                logits = net.model(input_ids=torch.tensor([ids + name[:place]])).logits[0, -1, following].numpy()
            logits = logits - prior.get(path, np.zeros(len(following)))
            chances = np.exp(logits - logits.max())
            total += float(np.log(chances / chances.sum())[following.index(token)])
        found.append(total)
    return found


@pytest.mark.parametrize("with_prior", [False, True])
def test_scores_equal_reading_every_name_token_by_token(with_prior: bool) -> None:
    net, own = tiny.adapted(), forks()
    prior = {tuple(NAMES[0][:1]): np.array([0.5, -2.0, 1.0]), tuple(NAMES[0][:6]): np.array([-1.0, 3.0])}
    for fork, of_fork in zip((FIRST, AFTER_VERY), prior.values(), strict=True) if with_prior else ():
        own.set_prior(fork, of_fork)
    expected = [one_by_one(net, string, prior if with_prior else {}) for string in tiny.STRINGS]
    found = scores(net, own, (*CLASSES, "x"))
    np.testing.assert_allclose(found[:, :4], expected, rtol=0, atol=1e-4)
    assert np.isneginf(found[:, 4]).all()
    np.testing.assert_allclose(np.exp(found[:, :4]).sum(axis=1), 1, rtol=1e-5)


def test_the_loss_is_the_same_likelihood_as_the_score() -> None:
    net, own = tiny.adapted(), forks()
    own.set_prior(FIRST, np.array([0.5, -2.0, 1.0]))
    labels = np.arange(N) % len(CLASSES)
    batch, loss = batch_of(texts_of(labels, own), np.arange(N), "cpu"), task_loss("answer", own)
    with torch.no_grad():
        losses = loss.of(log_probs(net, batch, answers_only=True, forks=own), batch).numpy()
        everywhere = loss.of(log_probs(net, batch, forks=own), batch).numpy()
    np.testing.assert_allclose(-losses, scores(net, own)[np.arange(N), labels], rtol=0, atol=1e-4)
    np.testing.assert_allclose(everywhere, losses, rtol=0, atol=1e-10)


def test_a_prior_is_what_public_texts_get_from_the_frozen_model() -> None:
    """On the public texts themselves the mean difference between two labels that part at one fork is gone."""
    net, own = tiny.adapted(started=False), forks()
    before = scores(net, own)
    stirred = tiny.adapted()  # the adapters do not count
    evaluation.set_priors(stirred, [texts_of(np.full(N, label), own) for label in own.covering(NAME)], own, "cpu")
    after = scores(net, own)
    for one, other in ((0, 2), (1, 3)):
        gap = before[:, one] - before[:, other]
        np.testing.assert_allclose(after[:, one] - after[:, other], gap - gap.mean(), rtol=0, atol=1e-4)
        assert abs(gap.mean()) > 0.1


def test_answers_end_at_the_last_fork_and_few_labels_pass_all() -> None:
    own = forks()
    answers = own.answers(NAME)
    assert [len(answers[label][0]) for label in range(4)] == [7, 2, 7, 2]
    assert answers[0][1] == [0, FIRST, 0, 0, 0, 0, AFTER_VERY]
    assert set(own.covering(NAME)) in ({0}, {2})
    assert NAME in own
    assert "cats" not in own


# Scores of a torch model's tokens depend on their own text alone, to the last bit.


BOS = 0


@pytest.fixture(params=["lm-tiny", "gpt2", "llama"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> nn.Module:
    if request.param == "lm-tiny":
        return causal.load("lm-tiny")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_pretrained(language_models.put(tmp_path, request.param)).eval()


def drawn(n: int, length: int) -> NDArray[np.int64]:
    """Texts of random lengths, padded at the end."""
    draw = np.random.default_rng(0)
    tokens = draw.integers(2, language_models.SIZE, (n, length))
    for row, end in zip(tokens, draw.integers(1, length, n), strict=True):
        row[end:] = PADDING
    return tokens


def test_a_texts_scores_have_the_same_bits_whoever_is_beside_it(model: nn.Module) -> None:
    """They enter what a private text adds to a clipped sum: one text more or less must change no other's last digit."""
    tokens = drawn(30, 30)
    together = training.log_probabilities(model, tokens, BOS, "cpu")
    draw = np.random.default_rng(1)
    for n in (1, 7, 9, 29):
        some = draw.permutation(len(tokens))[:n]
        np.testing.assert_array_equal(training.log_probabilities(model, tokens[some], BOS, "cpu"), together[some])


def test_every_pass_has_one_shape_however_many_texts_there_are() -> None:
    """Kernels choose the order of their additions by it; on some processors small networks show no difference."""
    model, shapes = causal.load("lm-tiny"), set()
    with model.register_forward_pre_hook(lambda _, __, given: shapes.add(given["input_ids"].shape), with_kwargs=True):
        for n in (1, 8, 30):
            training.log_probabilities(model, drawn(n, 30), BOS, "cpu")
    assert len(shapes) == 1


def test_a_single_public_text_is_read_alone_with_the_same_result(model: nn.Module) -> None:
    """Up to single precision: a pass of another shape adds in another order."""
    tokens = drawn(9, 30)
    filled = training.log_probabilities(model, tokens, BOS, "cpu")
    alone = training.log_probabilities(model, tokens, BOS, "cpu", is_filled=False)
    np.testing.assert_allclose(alone, filled, atol=1e-5, rtol=1e-6)
    assert (filled[tokens != PADDING] < 0).all()
    assert not filled[tokens == PADDING].any()
