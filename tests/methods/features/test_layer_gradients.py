"""Clipped sums of per-example gradients: against a loop, on neighbours, in pieces, and where memory does not suffice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcl_core.errors import BadInput
from dpcl_core.methods.features import side_by_side
from dpcl_core.methods.features.adapters import Adapted, Kind
from dpcl_core.methods.features.side_by_side import Gradients, clipped_sums
from tests.methods import small_network

KINDS: tuple[Kind, ...] = ("film", "lora", "all")


def one_by_one(module: Adapted, pictures: np.ndarray, labels: np.ndarray) -> Iterator[list[Tensor]]:
    """Gradients of each example alone, by autograd."""
    parameters = [parameter for _, parameter in module.trainable()]
    for picture, label in zip(pictures, labels, strict=True):
        loss = nn.functional.cross_entropy(module(torch.from_numpy(picture[None])), torch.tensor([label]))
        yield list(torch.autograd.grad(loss, parameters))


def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def summed(module: nn.Module, clip: float, pictures: np.ndarray, labels: np.ndarray, limit: int = 64) -> Tensor:
    """The sums of one batch, all in one row."""
    return joined(Gradients(module, clip, limit, "cpu").of(pictures, labels))


def sums_of_a_loop(module: Adapted, pictures: np.ndarray, labels: np.ndarray) -> tuple[float, Tensor]:
    """The median length of the examples' gradients, and the sum of those clipped to it, with one norm for all parameters."""
    gradients = [joined(parts) for parts in one_by_one(module, pictures, labels)]
    norms = torch.stack([gradient.norm() for gradient in gradients])
    clip = float(norms.median())
    assert int((norms > clip).sum()) not in {0, len(norms)}
    clipped = [g * min(1.0, clip / (float(n) + 1e-6)) for g, n in zip(gradients, norms, strict=True)]
    return clip, torch.stack(clipped).sum(0)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_equal_a_loop_over_examples_with_one_norm_for_all_parameters(kind: Kind) -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start(kind).module()
    clip, expected = sums_of_a_loop(module, pictures, labels)
    torch.testing.assert_close(summed(module, clip, pictures, labels), expected, rtol=0, atol=1e-12)


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


@pytest.mark.parametrize("of_whole", [True, False])
@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e200])
def test_example_whose_gradient_is_not_finite_counts_zero_in_every_parameter(broken: float, of_whole: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(5, *shape, generator=generator, dtype=torch.float64) for shape in ((3, 2), (4,))]
    product = torch.randn(5, 2, generator=generator, dtype=torch.float64), torch.ones(5, 3, dtype=torch.float64)

    def summed_from(first: int) -> list[Tensor]:
        grads = [*(part[first:] for part in parts), (product[0][first:], product[1][first:])]
        return clipped_sums(grads, torch.full((5 - first,), 1.5), torch.ones(1, 5 - first))

    whole = summed_from(1)
    where = parts[0][0, 1] if of_whole else product[0][0]
    where[1] = broken
    torch.testing.assert_close(summed_from(0), whole, rtol=0, atol=1e-14)
    if math.isinf(broken):
        product[1][0, 0] = 0.0  # zero times infinity
        torch.testing.assert_close(summed_from(0), whole, rtol=0, atol=1e-14)


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
    expected = torch.stack([joined(parts) for parts in one_by_one(module, pictures, labels)]).sum(0)
    for clip in (math.inf, 1e12):
        torch.testing.assert_close(summed(module, clip, pictures, labels), expected, rtol=0, atol=1e-10)


def test_nobody_in_the_batch_gives_zeros() -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start("lora").module()
    found = Gradients(module, 1.0, 64, "cpu").of(pictures[:0], labels[:0])
    assert [part.shape for part in found] == [parameter.shape for _, parameter in module.trainable()]
    assert not joined(found).any()


@pytest.mark.parametrize("clip", [0.3, math.inf])
@pytest.mark.parametrize("kind", KINDS[:2])  # a network that is trained as a whole is computed in single precision
def test_what_is_trained_stays_in_single_precision_under_a_network_in_half(
    kind: Kind, clip: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor's bfloat16 in place of a card's: products of frozen layers have 8 bits, and sums agree to some 2^-8."""
    pictures, labels = small_network.pictures()
    module = small_network.start(kind, double=False).module()
    exact = summed(module, clip, pictures, labels)
    monkeypatch.setattr(side_by_side, "mixed_precision", lambda device: torch.autocast("cpu", dtype=torch.bfloat16))
    seen: list[torch.dtype] = []
    gradients = Gradients(module, clip, 64, "cpu")
    for layer in gradients.layers:
        layer.register_forward_hook(lambda layer, args, out: seen.append(out.dtype))
    rough = joined(gradients.of(pictures, labels))
    assert len(seen) == len(gradients.layers)
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
    with pytest.raises(MemoryError, match="one picture"):
        summed(Cramped(module, 0), clip, pictures, labels)


def test_the_network_has_no_trace_of_the_computation_and_shares_its_numbers() -> None:
    pictures, labels = small_network.pictures()
    module = small_network.start("film").module()
    before = module(torch.from_numpy(pictures)).detach()
    gradients = Gradients(module, 1.0, 64, "cpu")
    gradients.of(pictures, labels)
    assert not any(part._forward_hooks or part._backward_hooks for part in module.modules())
    assert torch.equal(module(torch.from_numpy(pictures)), before)
    gradients.weights.zero_()
    assert not any(parameter.any() for _, parameter in module.trainable())


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clips", [[0.2, 0.5, 1e9], [0.2, math.inf, 0.5], [math.inf] * 3])
def test_models_side_by_side_have_the_sums_that_each_has_alone(kind: Kind, clips: list[float]) -> None:
    """Three models and batches of which some share pictures, mixed in pieces of every size; one batch is empty."""
    pictures, labels = small_network.pictures()
    starts = [small_network.start(kind) for _ in clips]
    for place, start in enumerate(starts):
        for weight in start.weights.values():
            weight *= 1 + place
    batches = [np.array([0, 3, 4, 7, 9]), np.array([], np.int64), np.array([1, 3, 11])]
    alone = [
        summed(start.module(), clip, pictures[batch], labels[batch])
        for start, clip, batch in zip(starts, clips, batches, strict=True)
    ]
    rows, models = np.concatenate(batches), np.repeat(np.arange(3), [len(batch) for batch in batches])
    for limit in (1, 4, 64):
        together = Gradients([start.module() for start in starts], clips, limit, "cpu")
        found = together.sums(pictures, rows, labels[rows], models)
        torch.testing.assert_close(found, torch.stack(alone), rtol=0, atol=1e-12)
    assert len({tuple(row.tolist()) for row in found}) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_beside_it_that_is_not_finite_changes_nothing(kind: Kind) -> None:
    pictures, labels = small_network.pictures()
    modules = [small_network.start(kind).module() for _ in range(2)]
    everyone = np.arange(len(labels))
    alone = summed(small_network.start(kind).module(), 0.3, pictures[:6], labels[:6])
    together = Gradients(modules, 0.3, 64, "cpu")
    together.weights[1] = 1e200
    found = together.sums(pictures, everyone, labels, everyone // 6)
    torch.testing.assert_close(found[0], alone, rtol=0, atol=1e-12)
    assert not found[1].any()


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.LayerNorm((4, 6)), nn.LayerNorm(6, bias=False)])
def test_norms_of_every_form_scale_by_each_examples_own_numbers(norm: nn.LayerNorm) -> None:
    check_alone(partial(side_by_side._Scale, layer=norm), norm, torch.randn(3, 5, 4, 6))


@pytest.mark.parametrize("has_bias", [True, False])
def test_layers_that_mix_do_so_with_each_examples_own_numbers(has_bias: bool) -> None:
    check_alone(side_by_side._Mix, nn.Linear(6, 2, has_bias), torch.randn(3, 5, 4, 6))
    check_alone(side_by_side._Mix, nn.Conv2d(5, 2, 1, bias=has_bias), torch.randn(3, 5, 4, 6))


def test_a_norm_over_the_channels_of_maps_is_told_from_one_over_the_last_dimension() -> None:
    class OfMaps(nn.LayerNorm):
        """As timm's and ConvNeXts of other packages have it."""

        def forward(self, maps: Tensor) -> Tensor:
            last = maps.permute(0, 2, 3, 1)
            return nn.functional.layer_norm(last, self.normalized_shape, self.weight, self.bias).permute(0, 3, 1, 2)

    check_alone(partial(side_by_side._Scale, layer=(norm := OfMaps(5))), norm, torch.randn(3, 5, 4, 6))


def check_alone(make: Callable[..., side_by_side._SideBySide], alone: nn.Module, maps: Tensor) -> None:
    """Outputs and gradients beside the layer's own, example by example; two models, the second's numbers larger by one."""
    layer = make("name", [torch.stack([one, one + 1]).detach() for one in alone.parameters()])
    layer.begin(torch.tensor([0, 1, 1]))
    maps.requires_grad_()
    out = layer(maps)
    goal = torch.randn(out.shape)
    grads = torch.autograd.grad((out * goal).sum(), [maps, *layer.leaves()])
    for place, offset in enumerate((0, 1, 1)):
        with torch.no_grad():
            for parameter in alone.parameters():
                parameter += offset
        one = alone(maps[place : place + 1])
        torch.testing.assert_close(out[place : place + 1], one)
        own = torch.autograd.grad((one * goal[place]).sum(), [maps, *alone.parameters()])
        for found, expected in zip((grads[0][place], *(part[place] for part in grads[1:])), own, strict=False):
            torch.testing.assert_close(found, expected[place] if expected.shape == maps.shape else expected)
        with torch.no_grad():
            for parameter in alone.parameters():
                parameter -= offset
