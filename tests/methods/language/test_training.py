"""Steps on adapters: a loop by hand, penalties after noise, divergence, choices among labels, the baselines' pieces."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor, nn

from dpcl_core import errors, spec
from dpcl_core.backbones import causal, kept_states
from dpcl_core.data.texts import PADDING
from dpcl_core.methods.common.dpsgd import ROUNDING, Schedule
from dpcl_core.methods.language import evaluation, ewc, gem, olora, training
from dpcl_core.methods.language import gradients as of_texts
from dpcl_core.methods.language.adapted_model import TrainingInputs, join_texts
from dpcl_core.methods.language.gradients import Batch, Forks, Gradients, batch_of, log_probs
from dpcl_core.methods.language.public_text import ANSWER, PAD, TEXT, Prompted, answer_ids, prompted
from dpcl_core.methods.language.training import Descent, plain_steps, private_steps, task_loss
from dpcl_core.privacy.noise import Batches, SeededNoise
from tests.backbones import language_models
from tests.methods.language import tiny
from tests.methods.language.tiny import ALL
from tests.methods.training import Prescribed
from tests.support.watching import watched

PLAN = Schedule(sample_rate=0.5, n_steps=6, clip_norm=0.4, learning_rate=0.05, expected_batch=4.0)
CELL = spec.Cell(1.0, 0)


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
    found, expected = trained(multiplier, Prescribed(rows)), by_hand(multiplier, rows)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_a_penalty_joins_after_the_noise_and_is_not_clipped() -> None:
    """Check 21: with no data and no noise, steps are those along the penalty's gradient, exactly."""
    nobody = Prescribed([[]] * PLAN.n_steps)
    found = trained(0.0, nobody, penalty_of=lambda net: 1000 * (trainable(net) - 0.3).square().sum())
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

    def note(found: None, given: tuple[Any, ...]) -> None:
        seen.append(tiny.row([parameter.grad for parameter in given[0]._parameters]))

    watched(monkeypatch, Descent, "step", note)
    for penalty_of in (None, lambda net: 500 * trainable(net).square().sum()):
        trained(1.3, Prescribed([[0, 1, 2]]), replace(PLAN, n_steps=1), penalty_of)
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
    with pytest.raises(errors.Diverged, match=r"step 1 of 6 with params\.learning_rate = 5000"):
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
    found = []
    for name in NAMES:
        total = 0.0
        for place, token in enumerate(name):
            path = tuple(name[:place])
            following = sorted({other[place] for other in NAMES if tuple(other[:place]) == path and len(other) > place})
            logits = tiny.logits_behind(net, string, name[:place])[-1, following].numpy()
            chances = log_softmax(logits - prior.get(path, np.zeros(len(following))))
            total += float(chances[following.index(token)])
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


# The pieces of PeCL's baselines: replay, importance, turned gradients, stacked adapters, and what joins a step when.


NOISE = SeededNoise(spec.Cell(1.0, 0), "tests")
ANSWERS = [(name, [0] * len(name)) for name in [answer_ids(tiny.Letters(), name) for name in tiny.CLASSES]]


def likelihood_gradients(net: causal.Adapted, material: TrainingInputs) -> list[Tensor]:
    """Of -log P(answer | text), one backward pass a text."""
    batches = [batch_of(material.texts, ALL[place : place + 1], "cpu") for place in range(len(material))]
    totals = [-(log_probs(net, batch) * (batch.role == ANSWER)).sum() for batch in batches]
    return [tiny.row(torch.autograd.grad(total, list(net.trainable().values()))) for total in totals]


# Fisher information.


def test_without_noise_it_is_the_mean_square_of_every_texts_gradient() -> None:
    """Against one backward pass a text, with the same answers drawn."""
    net, material = tiny.adapted(), TrainingInputs(tiny.texts())
    own, same = (SeededNoise(spec.Cell(1.0, 0), "answers") for _ in range(2))
    drawn = ewc.sampled(net, material, ANSWERS, own, device="cpu")
    squares = torch.stack([gradient.square() for gradient in likelihood_gradients(net, drawn)])
    found = ewc.release_fisher(net, material, ANSWERS, 10.0, math.inf, 20.0, same, device="cpu")
    torch.testing.assert_close(tiny.row(found), squares.sum(0) / 10, rtol=1e-9, atol=1e-15)


def test_one_text_more_changes_the_sum_of_squares_by_at_most_the_clip_squared() -> None:
    net, material = tiny.adapted(), TrainingInputs(tiny.texts())
    norms = torch.stack([gradient.norm() for gradient in likelihood_gradients(net, material)])
    clip = float(norms.min()) / 2  # every text is clipped
    gradients = Gradients(net, clip)
    whole = tiny.row(gradients.squares_of(tiny.batch(), ewc.likelihood()))
    for place in ALL:
        change = whole - tiny.row(gradients.squares_of(tiny.batch(np.delete(ALL, place)), ewc.likelihood()))
        assert float(change.sum()) == pytest.approx(clip**2, rel=1e-3)  # the squares of a vector of length C
        assert float(change.norm()) <= clip**2


def test_its_noise_has_the_standard_deviation_that_is_accounted() -> None:
    """No texts: noise alone, cut off at zero. Half of a normal's mean square stays; a false alarm is rarer than 1e-6."""
    net, nothing = tiny.adapted(width=32, rank=16), TrainingInputs(tiny.texts()).take(np.zeros(0, np.int64))
    found = tiny.row(ewc.release_fisher(net, nothing, ANSWERS, 100.0, 0.5, 20.0, NOISE, device="cpu"))
    std = 20.0 * 0.5**2 / 100
    spread = 5 * math.sqrt(1.25 / len(found))  # of a mean of squares, half of them 0: variance 3/2 - 1/4
    assert float(found.square().mean()) / std**2 == pytest.approx(0.5, abs=spread)
    assert float((found == 0).double().mean()) == pytest.approx(0.5, abs=5 / math.sqrt(4 * len(found)))


def test_answers_are_drawn_as_often_as_the_model_thinks_them_likely() -> None:
    """A text asked 4,000 times; each share within five standard deviations."""
    net, n = tiny.adapted(), 4000
    many = TrainingInputs(tiny.texts()).take(np.zeros(n, np.int64))
    drawn = ewc.sampled(net, many, ANSWERS, NOISE, device="cpu")
    likely = []
    for answer in ANSWERS:
        batch = batch_of(ewc.answered(many.take(ALL[:1]), [answer]).texts, ALL[:1], "cpu")
        likely.append(float((log_probs(net, batch) * (batch.role == ANSWER)).sum().exp().detach()))
    said = ["".join(map(str, ids[role == ANSWER])) for ids, role in zip(drawn.texts.ids, drawn.texts.role, strict=True)]
    for answer, chance in zip(ANSWERS, np.array(likely) / sum(likely), strict=True):
        share = said.count("".join(map(str, answer[0]))) / n
        assert share == pytest.approx(chance, abs=5 * math.sqrt(chance * (1 - chance) / n) + 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_likelihood_has_the_same_bits_beside_others(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text widens no other; lengths differ, and pieces are full, not full, and of one text."""
    shapes: set[tuple[int, ...]] = set()
    watched(monkeypatch, of_texts, "log_probs", lambda found, given: shapes.add(tuple(given[1].ids.shape)))
    net = causal.Adapted(tiny.frozen(width=576, n_layer=1).to(dtype), 3, 6.0, 0)
    strings = ["cat " * (1 + place % 3) for place in range(19)]
    longest = "a long text about cats and dogs that goes on and on and on " * 2

    def likelihoods(strings: list[str]) -> NDArray[np.float64]:
        asked = ewc.answered(TrainingInputs(tiny.texts(80, strings)), ANSWERS[:1] * len(strings))
        with torch.no_grad():
            return ewc._of_answer(net, asked, None, "cpu")

    together = likelihoods(strings)
    for place in (0, 1, 8, len(strings)):
        beside = likelihoods([*strings[:place], longest, *strings[place:]])
        np.testing.assert_array_equal(np.delete(beside, place), together)
    np.testing.assert_array_equal(likelihoods(strings[2:]), together[2:])
    np.testing.assert_array_equal(likelihoods(strings[3:4]), together[3:4])
    assert {n for n, _ in shapes} == {kept_states.SIDE_BY_SIDE["cpu"]}, "filled up, whatever kernels make of other shapes"
    assert not any(width % kept_states.STEP for _, width in shapes)


def test_another_answer_stands_where_the_old_one_stood() -> None:
    labels = (ALL + 1) % 3
    found = ewc.answered(TrainingInputs(tiny.texts()), [ANSWERS[label] for label in labels]).texts
    right = prompted(tiny.Letters(), tiny.encoded(tiny.STRINGS), labels, tiny.CLASSES, "pets")
    width = min(found.ids.shape[1], right.ids.shape[1])
    np.testing.assert_array_equal(found.ids[:, :width], right.ids[:, :width])
    np.testing.assert_array_equal(found.role[:, :width], right.role[:, :width])
    assert (tiny.texts().role == TEXT).sum() == (found.role == TEXT).sum()


def test_from_noisy_gradients_their_known_variance_is_taken_off() -> None:
    """Gradients of 0 plus noise give about nothing; gradients that are always 1 give 1 times the expected batch."""
    generator, std, n = np.random.default_rng(0), 3.0, 40_000
    squares = [torch.from_numpy(generator.normal(value, std, (n, 5)) ** 2).sum(0) for value in (0.0, 1.0)]
    none, one = ewc.of_noisy_gradients(squares, n, 32.0, std)
    spread = 5 * 32 * std**2 * math.sqrt(2 / n)
    assert float(none.max()) <= spread
    assert float((one - 32).abs().max()) <= spread * math.sqrt(1 + 2 / std**2)


# Consolidation.


def test_the_penalty_is_half_the_importance_times_the_change_squared() -> None:
    weights = [torch.nn.Parameter(torch.tensor([1.0, 2.0]))]
    held = ewc.Consolidation(weights, 100.0)
    assert float(held.penalty()) == 0.0
    held.remember([torch.tensor([0.5, 0.0])])
    assert float(held.penalty()) == 0.0
    with torch.no_grad():
        weights[0].add_(torch.tensor([0.2, 7.0]))
    assert float(held.penalty()) == pytest.approx(50 * 0.5 * 0.04)
    (grad,) = torch.autograd.grad(held.penalty(), weights)
    torch.testing.assert_close(grad, torch.tensor([100 * 0.5 * 0.2, 0.0]))


def test_importance_adds_up_and_the_last_weights_are_the_anchor() -> None:
    weights = [torch.nn.Parameter(torch.zeros(2))]
    held = ewc.Consolidation(weights, 2.0)
    held.remember([torch.tensor([1.0, 0.0])])
    with torch.no_grad():
        weights[0].fill_(3.0)
    held.remember([torch.tensor([1.0, 4.0])])
    assert (held.importance[0].tolist(), float(held.penalty())) == ([2.0, 4.0], 0.0)


# Gradients turned by references.


@pytest.mark.parametrize("n_past", [1, 2, 5])
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_they_point_against_no_reference(n_past: int, scale: float) -> None:
    """Check 19, with references of any length, and as near to the gradient as a general program finds."""
    generator = torch.Generator().manual_seed(n_past)
    for _ in range(20):
        g, *refs = (
            [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((3, 4), (5,))]
            for _ in range(1 + n_past)
        )
        refs = [[scale * part for part in ref] for ref in refs]
        found = tiny.row(gem.projected_gradient(g, refs, 0.0))
        rows = torch.stack([tiny.row(ref) for ref in refs]) / scale
        assert float((rows @ found).min()) >= -1e-6
        assert float((found - nearest(tiny.row(g), rows)).norm()) < 1e-4 * float(tiny.row(g).norm())


def test_a_gradient_that_points_against_none_stays_as_it_is() -> None:
    g = [torch.tensor([1.0, 2.0])]
    assert torch.equal(gem.projected_gradient(g, [[torch.tensor([1.0, 0.0])], [torch.tensor([-1.0, 1.0])]], 0.5)[0], g[0])
    assert gem.projected_gradient(g, [], 0.0)[0] is g[0]


def test_one_reference_gives_the_projection_of_a_gem() -> None:
    g, ref = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0.3, 1.0, 0.0])
    torch.testing.assert_close(gem.projected_gradient([g], [[ref]], 0.0)[0], g - (g @ ref) / (ref @ ref) * ref)


def test_the_margin_is_the_least_weight_of_every_reference() -> None:
    """As the reference program has it: g + G^T v with v at least the margin."""
    g, refs = torch.tensor([-1.0, 0.0]), [[torch.tensor([1.0, 0.0])], [torch.tensor([0.0, 2.0])]]
    torch.testing.assert_close(gem.projected_gradient([g], refs, 0.25)[0], torch.tensor([0.0, 0.5]))


def test_references_that_lean_on_each_other_and_zero_ones_do_no_harm() -> None:
    g, ref = torch.tensor([-1.0, 0.0, 3.0]), torch.tensor([1.0, 0.0, 0.0])
    found = gem.projected_gradient([g], [[ref], [2 * ref], [torch.zeros(3)]], 0.0)[0]
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 3.0]))


def nearest(g: Tensor, rows: Tensor) -> Tensor:
    """The nearest vector with non-negative products, by a general solver."""
    a, b = rows.numpy(), g.numpy()
    found = minimize(
        lambda x: 0.5 * ((x - b) ** 2).sum(), b, jac=lambda x: x - b,
        constraints={"type": "ineq", "fun": lambda x: a @ x, "jac": lambda x: a}, method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500}
    )
    return torch.from_numpy(found.x)


# Stacked pairs.


def test_a_new_pair_changes_nothing_until_it_is_trained() -> None:
    net, batch = tiny.adapted(), tiny.batch()
    before = log_probs(net, batch).detach()
    stack = olora.Stack(net)
    torch.testing.assert_close(log_probs(net, batch).detach(), before, rtol=0, atol=0)
    stack.freeze(torch.Generator().manual_seed(1))
    torch.testing.assert_close(log_probs(net, batch).detach(), before, rtol=0, atol=1e-12)
    assert all(not second.any() for _, second in net.pairs())


def test_earlier_pairs_stay_bit_by_bit_and_nothing_frozen_learns() -> None:
    """Check 20."""
    net, batch = tiny.adapted(), tiny.batch()
    stack = olora.Stack(net)
    for task in range(2):
        stack.freeze(torch.Generator().manual_seed(task))
        before = [part.clone() for below in stack.frozen for pair in below.pairs for part in pair]
        gradients = Gradients(net, math.inf)
        descent = Descent(gradients.parameters, Schedule(1.0, 4, 1.0, 0.05, 8.0))
        for _ in range(3):
            descent.step(gradients.of(batch, task_loss("answer")), stack.overlap)
        after = [part for below in stack.frozen for pair in below.pairs for part in pair]
        assert all(torch.equal(then, now) for then, now in zip(before, after, strict=True))
        assert all(second.any() for _, second in net.pairs())
        assert set(map(id, gradients.parameters)) == set(map(id, net.trainable().values()))


def test_all_pairs_add_up() -> None:
    """Logits with two pairs equal those of a network whose projections hold the sum of the products."""
    net, batch = tiny.adapted(), tiny.batch()
    stack = olora.Stack(net)
    stack.freeze(torch.Generator().manual_seed(5))
    with torch.no_grad():
        for _, second in net.pairs():
            second.normal_(std=0.1)
    found = log_probs(net, batch).detach()
    merged = tiny.adapted()
    with torch.no_grad():
        for layer, below, (a, b), (first, second) in zip(
            merged.layers.values(), stack.frozen, net.pairs(), merged.pairs(), strict=True
        ):
            earlier = sum(two @ one for one, two in below.pairs)
            weight = layer.get_parameter("base_layer.weight")
            layer.get_submodule("base_layer").weight = torch.nn.Parameter(weight + net.scale * (earlier + b @ a).T)
            first.zero_()
            second.zero_()
    torch.testing.assert_close(log_probs(merged, batch).detach(), found, rtol=0, atol=1e-10)


def test_orthogonal_pairs_cost_nothing() -> None:
    net = tiny.adapted(width=32, rank=3)
    stack = olora.Stack(net)

    @torch.no_grad()
    def set_first(rows: Tensor) -> None:
        for first, _ in net.pairs():
            first.copy_(rows)

    assert float(stack.overlap()) == 0.0
    set_first(torch.eye(32)[:3])
    stack.freeze(torch.Generator().manual_seed(0))
    set_first(torch.eye(32)[3:6])
    assert float(stack.overlap()) == 0.0
    set_first(2 * torch.eye(32)[:3])
    assert float(stack.overlap()) == pytest.approx(len(net.pairs()) * 3 * 4)  # three entries of 2 in each layer


# What is trained on.


def test_texts_of_two_tasks_are_read_as_each_alone() -> None:
    net = tiny.adapted()
    long, short = TrainingInputs(tiny.texts()), TrainingInputs(tiny.texts(4, ["ab", "the"]))
    both = join_texts([long, short])
    found = log_probs(net, batch_of(both.texts, np.arange(len(both)), "cpu")).detach()
    for material, start in ((long, 0), (short, len(ALL))):
        alone = log_probs(net, batch_of(material.texts, np.arange(len(material)), "cpu")).detach()
        torch.testing.assert_close(found[start : start + len(alone), : alone.shape[1]], alone, rtol=0, atol=1e-12)
    assert (both.texts.role[len(ALL) :, short.texts.ids.shape[1] :] == PAD).all()


def test_copies_are_read_and_tokens_are_not() -> None:
    """With copies, what the tokens are makes no difference; where the copies come from rows stays with the rows."""
    net, length = tiny.adapted(), 16
    copies = torch.randn(len(ALL), length, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    own, other = (TrainingInputs(tiny.texts(length), copies) for _ in range(2))
    other.texts.ids[other.texts.role == TEXT] = 3
    taken = own.take(np.array([5, 1]))

    def read(material: TrainingInputs, *rows: int) -> Tensor:
        return log_probs(net, batch_of(material.texts, np.array(rows), "cpu"), material.reading, answers_only=True).detach()

    for same in (read(other, 5, 1), read(taken, 0, 1), read(join_texts([own, taken]), len(ALL), len(ALL) + 1)):
        torch.testing.assert_close(same, read(own, 5, 1), rtol=0, atol=0)
