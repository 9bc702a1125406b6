"""Clipped sums of gradients of adapters on texts, and PeCL's scores, weights and losses against the printed formulas."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import causal
from dpcl_core.backbones.gpu import half_precision
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.language import gradients, sensitivity
from dpcl_core.methods.language.gradients import Batch, Gradients, TextLoss, batch_of, log_probs
from dpcl_core.methods.language.olora import Stack
from dpcl_core.methods.language.params import UnlearningForm
from dpcl_core.methods.language.public_text import ANSWER, TEMPLATE, TEXT
from dpcl_core.methods.language.training import Descent, Memory, Unlearning, input_norms, pecl_loss, private_steps, task_loss
from dpcl_core.privacy.noise import Batches, ReleaseNoise, SeededNoise
from dpcl_core.spec import Cell
from tests.backbones import language_models
from tests.methods.language import tiny
from tests.methods.language.tiny import ALL
from tests.support import second_device


def one_by_one(net: tiny.Adapted, batch: Batch, loss: TextLoss) -> list[Tensor]:
    """Gradients of each text alone, without padding, by autograd."""
    alone = [tiny.batch(batch.rows[place : place + 1]) for place in range(len(batch))]
    totals = [loss.of(log_probs(net, one), one).sum() for one in alone]
    return [tiny.row(torch.autograd.grad(total, list(net.trainable().values()))) for total in totals]


@pytest.mark.parametrize("kind", ["answer", "full"])
@pytest.mark.parametrize("at_once", [64, 3])
def test_sums_equal_one_backward_pass_per_text(kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "AT_ONCE", at_once)
    monkeypatch.setitem(gradients.SIDE_BY_SIDE, "cpu", at_once)
    net, batch, loss = tiny.adapted(), tiny.batch(), task_loss(kind)  # type: ignore[arg-type]
    own = one_by_one(net, batch, loss)
    norms = torch.stack([gradient.norm() for gradient in own])
    clip = float(norms.median())
    assert 0 < int((norms > clip).sum()) < len(norms)
    each = torch.stack(own) * (clip / (norms + 1e-6)).clamp(max=1)[:, None]
    expected, one_by_one_as_summed = each.sum(0), torch.zeros_like(each, dtype=torch.float64)
    found = tiny.row(Gradients(net, clip).of(batch, loss))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * float(expected.norm()))
    for rows, clipped in Gradients(net, clip).each(batch, loss):
        one_by_one_as_summed[rows] = clipped
    torch.testing.assert_close(one_by_one_as_summed, each.double(), rtol=0, atol=1e-12 * float(each.norm()))
    plain = tiny.row(Gradients(net, math.inf).of(batch, loss))
    torch.testing.assert_close(plain, torch.stack(own).sum(0), rtol=0, atol=1e-11 * float(norms.sum()))


def test_sums_equal_opacus() -> None:
    """Per-text gradients by Opacus' hooks, with positions given for every text as its rules need them."""
    net, batch = tiny.adapted(), tiny.batch()
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
    whole = tiny.row(found.of(tiny.batch(), loss))
    moves = [float((whole - tiny.row(found.of(tiny.batch(np.delete(ALL, row)), loss))).norm()) for row in ALL]
    assert max(moves) <= 0.2 + 1e-12
    assert max(moves) > 0.2 - 1e-4  # reached: no looser bound holds


def test_a_text_adds_the_same_bits_whoever_is_beside_it() -> None:
    """In single precision, with logits so large that a last digit would decide which token wins."""
    net = tiny.adapted(dtype=torch.float32)
    with torch.no_grad():
        for parameter in net.trainable().values():
            parameter.copy_(1000 * parameter.sign())
    found, loss = Gradients(net, 0.3), task_loss("full")
    whole = tiny.row(found.of(tiny.batch(), loss)).double()
    alone = sum(tiny.row(found.of(tiny.batch(ALL[k : k + 1]), loss)).double() for k in ALL)
    # What is summed is rounded to single precision once: half a step of 2^-23 of each entry, on both sides.
    torch.testing.assert_close(whole, alone, rtol=2.0**-22, atol=len(ALL) * 0.3 * 2.0**-23)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_text_whose_gradient_is_not_finite_counts_zero(broken: float) -> None:
    net = tiny.adapted()

    def with_one_broken(log_probabilities: Tensor, batch: Batch) -> Tensor:
        losses = task_loss("answer").of(log_probabilities, batch)
        return losses * torch.where(torch.from_numpy(batch.rows == 2), broken, 1.0)

    found = Gradients(net, 0.5)
    whole = tiny.row(found.of(tiny.batch(), TextLoss(with_one_broken)))
    expected = tiny.row(found.of(tiny.batch(np.delete(ALL, 2)), task_loss("answer")))
    torch.testing.assert_close(whole, expected, rtol=0, atol=1e-13)
    alone = found.of(tiny.batch(ALL[2:3]), TextLoss(with_one_broken))
    assert not tiny.row(alone).any()


@pytest.mark.parametrize("at_once", [1, 3, 8])  # texts whose logits are computed together: one, some, all
@pytest.mark.parametrize("family", ["gpt2", "llama", "granite"])  # granite divides its logits by a constant
def test_gradients_equal_those_through_the_whole_table(family: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM

    monkeypatch.setitem(gradients._LOGITS, "cpu", at_once)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"vocab_size": tiny.Letters.size, "num_key_value_heads": 1}
    torch.manual_seed(0)
    model: nn.Module = tiny.frozen()
    if family == "granite":
        model = GraniteForCausalLM(GraniteConfig(**sizes, logits_scaling=4.0, initializer_range=0.3))
    elif family == "llama":
        model = LlamaForCausalLM(LlamaConfig(**sizes, initializer_range=0.3))
    net, batch = causal.Adapted(model.eval().requires_grad_(False), 3, 6.0, 0).double(), tiny.batch()
    assert (net.split.plain_head is None) is (family == "granite")
    parameters = list(net.trainable().values())
    for _, second in net.pairs():
        nn.init.normal_(second, std=0.1)
    logits = net(net.embed(batch.ids), batch.mask)[:, :-1]
    table = functional.pad(logits.log_softmax(-1).gather(2, batch.ids[:, 1:, None])[..., 0], (1, 0)) * batch.mask
    for answers_only, expected in ((False, table), (True, table * (batch.role == ANSWER))):
        found = log_probs(net, batch, answers_only=answers_only)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        assert not found[:, 0].any()
        slopes = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        ways = [torch.autograd.grad((slopes * way).sum(), parameters, retain_graph=True) for way in (found, expected)]
        torch.testing.assert_close(*ways, rtol=1e-10, atol=1e-12)


# Adapters in single precision over a base in half: types, steps that stay finite, and pieces that fit into a card.


HALVES = (torch.float16, torch.bfloat16)


def over(dtype: torch.dtype) -> causal.Adapted:
    """Adapters on a frozen model of this precision."""
    return causal.Adapted(tiny.frozen().to(dtype), 3, 6.0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", HALVES)
def test_adapters_over_a_base_in_half_are_in_single_precision_and_so_is_their_optimiser(dtype: torch.dtype) -> None:
    net, exact = over(dtype), over(torch.float32)
    # In single precision, and not rounded on the way.
    torch.testing.assert_close(net.trainable(), exact.trainable(), rtol=0, atol=0)
    frozen = {parameter.dtype for parameter in net.model.parameters() if not parameter.requires_grad}
    assert frozen == {dtype}
    sums = Gradients(net, 0.5).of(tiny.batch(), task_loss("full"))
    means = noisy_means(sums, 8.0, 0.1, ReleaseNoise())
    assert {part.dtype for part in means} == {torch.float32}
    descent = Descent(list(net.trainable().values()), Schedule(1.0, 3, 0.5, 0.01, 8.0))
    descent.step(means)
    state = [value for values in descent._adam.state.values() for value in values.values()]
    assert {value.dtype for value in state} == {torch.float32}


@pytest.mark.parametrize("dtype", HALVES)
def test_pairs_of_earlier_tasks_are_in_single_precision_over_a_base_in_half(dtype: torch.dtype) -> None:
    ends: list[Tensor] = []
    for net in (over(dtype), over(torch.float32)):
        with torch.no_grad():
            for _, second in net.pairs():
                second.fill_(0.1)
        stack = Stack(net)
        stack.freeze(torch.Generator().manual_seed(0))
        batch = tiny.batch()
        ends.append(log_probs(net, batch)[batch.mask].float())
        assert {tensor.dtype for below in stack.frozen for pair in below.pairs for tensor in pair} == {torch.float32}
    torch.testing.assert_close(*ends, rtol=0.1, atol=0.1)  # eight bits of a bfloat16 through two blocks


@pytest.mark.parametrize("dtype", HALVES)
def test_noisy_steps_over_a_base_in_half_follow_those_in_single_precision(dtype: torch.dtype) -> None:
    """The same batches and noise: after 30 steps weights differ by the base's rounding, and none has diverged."""
    plan = Schedule(sample_rate=0.5, n_steps=30, clip_norm=0.4, learning_rate=0.02, expected_batch=4.0)
    ends: list[Tensor] = []
    for net in (over(dtype), over(torch.float32)):
        noise, batches, loss = SeededNoise(Cell(1.0, 0), "x"), Batches(plan.sample_rate, 0, "y"), task_loss("full")
        assert len(list(private_steps(net, tiny.texts(), plan, 0.3, batches, noise, loss, device="cpu"))) == 30
        ends.append(tiny.weights(net))
    assert ends[0].isfinite().all()
    assert 0 < float((ends[0] - ends[1]).norm()) < 0.3 * float(ends[1].norm())


def test_a_text_has_the_same_gradient_bits_beside_any_others_in_the_precision_that_this_processor_computes_in() -> None:
    """As wide as smollm2: kernels divide narrow and wide products among blocks differently."""
    dtype = half_precision("cpu") or torch.float32
    sums = Gradients(causal.Adapted(tiny.frozen(width=576, n_layer=1).to(dtype), 3, 6.0, 0), 0.5)
    together: dict[int, Tensor] = {}
    for rows, gradients_of in sums.each(tiny.batch(), task_loss("full")):
        together |= dict(zip(rows.tolist(), gradients_of, strict=True))
    for place in ALL:
        ((_, alone),) = sums.each(tiny.batch(ALL[place : place + 1]), task_loss("full"))
        assert alone.any()
        assert torch.equal(alone[0], together[int(place)])


@pytest.fixture
def stored_in_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model of the hub whose file has float16."""
    from transformers import GPT2LMHeadModel

    folder = language_models.put(tmp_path / "model")
    GPT2LMHeadModel.from_pretrained(folder).half().save_pretrained(folder)
    monkeypatch.setattr("dpcl_core.backbones.packaged.HubFolders.folder", lambda self, name: folder)
    causal._frozen.cache_clear()
    yield
    causal._frozen.cache_clear()


@pytest.mark.usefixtures("stored_in_half")
@pytest.mark.parametrize(("capability", "base"), [((7, 5), torch.float32), ((8, 0), torch.bfloat16)])
def test_a_model_stored_in_float16_never_computes_in_it(capability: tuple[int, int], base: torch.dtype) -> None:
    with second_device.attached(capability=capability):
        net = causal.adapted("hf:some/model", second_device.NAME, 2, 4.0, 0)
        assert all(second_device.is_on_card(tensor) for tensor in net.state_dict().values())
        assert next(net.model.parameters()).dtype is base
        ids = torch.arange(6, device=second_device.NAME)[None]
        logits = net(net.embed(ids), torch.ones_like(ids))
        assert logits.dtype is torch.float32


@pytest.mark.usefixtures("stored_in_half")
def test_likelihoods_that_are_shown_come_from_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal, "half_precision", lambda device: torch.bfloat16)
    for single, dtype in ((False, torch.bfloat16), (True, torch.float32)):
        causal._frozen.cache_clear()
        assert next(causal.load("hf:some/model", single=single).parameters()).dtype is dtype


def test_a_model_on_the_processor_opens_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the random state of a card would open it and hold its memory."""

    def opened(device: object = None) -> Tensor:
        raise AssertionError("a card was opened")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", opened)
    causal._frozen.cache_clear()
    causal.adapted("lm-tiny", "cpu", 2, 4.0, 0)


class Cramped(causal.Adapted):
    """Runs out of memory where more than `room` tokens are read at once, and notes what it read."""

    room: int
    read: list[tuple[int, int]]

    def embed(self, ids: Tensor) -> Tensor:
        self.read.append((len(ids), ids.shape[1]))
        if ids.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().embed(ids)


def test_texts_of_a_shape_that_does_not_fit_come_in_smaller_pieces_and_others_as_before() -> None:
    texts = tiny.texts(40, ("the cat", "a dog and the cow", "x", "call me at nine"))
    batch, loss = batch_of(texts, np.arange(4), "cpu"), task_loss("answer")
    net = tiny.adapted()
    expected = tiny.row(Gradients(net, 0.3).of(batch, loss))
    shapes = sorted({shape[0] for shape, _ in gradients._alike(batch)})
    assert len(shapes) > 1
    net.__class__, net.room, net.read = Cramped, 8 * shapes[0], []  # type: ignore[assignment, attr-defined]
    cramped = Gradients(net, 0.3)
    for _ in range(2):
        torch.testing.assert_close(tiny.row(cramped.of(batch, loss)), expected, rtol=0, atol=1e-12)
    sizes = {shape[0]: size for shape, size in cramped._sizes.items()}
    assert sizes == {length: 8 if length == shapes[0] else 4 for length in shapes}
    net.room = 1  # type: ignore[attr-defined]
    with pytest.raises(MemoryError, match="one text"):
        cramped.of(batch, loss)


def test_pieces_on_a_card_are_as_large_as_its_memory_and_independent_of_who_is_in_them() -> None:
    texts, loss = tiny.texts(), TextLoss(lambda values, batch: -values.sum(dim=1))
    # By hand for 16 tokens: 79,872 bytes in two layers, 9,984 for logits, 6,144 for gradients; 21 of them fit
    # into 2 MB, and 14 of 24 tokens.
    for free, expected in ((1 << 40, {16: 64, 24: 64, 32: 64}), (1 << 22, {16: 16, 24: 8, 32: 8})):
        sizes = []
        for rows in (ALL, ALL[:1]):
            with second_device.attached(free=free):
                net = tiny.adapted(dtype=torch.float32).to(second_device.NAME)
                on_card = Gradients(net, 0.3)
                on_card.of(batch_of(texts, rows, second_device.NAME), loss)
            sizes.append({length: count for (length, _), count in on_card._sizes.items()})
        assert sizes[0] == expected
        assert sizes[1].items() <= sizes[0].items()


def test_an_answers_log_probability_is_exact_to_single_precision_over_a_base_in_half() -> None:
    """Of 1,000 equal logits each has -log 1000 = -6.908; bfloat16 alone would round a sum of their powers to 2 digits."""

    class Flat(nn.Module):
        def forward(self, states: Tensor) -> Tensor:
            return torch.zeros(*states.shape[:2], 1000, dtype=torch.bfloat16)

    head = Flat()
    head.register_forward_hook(causal._in_single)
    logits = head(torch.zeros(1, 2, 4))
    assert logits.dtype is torch.float32
    assert float(logits.log_softmax(-1)[0, 0, 0]) == pytest.approx(-np.log(1000), rel=1e-6)
    batch: Batch = tiny.batch(ALL[:2])
    assert log_probs(tiny.adapted(dtype=torch.float32), batch).dtype is torch.float32


# What holds earlier tasks: Omega and its mean by hand, L_reg by closed form, and when there is none.


def moved(net: tiny.Adapted, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.trainable().values():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


def products(net: tiny.Adapted) -> list[torch.Tensor]:
    return [(second @ first).detach().clone() for first, second in net.pairs()]


def changes(net: tiny.Adapted, then: Sequence[Tensor]) -> list[Tensor]:
    return [now - before for now, before in zip(products(net), then, strict=True)]


def omega(of_task: Sequence[Tensor], norms: Sequence[float]) -> list[float]:
    return [float(change.norm()) * norm for change, norm in zip(of_task, norms, strict=True)]


def l_reg(strength: float, omegas: Sequence[float], of_task: Sequence[Tensor]) -> float:
    return sum(strength * own * float(change.square().sum()) for own, change in zip(omegas, of_task, strict=True))


def test_nothing_is_held_in_the_first_task_or_where_nothing_has_changed() -> None:
    net = tiny.adapted()
    memory = Memory(net, 1.0, 10.0)
    moved(net, 1)
    memory.open(0.5)
    assert float(memory.penalty()) == 0
    memory.remember([2.0] * len(net.pairs()))
    assert float(memory.penalty().detach()) == 0
    moved(net, 2)
    assert float(memory.penalty().detach()) > 0


def test_penalty_equals_the_formula_after_two_tasks() -> None:
    net = tiny.adapted()
    memory, norms = Memory(net, 1.0, 10.0), ([2.0, 3.0], [5.0, 1.0])
    omegas, then = [], products(net)
    for task, own in enumerate(norms):
        memory.open(0.9)
        moved(net, task)
        omegas.append(omega(changes(net, then), own))
        memory.remember(own)
        then = products(net)
    assert memory.omega_bar == pytest.approx(np.mean(omegas, axis=0))
    memory.open(0.4)  # of the task that is learned now, not of those before
    moved(net, 7)
    expected = l_reg(6.4, memory.omega_bar, changes(net, then))
    assert float(memory.penalty().detach()) == pytest.approx(expected, rel=1e-12)


def test_as_printed_omega_bar_counts_the_task_that_is_learned() -> None:
    """Eqs. 9 and 10 with i <= k: in the first task, too, as the adapters are at that step, and without a gradient."""
    net = tiny.adapted()
    memory, start = Memory(net, 1.0, 10.0), products(net)
    memory.open(0.4, [2.0, 3.0])
    moved(net, 1)
    first = omega(changes(net, start), (2.0, 3.0))
    expected = l_reg(6.4, first, changes(net, start))
    assert float(memory.penalty().detach()) == pytest.approx(expected, rel=1e-12)
    memory.remember([2.0, 3.0])
    middle = products(net)
    memory.open(1.0, [5.0, 1.0])
    moved(net, 2)
    assert memory.omega_bar == pytest.approx(np.mean([first, omega(changes(net, middle), (5.0, 1.0))], axis=0))
    found = memory.penalty()
    slopes = torch.autograd.grad(found, list(net.trainable().values()))
    held = zip(memory._products(), middle, memory.omega_bar, strict=True)
    alone = torch.stack([own * (now - then).square().sum() for now, then, own in held]).sum()
    torch.testing.assert_close(slopes, torch.autograd.grad(alone, list(net.trainable().values())))


@pytest.mark.parametrize("score", [-0.08, 1.3])
def test_a_mean_score_outside_its_range_counts_as_its_end(score: float) -> None:
    net = tiny.adapted()
    found, moves = [], Memory(net, 1.0, 10.0)
    moved(net, 0)
    moves.remember([1.0, 1.0])
    moved(net, 1)
    for given in (score, 0.0 if score < 0 else 1.0):
        moves.open(given)
        found.append(float(moves.penalty().detach()))
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[0] > 0


def test_slope_of_the_penalty_pulls_back_and_leaves_omega_alone() -> None:
    net = tiny.adapted()
    memory, parameters = Memory(net, 1.0, 10.0), list(net.trainable().values())
    memory.open(0.0)
    moved(net, 2)
    memory.remember([1.0, 1.0])
    moved(net, 3)
    before = memory.penalty()
    slopes = torch.autograd.grad(before, parameters)
    with torch.no_grad():
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter -= 1e-4 * slope
    assert memory.penalty().item() < before.item()


def test_input_norms_are_means_over_tokens_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    net, texts = tiny.adapted(), tiny.texts()
    whole = input_norms(net, texts, "cpu")
    seen: dict[str, list[float]] = {name: [] for name in net.layers}
    for name, layer in net.layers.items():
        layer.register_forward_hook(lambda layer, args, out, name=name: seen[name].extend(args[0][0].norm(dim=1).tolist()))
    for row in range(len(texts)):
        alone = tiny.batch(np.array([row]))
        with torch.no_grad():
            net(net.embed(alone.ids), alone.mask)
    of_each = [float(np.mean(norms)) for norms in seen.values()]
    assert whole == pytest.approx(of_each, rel=1e-9)
    monkeypatch.setattr("dpcl_core.methods.language.gradients.AT_ONCE", 3)
    assert input_norms(net, texts, "cpu") == pytest.approx(whole, rel=1e-12)
    assert input_norms(net, tiny.texts(strings=()), "cpu") == [0.0, 0.0]


# PeCL's scores, the weights that losses give a token, and the losses themselves, against the printed formulas.


FORMS: tuple[sensitivity.Form, ...] = get_args(sensitivity.Form)


def tables(n_tasks: int, n_tables: int, size: int = 40) -> list[np.ndarray]:
    """Counts of many shapes: from flat to steep, with tokens of no task and of all."""
    generator = np.random.default_rng(0)
    steepness = 0.1 + 3 * generator.random(n_tables)
    return [
        generator.poisson(generator.gamma(shape, 30, (n_tasks, size))) * (generator.random((1, size)) < 0.9)
        for shape in steepness
    ]


def test_the_closed_form_is_equation_1() -> None:
    """1 - P^alpha exp(-(1 - alpha) Score2) and its square, to 1e-12, against the sum in the exponent."""
    generator = np.random.default_rng(1)
    p, score2 = np.exp(-generator.gamma(1.0, 4.0, 5000)), generator.uniform(-0.154, 0.366, 5000)
    nobody = np.zeros(5000, dtype=bool)
    for alpha in (0.0, 0.2, 0.5, 0.8, 1.0):
        found = sensitivity.scores(np.log(p), score2, nobody, alpha=alpha)
        printed = 1 - np.exp(-(alpha * -np.log(p) + (1 - alpha) * score2))
        np.testing.assert_allclose(found, printed, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found, 1 - p**alpha * np.exp(-(1 - alpha) * score2), rtol=0, atol=1e-12)
        np.testing.assert_allclose((1 - found) ** 2, p ** (2 * alpha) * np.exp(-2 * (1 - alpha) * score2), atol=1e-12)
    half = sensitivity.scores(np.log(p), score2, nobody)
    np.testing.assert_allclose(sensitivity.nominal_epsilon(half), 1 + 9 * p * np.exp(-score2), rtol=1e-12)


def test_known_scores() -> None:
    """A uniform digit at alpha 0.5; what probability exceeds the threshold, at five values of alpha (section 3)."""
    none = np.zeros(1)
    assert sensitivity.scores(np.log([0.1]), none, none > 0)[0] == pytest.approx(0.6838, abs=5e-5)
    for alpha, limit in ((0.2, 0.010), (0.3, 0.047), (0.5, 0.160), (0.7, 0.270), (0.8, 0.318)):
        exact = 0.4 ** (1 / alpha)
        assert exact == pytest.approx(limit, abs=5e-4)
        either = sensitivity.scores(np.log([exact * 0.999, exact * 1.001]), np.zeros(2), np.zeros(2) > 0, alpha=alpha)
        assert (either > 0.6).tolist() == [True, False]


def test_stop_words_score_exactly_nothing_and_the_clamp_keeps_all_in_range() -> None:
    log_p, score2 = np.array([-50.0, -1e-9, -3.0]), np.array([0.3, -0.154, 0.0])
    assert sensitivity.scores(log_p, score2, np.array([True, False, False]))[0] == 0.0
    free = sensitivity.scores(log_p, score2, np.zeros(3, bool))
    held = sensitivity.scores(log_p, score2, np.zeros(3, bool), clamped=True)
    assert free[1] < 0 == held[1]
    assert free[2] == held[2]
    assert sensitivity.scores(np.array([-1e9]), np.zeros(1), np.zeros(1, bool))[0] == 1.0


@pytest.mark.parametrize(("n_salient", "low", "high"), [
    (0, 0, 0.3584), (1, 0.0366, 0.3663), (2, 0.0462, 0.3235), (3, 0.0405, 0.2433), (4, 0.0243, 0.1337), (5, 0, 0),
    (6, -0.0308, -0.1542),
])  # fmt: skip
def test_score2_by_the_number_of_tasks_with_the_token(n_salient: int, low: float, high: float) -> None:
    """N = 6, tau = 0.2: the ends of each range are reached, exactly 0 at five tasks, negative at all six."""
    for share, rest, expected in ((0.2, 0.0, low), (1.0, 0.2 - 1e-9, high)):
        shares = np.array([share] * n_salient + [rest] * (6 - n_salient))
        of_tasks = np.stack([np.round(shares * 10**10), np.full(6, 10**10)], axis=1).astype(np.int64)
        found = sensitivity.commonness(of_tasks)[0]
        assert found == pytest.approx(expected, abs=1e-4)
        assert n_salient != 5 or found == 0.0


def test_score2_stays_in_its_range_and_the_smoothed_form_is_never_negative() -> None:
    for of_tasks in tables(6, 300):
        printed, clipped, smoothed = (sensitivity.commonness(of_tasks, form) for form in FORMS)
        assert (printed >= -0.15416).all()
        assert (printed < 0.36628).all()
        assert (smoothed >= 0).all()
        np.testing.assert_array_equal(clipped, np.maximum(printed, 0))
    for n_tasks in (1, 2, 3):
        assert all((sensitivity.commonness(one, "smoothed") >= 0).all() for one in tables(n_tasks, 50))


def test_score2_is_the_sum_of_equation_3() -> None:
    """Token by token, task by task, as it is printed."""
    (of_tasks,) = tables(4, 1)
    for token in range(of_tasks.shape[1]):
        shares = [row[token] / row.max() for row in of_tasks]
        salient = sum(share >= 0.2 for share in shares)
        expected = sum(share * math.log(4 / (1 + salient)) for share in shares) / 4
        assert sensitivity.commonness(of_tasks)[token] == pytest.approx(expected, abs=1e-12)


def test_counts_leave_out_padding() -> None:
    tokens = np.array([[3, 1, 3, -1], [3, -1, -1, -1]], dtype=np.int32)
    assert sensitivity.counts(tokens, 5).tolist() == [0, 1, 0, 3, 0]
    assert sensitivity.salience(np.array([[0, 1, 0, 3], [0, 0, 0, 0]])).tolist() == [[0, 1 / 3, 0, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize("form", FORMS)
def test_scopes_look_at_what_they_say(form: sensitivity.Form) -> None:
    """Seen: later tasks change nothing. Public and off: no private text changes anything. All: later tasks do."""
    before, public = tables(6, 1)[0], tables(2, 1)[0]
    later, own = before.copy(), before.copy()
    later[4:] = np.roll(later[4:], 1, axis=1) + 7
    own[:] = np.roll(own, 3, axis=1)

    def found(scope: sensitivity.Scope, of_tasks: np.ndarray, task: int = 2) -> np.ndarray:
        return sensitivity.scoped_commonness(scope, of_tasks, public, task, form)

    np.testing.assert_array_equal(found("seen", before), found("seen", later))
    assert not np.array_equal(found("seen", before), found("seen", own))
    for scope in ("public", "off"):
        np.testing.assert_array_equal(found(scope, before), found(scope, own))
    assert not np.array_equal(found("all", before), found("all", later))
    assert not found("off", before).any()
    assert (found("seen", before, 0) >= 0).all(), "the printed logarithm would be negative for a first task"
    np.testing.assert_array_equal(sensitivity.scoped_commonness("public", before, public[:0], 0, form), 0)


def test_the_nominal_budget_at_known_scores_and_beyond_its_range() -> None:
    found = sensitivity.nominal_epsilon(np.array([1, 0.6, 0.5, 0]))
    np.testing.assert_allclose(found, [1, 2.44, 3.25, 10], atol=1e-12)
    score = sensitivity.scores(np.zeros(1), np.array([math.log(6 / 7)]), np.zeros(1, bool))
    assert score[0] == pytest.approx(-0.0801, abs=1e-4)
    assert sensitivity.nominal_epsilon(score)[0] == pytest.approx(11.50, abs=1e-9)
    said = sensitivity.out_of_range(score)
    assert said.startswith("1 token has a score below 0, down to -0.0801: the nominal budget rises to 11.50, above")
    assert sensitivity.out_of_range(np.array([0.0, 1.0])) is None
    several = str(sensitivity.out_of_range(np.array([-0.1, -0.01, 0.5])))
    assert several.startswith("2 tokens have scores below 0, down to -0.1")
    assert sensitivity.nominal_epsilon(np.array([0.5]), 2, 4)[0] == 2.5
    for lower, upper in ((0.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (math.nan, 1.0)):
        with pytest.raises(BadInput, match="eps_lower"):
            sensitivity.nominal_epsilon(np.zeros(1), lower, upper)


def test_the_penalty_falls_as_tasks_get_more_sensitive() -> None:
    """Check 14."""
    assert [sensitivity.penalty_strength(mean) for mean in (0.0, 0.4, 1.0)] == pytest.approx([10, 6.4, 1], rel=0, abs=1e-12)
    assert sensitivity.penalty_strength(0.5, 2, 4) == 3


def test_a_sentence_has_one_score_and_no_token_of_it_is_left_without_noise() -> None:
    scores = np.array([[0.0, 0.8, 0.4, 0.3], [0.0, 0.5, 0.0, 0.0]])
    is_token = np.array([[True, True, True, False], [True, True, False, False]])
    found = sensitivity.sentence_scores(scores, is_token)
    np.testing.assert_allclose(found, [[0.4, 0.4, 0.4, 0], [0.25, 0.25, 0, 0]])
    np.testing.assert_array_equal(sensitivity.sentence_scores(scores, np.zeros((2, 4), bool)), 0)


def total_loss(losses: np.ndarray, scores: np.ndarray, unlearning: str, loss: str, public: np.ndarray) -> float:
    """Eqs. 12 and 13 at lambda 2, theta_u 0.6, margin 0.5, times M, term by term; the label's own tokens left out."""
    total = 0.0
    for own, score, reference in zip(losses, scores, public, strict=True):
        private = score > 0.6
        if loss == "full" and not (private and unlearning in ("mask", "hinge")):
            total += own
        if private:
            term = {"printed": own, "flipped": -own, "hinge": max(0.0, reference + 0.5 - own)}.get(unlearning, 0.0)
            total += 2 * (score - 0.6) * term
    return total


@pytest.mark.parametrize("loss", ["full", "answer"])
@pytest.mark.parametrize("unlearning", get_args(sensitivity.Unlearning))
def test_weights_are_the_slope_of_the_loss_in_each_tokens_cross_entropy(unlearning: str, loss: str) -> None:
    generator = np.random.default_rng(5)
    losses, public, scores = generator.gamma(2, 1, 200), generator.gamma(2, 1, 200), generator.random(200)
    found = sensitivity.loss_weights(
        scores, unlearning, "full" if loss == "full" else "answer", strength=2, margin=0.5, gap=losses - public
    )
    for token in range(200):
        moved = losses.copy()
        moved[token] += 1e-6
        rise = total_loss(moved, scores, unlearning, loss, public) - total_loss(losses, scores, unlearning, loss, public)
        assert found[token] == pytest.approx(rise / 1e-6, abs=1e-6)
    if unlearning == "printed":
        assert (found >= (1.0 if loss == "full" else 0.0)).all(), "the printed sign learns sensitive tokens harder"


def test_printed_weights_at_known_scores() -> None:
    """Section 10: up to 1.4 at lambda 1 and 5 at lambda 10; flipped within [0.6, 1]; the hinge stops at its margin."""
    scores = np.array([0.0, 0.6, 1.0])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "printed", "full"), [1, 1, 1.4])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "printed", "full", strength=10), [1, 1, 5])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "printed", "answer"), [0, 0, 0.4])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "flipped", "full"), [1, 1, 0.6])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "mask", "full"), [1, 1, 0])
    gaps = np.array([0.9, 1.0, 1.1])
    np.testing.assert_allclose(sensitivity.loss_weights(np.ones(3), "hinge", "full", margin=1, gap=gaps), [-0.4, 0, 0])
    with pytest.raises(ValueError, match="gap"):
        sensitivity.loss_weights(scores, "hinge", "full")


# Losses: the printed weights by autograd, what one step does to a sensitive token, and where a term ends.


def drawn(given: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities that ask for gradients, scores in [0, 1] on texts, and a reference."""
    generator = torch.Generator().manual_seed(0)
    likely, scores, reference = (torch.rand(given.ids.shape, generator=generator, dtype=torch.float64) for _ in range(3))
    return (-3 * likely).requires_grad_(True), scores * (given.role == TEXT), -3 * reference


def slopes_of(loss: str, unlearning: Unlearning) -> tuple[Tensor, Tensor, Batch]:
    """What the total loss grows by with each token's cross-entropy, by autograd, and the scores."""
    given = tiny.batch()
    likely, scores, reference = drawn(given)
    return slopes(likely, given, loss, unlearning, scores, reference), scores, given


def slopes(likely: Tensor, given: Batch, loss: str, unlearning: Unlearning, scores: Tensor, reference: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(pecl_loss(likely, given, loss, unlearning, scores, reference).sum(), likely)
    return -found


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
    given = tiny.batch()
    likely, scores, reference = drawn(given)
    found = slopes(likely, given, loss, Unlearning(form, 2.0, 0.5, margin=0.7), scores, reference)
    found, inside = found * given.mask[:, 1:].sum(1, keepdim=True), (given.role == TEXT).numpy()
    gap = (reference - likely).detach().numpy()
    shown = sensitivity.loss_weights(scores.numpy(), form, loss, strength=2.0, threshold=0.5, gap=gap, margin=0.7)
    np.testing.assert_allclose(found.numpy()[inside], shown[inside], rtol=0, atol=2e-7)  # weights are single


def test_no_gradient_flows_through_the_scores() -> None:
    given = tiny.batch()
    likely, scores, reference = drawn(given)
    scores.requires_grad_(True)
    for form in ("printed", "hinge", "npo"):
        total = pecl_loss(likely, given, "full", Unlearning(form), scores, reference).sum()
        assert torch.autograd.grad(total, [likely, scores], allow_unused=True)[1] is None


@pytest.mark.parametrize("form", ["mask", "unlikelihood", "npo", "hinge"])
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
    net, of = tiny.adapted(), task_loss(loss)
    whole = of.of(log_probs(net, tiny.batch()), tiny.batch())
    for row in tiny.ALL:
        alone = tiny.batch(tiny.ALL[row : row + 1])
        torch.testing.assert_close(of.of(log_probs(net, alone), alone)[0], whole[row], rtol=0, atol=1e-12)


def test_template_and_padding_have_no_part_in_unlearning() -> None:
    given = tiny.batch()
    likely, _, reference = drawn(given)
    found = slopes(likely, given, "answer", Unlearning("printed"), torch.ones_like(likely), reference)
    assert not found[(given.role == TEMPLATE) | ~given.mask].any()
    assert found[given.role == TEXT].all()


def step_on_one_token(form: UnlearningForm, margin: float) -> tuple[float, float]:
    """How much log p of one sensitive token rises in a gradient step on its text, and the length of that step's gradient."""
    net, given, place = tiny.adapted(), tiny.batch(np.array([1])), 5
    parameters, before = list(net.trainable().values()), log_probs(net, given).detach()
    scores = torch.zeros_like(before)
    scores[0, place] = 1.0
    total = pecl_loss(log_probs(net, given), given, "full", Unlearning(form, 5.0, 0.6, margin), scores, before).sum()
    steps = torch.autograd.grad(total, parameters)
    with torch.no_grad():
        for parameter, slope in zip(parameters, steps, strict=True):
            parameter -= 1e-3 * slope
        after = log_probs(net, given)
    return float(after[0, place] - before[0, place]), float(tiny.row(steps).norm())


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
    given = tiny.batch()
    scores, reference = (given.role == TEXT).double(), torch.full(given.ids.shape, -1.0, dtype=torch.float64)
    likely, term = (reference - gap).requires_grad_(True), Unlearning("hinge", 1.0, 0.6, margin=1.0)
    inside = slopes(likely, given, "answer", term, scores, reference)[given.role == TEXT]
    assert (inside < 0).all() if gap < 1 else not inside.any()


@pytest.mark.parametrize("p", [1e-6, 0.3, 0.9])
@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_bounded_terms_have_their_closed_slopes(p: float, beta: float) -> None:
    """Unlikelihood: p / (1 - p). NPO: 2 p^beta / (p^beta + p_ref^beta), never above 2."""
    given = tiny.batch()
    scores, p_ref = (given.role == TEXT).double(), 0.2
    reference = torch.full(given.ids.shape, math.log(p_ref), dtype=torch.float64)
    length = given.mask[:, 1:].sum(1, keepdim=True)
    for form, expected in (("unlikelihood", p / (1 - p)), ("npo", 2 * p**beta / (p**beta + p_ref**beta))):
        likely = torch.full(given.ids.shape, math.log(p), dtype=torch.float64, requires_grad=True)
        found = -slopes(likely, given, "answer", Unlearning(form, 1.0, 0.6, beta=beta), scores, reference)
        inside = (found * length / 0.4)[given.role == TEXT]
        torch.testing.assert_close(inside, torch.full_like(inside, expected), rtol=1e-9, atol=0)
