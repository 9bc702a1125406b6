"""Adapters in single precision over a base in half: types, steps that stay finite, and pieces that fit into a card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcl_core.backbones import causal
from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.gpu import half_precision
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.language import gradients
from dpcl_core.methods.language.gradients import Batch, Gradients, TextLoss, batch_of, log_probs
from dpcl_core.methods.language.losses import task_loss
from dpcl_core.methods.language.olora import Stack
from dpcl_core.methods.language.training import Descent, private_steps
from dpcl_core.privacy.noise import Batches, ReleaseNoise, SeededNoise
from dpcl_core.spec import Cell
from tests.backbones import language_models
from tests.methods.language import tiny
from tests.support import second_device

HALVES = (torch.float16, torch.bfloat16)
EVERYONE = np.arange(len(tiny.STRINGS))


def over(dtype: torch.dtype) -> Adapted:
    """Adapters on a frozen model of this precision."""
    return Adapted(tiny.frozen().to(dtype), 3, 6.0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", HALVES)
def test_adapters_over_a_base_in_half_are_in_single_precision_and_so_is_their_optimiser(dtype: torch.dtype) -> None:
    net, exact = over(dtype), over(torch.float32)
    for parameter, same in zip(net.trainable().values(), exact.trainable().values(), strict=True):
        torch.testing.assert_close(parameter, same, rtol=0, atol=0)  # single precision, and not rounded on the way
    frozen = {parameter.dtype for parameter in net.model.parameters() if not parameter.requires_grad}
    assert frozen == {dtype}
    sums = Gradients(net, 0.5).of(batch_of(tiny.texts(), EVERYONE, "cpu"), task_loss("full"))
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
        batch = batch_of(tiny.texts(), EVERYONE, "cpu")
        ends.append(log_probs(net, batch)[batch.mask].float())
        assert {tensor.dtype for below in stack.frozen for pair in below.pairs for tensor in pair} == {torch.float32}
    torch.testing.assert_close(*ends, rtol=0.1, atol=0.1)  # eight bits of a bfloat16 through two blocks


@pytest.mark.parametrize("dtype", HALVES)
def test_noisy_steps_over_a_base_in_half_follow_those_in_single_precision(dtype: torch.dtype) -> None:
    """The same batches and noise: after 30 steps weights differ by the base's rounding, and none has diverged."""
    plan = Schedule(sample_rate=0.5, n_steps=30, clip_norm=0.4, learning_rate=0.02, expected_batch=4.0)
    ends: list[Tensor] = []
    for net in (over(dtype), over(torch.float32)):
        noise, batches = SeededNoise(Cell(1.0, 0), "x"), Batches(plan.sample_rate, 0, "y")
        texts = tiny.texts()
        assert len(list(private_steps(net, texts, plan, 0.3, batches, noise, task_loss("full"), device="cpu"))) == 30
        ends.append(tiny.row([parameter.detach() for parameter in net.trainable().values()]))
    assert ends[0].isfinite().all()
    assert 0 < float((ends[0] - ends[1]).norm()) < 0.3 * float(ends[1].norm())


def test_a_text_has_the_same_gradient_bits_beside_any_others_in_the_precision_that_this_processor_computes_in() -> None:
    """As wide as smollm2: kernels divide narrow and wide products among blocks differently."""
    dtype = half_precision("cpu") or torch.float32
    net = Adapted(tiny.frozen(width=576, n_layer=1).to(dtype), 3, 6.0, 0)  # type: ignore[arg-type]
    texts, sums = tiny.texts(), Gradients(net, 0.5)
    together: dict[int, Tensor] = {}
    for rows, gradients_of in sums.each(batch_of(texts, EVERYONE, "cpu"), task_loss("full")):
        together |= dict(zip(rows.tolist(), gradients_of, strict=True))
    for place in EVERYONE:
        ((_, alone),) = sums.each(batch_of(texts, EVERYONE[place : place + 1], "cpu"), task_loss("full"))
        assert alone.any()
        assert torch.equal(alone[0], together[int(place)])


@pytest.mark.parametrize(("capability", "base"), [((7, 5), torch.float32), ((8, 0), torch.bfloat16)])
def test_a_model_stored_in_float16_never_computes_in_it_and_its_logits_are_single(
    capability: tuple[int, int], base: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GPT2LMHeadModel

    folder = language_models.put(tmp_path / "model")
    GPT2LMHeadModel.from_pretrained(folder).half().save_pretrained(folder)
    monkeypatch.setattr("dpcl_core.backbones.packaged.HubFolders.folder", lambda self, name: folder)
    causal._frozen.cache_clear()
    with second_device.attached(capability=capability):
        net = causal.adapted("hf:some/model", second_device.NAME, 2, 4.0, 0)
        assert all(second_device.is_on_card(tensor) for tensor in net.state_dict().values())
        assert next(net.model.parameters()).dtype is base
        ids = torch.arange(6, device=second_device.NAME)[None]
        logits = net(net.embed(ids), torch.ones_like(ids))
        assert logits.dtype is torch.float32
    causal._frozen.cache_clear()


def test_likelihoods_that_are_shown_come_from_single_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import GPT2LMHeadModel

    folder = language_models.put(tmp_path / "model")
    GPT2LMHeadModel.from_pretrained(folder).half().save_pretrained(folder)
    monkeypatch.setattr("dpcl_core.backbones.packaged.HubFolders.folder", lambda self, name: folder)
    monkeypatch.setattr(causal, "half_precision", lambda device: torch.bfloat16)
    found = []
    for single in (False, True):
        causal._frozen.cache_clear()
        found.append(next(causal.load("hf:some/model", single=single).parameters()).dtype)
    assert found == [torch.bfloat16, torch.float32]
    causal._frozen.cache_clear()


def test_a_model_on_the_processor_opens_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the random state of a card would open it and hold its memory."""

    def opened(device: object = None) -> Tensor:
        raise AssertionError("a card was opened")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", opened)
    causal._frozen.cache_clear()
    causal.adapted("lm-tiny", "cpu", 2, 4.0, 0)


class Cramped(Adapted):
    """Runs out of memory where more than `room` tokens are read at once, and notes what it read."""

    room: int
    read: list[tuple[int, int]]

    def embed(self, ids: Tensor) -> Tensor:
        self.read.append((len(ids), ids.shape[1]))
        if ids.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().embed(ids)


def test_texts_of_a_shape_that_does_not_fit_come_in_smaller_pieces_and_others_as_before() -> None:
    strings = ("the cat", "a dog and the cow", "x", "call me at nine")
    texts = tiny.prompted(tiny.Letters(), tiny.encoded(strings, 40), np.arange(4) % 3, tiny.CLASSES, "pets")  # type: ignore[arg-type]
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
    # By hand for 16 tokens: 79,872 bytes in two layers, 9,984 for logits, 6,144 for gradients; 21 of them fit into 2 MB.
    for free, expected in ((1 << 40, {16: 64, 32: 64}), (1 << 22, {16: 16, 32: 8})):
        sizes = []
        for rows in (EVERYONE, EVERYONE[:1]):
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
    batch: Batch = batch_of(tiny.texts(), EVERYONE[:2], "cpu")
    assert log_probs(tiny.adapted(dtype=torch.float32), batch).dtype is torch.float32
