"""Clipped sums of per-example gradients: against a loop, on neighbours, in pieces, and where memory does not suffice."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcl_core.errors import BadInput
from dpcl_core.methods.features import adapters
from dpcl_core.methods.features.adapters import Adapted, Gradients, Kind, clipped_sums
from tests.methods import small_network

KINDS: tuple[Kind, ...] = ("film", "lora")


def one_by_one(module: Adapted, pictures: np.ndarray, labels: np.ndarray) -> Iterator[list[Tensor]]:
    """Gradients of each example alone, by autograd."""
    parameters = [parameter for _, parameter in module.trainable()]
    for picture, label in zip(pictures, labels, strict=True):
        loss = nn.functional.cross_entropy(module(torch.from_numpy(picture[None])), torch.tensor([label]))
        yield list(torch.autograd.grad(loss, parameters))


def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def summed(module: nn.Module, clip: float, pictures: np.ndarray, labels: np.ndarray, limit: int = 64) -> Tensor:
    """The sums of one batch, all in one row, and no hooks left behind."""
    gradients = Gradients(module, clip, limit, "cpu")
    try:
        return joined(gradients.of(pictures, labels))
    finally:
        gradients.close()


@pytest.mark.parametrize("kind", KINDS)
def test_sums_equal_a_loop_over_examples_with_one_norm_for_all_parameters(kind: Kind) -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start(kind).module()
    gradients = [joined(parts) for parts in one_by_one(module, pictures, labels)]
    norms = torch.stack([gradient.norm() for gradient in gradients])
    clip = float(norms.median())
    expected = sum(g * min(1.0, clip / (float(n) + 1e-6)) for g, n in zip(gradients, norms, strict=True))
    found = summed(module, clip, pictures, labels)
    assert int((norms > clip).sum()) not in {0, len(norms)}
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_one_example_changes_the_sums_by_at_most_the_clipping_norm(kind: Kind) -> None:
    pictures, labels = small_network.pictures()
    pictures[3], pictures[4] = 0, 255
    gradients = Gradients(small_network.start(kind).module(), 0.2, 64, "cpu")
    whole = joined(gradients.of(pictures, labels))
    changes = [
        float((whole - joined(gradients.of(np.delete(pictures, k, 0), np.delete(labels, k)))).norm())
        for k in range(len(labels))
    ]
    assert max(changes) <= 0.2 + 1e-12
    assert max(changes) > 0.2 - 1e-5  # reached: no looser bound holds


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e200])
def test_example_whose_gradient_is_not_finite_counts_zero_in_every_parameter(broken: float) -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(5, *shape, generator=generator, dtype=torch.float64) for shape in ((3, 2), (4,))]
    whole = clipped_sums([part[1:] for part in parts], 1.5)
    parts[0][0, 1, 1] = broken
    torch.testing.assert_close(clipped_sums(parts, 1.5), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clip", [0.3, math.inf])
def test_pieces_change_the_sums_by_rounding_alone(kind: Kind, clip: float) -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start(kind).module()
    sums = [summed(module, clip, pictures, labels, limit) for limit in (64, 5, 1)]
    torch.testing.assert_close(sums[1], sums[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(sums[2], sums[0], rtol=0, atol=1e-12)


def test_without_clipping_the_sums_are_those_of_a_very_long_norm() -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start("film").module()
    plain, hooked = (summed(module, clip, pictures, labels) for clip in (math.inf, 1e12))
    torch.testing.assert_close(plain, hooked, rtol=0, atol=1e-10)


def test_nobody_in_the_batch_gives_zeros() -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start("lora").module()
    found = Gradients(module, 1.0, 64, "cpu").of(pictures[:0], labels[:0])
    assert [part.shape for part in found] == [parameter.shape for _, parameter in module.trainable()]
    assert not joined(found).any()


@pytest.mark.parametrize("clip", [0.3, math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_trained_stays_in_single_precision_under_a_network_in_half(
    kind: Kind, clip: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor's bfloat16 in place of a card's: products of frozen layers have 8 bits, and sums agree to some 2^-8."""
    pictures, labels = small_network.pictures()
    module = small_network.start(kind, double=False).module()
    exact = summed(module, clip, pictures, labels)
    monkeypatch.setattr(adapters, "mixed_precision", lambda device: torch.autocast("cpu", dtype=torch.bfloat16))
    seen: list[torch.dtype] = []
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and layer.weight.requires_grad:
            layer.register_forward_hook(lambda layer, args, out: seen.append(out.dtype))
    rough = summed(module, clip, pictures, labels)
    assert {parameter.dtype for _, parameter in module.trainable()} | set(seen) == {torch.float32}
    assert 0 < float((rough - exact).norm()) < 16 * 2**-8 * float(exact.norm())


class Cramped(nn.Module):
    """Runs out of memory behind its last hooked layer when more than `room` pictures come at once."""

    def __init__(self, inside: Adapted, room: int) -> None:
        super().__init__()
        self.inside, self.room = inside, room

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.inside(pixels)
        if len(pixels) > self.room:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return logits


@pytest.mark.parametrize("clip", [0.3, math.inf])
def test_where_memory_does_not_suffice_pieces_become_smaller_and_the_sums_stay(clip: float) -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start("film").module()
    expected = summed(module, clip, pictures, labels)
    cramped = Gradients(Cramped(module, 3), clip, 64, "cpu")
    for _ in range(2):
        torch.testing.assert_close(joined(cramped.of(pictures, labels)), expected, rtol=0, atol=1e-12)
        assert cramped.limit == (3 if math.isinf(clip) else 2)  # a piece of 64 is filled up, whoever is in the batch
    cramped.close()
    with pytest.raises(MemoryError, match="one picture"):
        summed(Cramped(module, 0), clip, pictures, labels)


def test_closing_takes_every_trace_of_the_hooks_off() -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start("film").module()
    gradients = Gradients(module, 1.0, 64, "cpu")
    gradients.of(pictures, labels)
    gradients.close()
    assert not any(part._forward_hooks or part._backward_hooks or hasattr(part, "activations") for part in module.modules())
    assert not any(hasattr(parameter, "grad_sample") for parameter in module.parameters())


def test_layer_that_sees_a_picture_in_pieces_is_refused_rather_than_clipped_wrongly() -> None:
    class Windows(nn.Module):
        """Two halves of each picture as if they were two pictures, as networks with windowed attention do."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, 4)

        def forward(self, pixels: Tensor) -> Tensor:
            halves = self.inner(pixels.float().mean((2, 3)).reshape(-1, 6))
            logits: Tensor = self.head(halves.reshape(len(pixels), -1, 6).mean(1))
            return logits

    pictures, labels = np.zeros((3, 12, 4, 3), np.uint8), np.zeros(3, np.int64)
    with pytest.raises(BadInput, match=r"keep pictures apart in every layer; inner\.weight"):
        Gradients(Windows(), 1.0, 64, "cpu").of(pictures, labels)
