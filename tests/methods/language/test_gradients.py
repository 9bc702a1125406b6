"""Clipped sums of gradients of adapters on texts, in single precision and in half, and what holds earlier tasks."""

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import causal
from dpcl_core.backbones.gpu import half_precision
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.language import gradients, olora, public_text
from dpcl_core.methods.language.gradients import Batch, Gradients, TextLoss, batch_of, log_probs
from dpcl_core.methods.language.training import Descent, Memory, input_norms, private_steps, task_loss
from dpcl_core.privacy.noise import Batches, ReleaseNoise, SeededNoise
from dpcl_core.spec import Cell
from tests.backbones import language_models
from tests.methods.clipped_sums import Sums
from tests.methods.language import tiny
from tests.methods.language.tiny import ALL
from tests.support import asserting, second_device


@pytest.mark.parametrize("kind", ["answer", "full"])
@pytest.mark.parametrize("at_once", [64, 3])
def test_texts_are_clipped_one_by_one_as_in_a_loop(kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gradients.SIDE_BY_SIDE, "cpu", at_once)
    net, loss = tiny.adapted(), task_loss(kind)  # type: ignore[arg-type]
    clip, each = Sums(len(ALL), NotImplemented, lambda place: tiny.gradient(net, place, loss)).loop()
    found = torch.zeros_like(each)
    for rows, clipped in Gradients(net, clip).each(tiny.batch(), loss):
        found[rows] = clipped
    torch.testing.assert_close(found, each, rtol=0, atol=1e-12 * float(each.norm()))


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
    assert not tiny.row(found.of(tiny.batch(ALL[2:3]), TextLoss(with_one_broken))).any()


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
    for answers_only, expected in ((False, table), (True, table * (batch.role == public_text.ANSWER))):
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
    assert {parameter.dtype for parameter in net.model.parameters() if not parameter.requires_grad} == {dtype}
    means = noisy_means(Gradients(net, 0.5).of(tiny.batch(), task_loss("full")), 8.0, 0.1, ReleaseNoise())
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
        stack = olora.Stack(net)
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
        assert net(net.embed(ids), torch.ones_like(ids)).dtype is torch.float32


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
    asserting.refuses("one text", cramped.of, batch, loss, error=MemoryError)


def test_pieces_on_a_card_are_as_large_as_its_memory_and_independent_of_who_is_in_them() -> None:
    texts, loss = tiny.texts(), TextLoss(lambda values, batch: -values.sum(dim=1))
    # By hand for 16 tokens: 79,872 bytes in two layers, 9,984 for logits, 6,144 for gradients; 21 of them fit
    # into 2 MB, and 14 of 24 tokens.
    for free, expected in ((1 << 40, {16: 64, 24: 64, 32: 64}), (1 << 22, {16: 16, 24: 8, 32: 8})):
        sizes = []
        for rows in (ALL, ALL[:1]):
            with second_device.attached(free=free):
                on_card = Gradients(tiny.adapted(dtype=torch.float32).to(second_device.NAME), 0.3)
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
    assert float(memory.penalty().detach()) == pytest.approx(l_reg(6.4, memory.omega_bar, changes(net, then)), rel=1e-12)


def test_as_printed_omega_bar_counts_the_task_that_is_learned() -> None:
    """Eqs. 9 and 10 with i <= k: in the first task, too, as the adapters are at that step, and without a gradient."""
    net = tiny.adapted()
    memory, start = Memory(net, 1.0, 10.0), products(net)
    memory.open(0.4, [2.0, 3.0])
    moved(net, 1)
    first = omega(changes(net, start), (2.0, 3.0))
    assert float(memory.penalty().detach()) == pytest.approx(l_reg(6.4, first, changes(net, start)), rel=1e-12)
    memory.remember([2.0, 3.0])
    middle = products(net)
    memory.open(1.0, [5.0, 1.0])
    moved(net, 2)
    assert memory.omega_bar == pytest.approx(np.mean([first, omega(changes(net, middle), (5.0, 1.0))], axis=0))
    slopes = torch.autograd.grad(memory.penalty(), list(net.trainable().values()))
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
    assert 0 < found[0] == pytest.approx(found[1], rel=1e-12)


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
    assert whole == pytest.approx([float(np.mean(norms)) for norms in seen.values()], rel=1e-9)
    monkeypatch.setattr("dpcl_core.methods.language.gradients.AT_ONCE", 3)
    assert input_norms(net, texts, "cpu") == pytest.approx(whole, rel=1e-12)
    assert input_norms(net, tiny.texts(strings=()), "cpu") == [0.0, 0.0]
