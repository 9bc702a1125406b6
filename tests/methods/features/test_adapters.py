"""Adapters: clipped sums of gradients against a loop, training against Opacus, what is trained and what is not."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcl_core.backbones import adaptable, catalog, extractor
from dpcl_core.backbones.adaptable import Input, Network, Pictures
from dpcl_core.data.dataset import Images
from dpcl_core.errors import BadInput, Diverged
from dpcl_core.methods.common.dpsgd import ROUNDING
from dpcl_core.methods.features import adapters, linear_heads, side_by_side
from dpcl_core.methods.features.adapters import Adapted, Kind, refuse, targets
from dpcl_core.methods.features.side_by_side import Gradients, clipped_sums
from dpcl_core.privacy.noise import Batches, Noise, ReleaseNoise
from tests.methods import small_network
from tests.methods.clipped_sums import row
from tests.methods.training import N_FEATURES, Prescribed, Recorded, Silent, data, plan, spreads, told, trained_heads
from tests.support.asserting import refuses

KINDS: tuple[Kind, ...] = ("film", "lora", "all")


def summed(module: nn.Module, clip: float, pictures: np.ndarray, labels: np.ndarray) -> Tensor:
    """The sums of one batch, all in one row."""
    return row(Gradients(module, clip, 64, "cpu").of(pictures, labels))


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


@pytest.mark.parametrize("clip", [0.3, math.inf])
@pytest.mark.parametrize("kind", KINDS[:2])  # a network that is trained as a whole is computed in single precision
def test_what_is_trained_stays_single_under_half(kind: Kind, clip: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's bfloat16 in place of a card's: products of frozen layers have 8 bits, and sums agree to some 2^-8."""
    pictures, labels = small_network.pictures()
    module = small_network.start(kind, double=False).module()
    exact = summed(module, clip, pictures, labels)
    monkeypatch.setattr(side_by_side, "mixed_precision", lambda device: torch.autocast("cpu", dtype=torch.bfloat16))
    seen: list[torch.dtype] = []
    gradients = Gradients(module, clip, 64, "cpu")
    for layer in gradients.layers:
        layer.register_forward_hook(lambda layer, args, out: seen.append(out.dtype))
    rough = row(gradients.of(pictures, labels))
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
        torch.testing.assert_close(row(cramped.of(pictures, labels)), expected, rtol=0, atol=1e-12)
        assert cramped.limit == (3 if math.isinf(clip) else 2)  # a piece of 64 is filled up, whoever is in the batch
    refuses("one picture", summed, Cramped(module, 0), clip, pictures, labels, error=MemoryError)


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
    refuses(r"keep pictures apart in every layer; inner\.weight", Gradients(Windows(), 1.0, 64, "cpu").of, pictures, labels)


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


# Training of adapters: against Opacus' own optimizer, its noise against its law, and what it may depend on.


TRAINED: tuple[Kind, ...] = ("film", "lora")
BATCHES = ([0, 3, 4, 7, 9], [1, 2, 5], [], [11, 8], [6, 0, 1, 2], [10])


def after(
    start: adapters.Adapter, pictures: np.ndarray, labels: np.ndarray, noise: object, sigma: float = 1.3,
    batches: object = None, **changes: float,
) -> adapters.Adapter:  # fmt: skip
    drawn = Prescribed(BATCHES) if batches is None else batches
    schedule = plan(**changes)
    training = adapters.Training(start, pictures, labels, sigma, cast(Batches, drawn), cast(Noise, noise))
    steps, (trained,) = told(adapters.train_together([training], schedule))
    assert steps == list(range(1, schedule.n_steps + 1))
    return trained


def numbers_of(model: adapters.Adapter) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in model.weights.values()])


class OfHeads:
    """Last layers, apart from Opacus' by the grid on which our sums are exact, 2^-22 of the clipping norm."""

    apart, rounding = 2e-7, 0.0
    data = staticmethod(data)

    def start(self, space: Sequence[int] = range(4)) -> linear_heads.Heads:
        return linear_heads.fresh([space], N_FEATURES, 4, np.float64)

    def after(
        self, start: linear_heads.Heads, features: np.ndarray, labels: np.ndarray, noise: Any, sigma: float = 1.3,
        batches: Any = None, **changes: float,
    ) -> linear_heads.Heads:  # fmt: skip
        drawn = Prescribed(BATCHES) if batches is None else batches
        return trained_heads(start, features, labels, plan(**changes), [sigma], drawn, [noise])

    def numbers(self, model: linear_heads.Heads) -> Tensor:
        return torch.from_numpy(model.weights[0])

    def twin(self, start: linear_heads.Heads) -> nn.Module:
        module = nn.Linear(N_FEATURES, 4).double()
        for parameter in module.parameters():
            nn.init.zeros_(parameter)
        return module

    def pieces(self, values: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [values[:, :-1].clone(), values[:, -1].clone()]


class OfAdapters:
    """Their noise leaves something for single precision, which that of Opacus does not."""

    apart, rounding = 1e-10, ROUNDING
    data = staticmethod(small_network.pictures)
    after = staticmethod(after)
    numbers = staticmethod(numbers_of)

    def __init__(self, kind: Kind) -> None:
        self.start = partial(small_network.start, kind)

    def twin(self, start: adapters.Adapter) -> nn.Module:
        return start.module()

    def pieces(self, values: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        parts = torch.split(values, [parameter.numel() for parameter in parameters])
        return [part.reshape(parameter.shape) for part, parameter in zip(parts, parameters, strict=True)]


WAYS: dict[str, Any] = {"heads": OfHeads(), **{kind: OfAdapters(kind) for kind in TRAINED}}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("name", WAYS)
def test_training_equals_opacus_on_the_same_batches_and_noise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trained number after six steps of Opacus' hooks and optimizer, with Adam, in float64; one batch is empty."""
    from opacus import GradSampleModule, optimizers

    way, sigma, schedule = WAYS[name], 1.3, plan()
    (examples, labels), start = way.data(), way.start()
    draws = torch.from_numpy(np.random.default_rng(1).standard_normal((len(BATCHES), *way.numbers(start).shape)))
    found = way.after(start, examples, labels, Recorded([draw.numpy() for draw in draws]), sigma)

    module = way.twin(start)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for part in module.modules():
        part.training = any(parameter.requires_grad for parameter in part.parameters(recurse=False))
    wrapped = GradSampleModule(module, loss_reduction="sum")
    waiting: list[Tensor] = []
    adam = torch.optim.Adam(parameters, lr=schedule.learning_rate)
    monkeypatch.setattr(optimizers.optimizer, "_generate_noise", lambda std, reference, **_: std * waiting.pop(0))
    optimizer = optimizers.DPOptimizer(
        adam, noise_multiplier=sigma, max_grad_norm=schedule.clip_norm, expected_batch_size=schedule.expected_batch,
        loss_reduction="mean",
    )  # fmt: skip
    for batch, draw in zip(BATCHES, draws, strict=True):
        waiting[:] = way.pieces((1 + way.rounding) * draw, parameters)
        optimizer.zero_grad()
        logits = wrapped(torch.from_numpy(examples[batch]))
        nn.functional.cross_entropy(logits, torch.from_numpy(labels[batch]), reduction="sum").backward()
        optimizer.step()
    ours, before = (way.pieces(way.numbers(model), parameters) for model in (found, start))
    for one, theirs, then in zip(ours, parameters, before, strict=True):
        torch.testing.assert_close(one, theirs.detach(), rtol=0, atol=way.apart)
        assert not torch.allclose(one, then, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_of_a_step_has_the_announced_spread(dtype: torch.dtype) -> None:
    """Chi-square of 48,000 draws on an empty batch: false alarm 1e-6; a spread 10 % wrong would be seen always."""
    sums = [torch.zeros(300, 50, dtype=dtype), torch.zeros(1000, dtype=dtype)]
    std = plan().noise_std(1.6)
    rounds = [adapters.noisy_means(sums, 9.0, std, ReleaseNoise()) for _ in range(3)]
    drawn = torch.cat([part.flatten().double() for parts in rounds for part in parts])
    assert std == pytest.approx(1.6 * 0.7 * (1 + ROUNDING) / 9.0)
    assert [spreads(drawn.numpy(), factor * std) for factor in (1, 0.9, 1.1)] == [True, False, False]


@pytest.mark.parametrize("name", WAYS)
def test_examples_outside_the_label_space_change_nothing(name: str) -> None:
    """The filtered data are trained on: neither a step nor the drawing of batches depends on what was filtered out."""
    way = WAYS[name]
    start, (examples, labels), (others, _) = way.start((1, 3)), way.data(n=20), way.data(n=7, seed=9)
    labels, places = np.array([1, 3])[labels % 2], [0, 5, 5, 9, 20, 20, 20]
    mixed = np.insert(examples, places, others, axis=0), np.insert(labels, places, [2, 0, 2, 9, 5, 0, 2])
    draws = np.random.default_rng(4).standard_normal((6, *way.numbers(start).shape))
    alone, filtered = (
        way.after(start, *given, Recorded(draws), batches=Batches(0.3, 1)) for given in ((examples, labels), mixed)
    )
    assert torch.equal(way.numbers(alone), way.numbers(filtered))
    assert not torch.equal(way.numbers(alone), way.numbers(start))
    logits = filtered.logits(mixed[0])
    assert np.isneginf(logits[..., [0, 2]]).all()
    assert np.isfinite(logits[..., [1, 3]]).all()


def test_a_task_without_examples_takes_the_same_noisy_steps() -> None:
    """Every number moves, by about the learning rate a step, as it does when only noise is in a batch."""
    pictures, labels = small_network.pictures(n=0)
    start = adapters.fresh(small_network.network(), "film", 0, range(4), 4, 0)
    found = after(start, pictures, labels, ReleaseNoise(), batches=Batches(0.3, None))
    moved = (numbers_of(found) - numbers_of(start)).abs()
    assert float((moved > 0).double().mean()) == 1.0
    assert 0.01 < float(moved.mean()) < 0.3


@pytest.mark.parametrize("name", WAYS)
def test_without_noise_nothing_is_clipped(name: str) -> None:
    way = WAYS[name]
    tight, loose = (way.after(way.start(), *way.data(), Silent(), 0.0, clip_norm=norm) for norm in (1e-3, 1e3))
    assert torch.equal(way.numbers(tight), way.numbers(loose))


@pytest.mark.parametrize("name", WAYS)
def test_training_from_an_earlier_model_goes_on_from_it_and_leaves_it_as_it_was(name: str) -> None:
    way = WAYS[name]
    models = [way.start()]
    before = [way.numbers(models[0]).clone()]
    for _ in range(2):
        models.append(way.after(models[-1], *way.data(), Silent(), n_steps=3))
        before.append(way.numbers(models[-1]).clone())
    assert all(torch.equal(way.numbers(model), own) for model, own in zip(models, before, strict=True))
    moves = [float((now - then).norm()) for then, now in pairwise(before)]
    assert min(moves) > 1e-3
    assert float((before[2] - before[0]).norm()) < sum(moves) + 1e-9


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_training_that_diverges_stops_at_once_and_names_step_and_learning_rate(sigma: float) -> None:
    """Long before a number overflows, whether noise pushes the weights or the data alone."""
    pictures, labels = small_network.pictures()
    pushing: Any = SimpleNamespace(added32=lambda clean, std: clean + np.float32(std))  # always one way
    start = small_network.start("film", double=False)
    training = adapters.Training(start, pictures, labels, sigma, Batches(0.5, 0), pushing)
    steps = adapters.train_together([training], plan(learning_rate=400.0, n_steps=40))
    taken = []
    refuses(r"diverged at step \d+ of 40 with params\.learning_rate = 400", taken.extend, steps, error=Diverged)
    assert 1 <= len(taken) < 20


@pytest.mark.parametrize("kind", TRAINED)
def test_two_kinds_of_pictures_are_learned_and_told_apart(kind: Kind) -> None:
    """Bright left halves against bright right ones, in one precision, from the network as it is, without noise."""
    pictures = np.random.default_rng(0).integers(0, 100, (40, 16, 16, 3), dtype=np.uint8)
    labels = np.arange(40) % 2
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, 8 * label : 8 * label + 8] += 120
    start = adapters.fresh(small_network.network(double=False), kind, 2, (1, 2), 4, 0)
    found = after(start, pictures, labels + 1, Silent(), 0.0, Batches(0.5, 0), n_steps=30, expected_batch=20.0)
    logits = found.logits(pictures)
    assert logits.shape == (40, 4)
    assert np.isneginf(logits[:, [0, 3]]).all()
    assert float((logits.argmax(1) == labels + 1).mean()) > 0.9


# What film and lora train: how many numbers, starting where, and which networks they refuse.


BUNDLED = [card.name for card in catalog.CARDS.values() if card.module == "dpcl_core.backbones.bundled"]


def of_timm(model: str) -> Network:
    """A model of timm without weights and without memory for any."""
    from dpcl_core.backbones.weights import ensure_torchvision

    if ensure_torchvision() == "absent":
        pytest.skip("torchvision is not installed")
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        made = timm.create_model(model, pretrained=False, num_classes=0)
        pictures = Pictures(made.eval().requires_grad_(False), Input(224, 3, "bicubic"), (127.5,) * 3, (127.5,) * 3)
    return Network(f"timm:{model}", pictures, 768, "cpu")


def n_adapted(module: Adapted) -> int:
    return sum(parameter.numel() for name, parameter in module.trainable() if not name.startswith("head."))


def test_film_of_the_papers_network_has_38400_numbers_in_25_norms() -> None:
    module = Adapted(of_timm("vit_base_patch16_224.augreg_in21k"), "film", 0, 100)
    names = [name for name, _ in module.trainable()]
    assert n_adapted(module) == 38_400
    assert len(names) == 2 * 25 + 2
    assert any(name.endswith("network.norm.weight") for name in names)  # the final one, which has no dot before "norm"
    assert sum(parameter.numel() for _, parameter in module.trainable()) == 115_300  # with a last layer of 100 classes


def test_lora_of_the_papers_network_has_36864_numbers_for_each_unit_of_rank() -> None:
    network = of_timm("vit_base_patch16_224.augreg_in21k")
    assert [n_adapted(Adapted(network, "lora", rank, 10)) for rank in (1, 4)] == [36_864, 4 * 36_864]
    assert len(targets(network.features)) == 12


def test_network_with_batchnorm_is_refused_and_its_layer_named() -> None:
    with pytest.raises(BadInput, match=r"data\.backbone = timm:resnet18: mixes examples in its layer bn1 \(BatchNorm2d\)"):
        refuse(of_timm("resnet18"), "film")


@pytest.mark.parametrize(("kind", "word"), [("film", "no LayerNorm"), ("lora", "no Linear")])
def test_network_without_the_layers_to_adapt_is_refused(kind: Kind, word: str) -> None:
    bare = Pictures(nn.Sequential(nn.Conv2d(3, 8, 2), nn.Flatten()), Input(2, 3, "bilinear"), (0.0,) * 3, (1.0,) * 3)
    refuses(word, adapters.fresh, Network("bare", bare, 8, "cpu"), kind, 2, range(3), 3, 0)


@pytest.mark.parametrize("kind", ["film", "lora"])
@pytest.mark.parametrize("name", BUNDLED)
def test_a_fresh_model_scores_like_a_last_layer_on_the_frozen_extractors_features(name: str, kind: Kind) -> None:
    """At step 0 all logits are zero; under a last layer that is not, they are those of the frozen features."""
    pictures, _ = small_network.pictures(5, 32)
    features = np.concatenate(list(extractor.load(name).batches(Images(pictures, (32, 32, 3)))))
    network = adaptable.load(name)
    made = adapters.fresh(network, kind, 3, (1, 4), 6, 0)
    np.testing.assert_array_equal(made.logits(pictures)[:, [1, 4]], 0)
    made.weights["head.weight"][:] = torch.randn(2, network.feature_dim, generator=torch.Generator().manual_seed(0))
    found = made.logits(pictures)
    np.testing.assert_allclose(found[:, [1, 4]], features @ made.weights["head.weight"].numpy().T, atol=1e-4)
    assert np.isneginf(found[:, [0, 2, 3, 5]]).all()


@pytest.mark.parametrize("kind", ["film", "lora"])
def test_layers_that_no_feature_depends_on_are_not_trained(kind: Kind) -> None:
    """The frozen features of the ConvNeXt are read before its last block; its own classifier is not used either."""
    made = adapters.fresh(adaptable.load("convnext-cifar100"), kind, 1, range(3), 3, 0)
    assert not any("network.body.11." in name or "network.network.norm" in name for name in made.weights)
    assert not any("network.network.head" in name for name in made.weights)
    assert any("network.body.10." in name for name in made.weights)


def test_everything_frozen_is_shared_and_stays_as_it_is() -> None:
    network = small_network.network()
    before = {name: tensor.clone() for name, tensor in network.features.state_dict().items()}
    for kind in ("film", "lora"):
        module = Adapted(network, kind, 2, 4)  # type: ignore[arg-type]
        shared = {id(tensor) for tensor in network.features.parameters()}
        frozen = [parameter for parameter in module.parameters() if not parameter.requires_grad]
        assert frozen
        assert all(id(parameter) in shared for parameter in frozen)
        with torch.no_grad():
            for _, parameter in module.trainable():
                parameter += 1
    after = network.features.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_lora_starts_at_random_by_its_seed_alone() -> None:
    network = small_network.network()
    first, again, other = (adapters.fresh(network, "lora", 2, range(3), 3, seed).weights for seed in (1, 1, 2))
    down = next(name for name in first if name.endswith("down.weight"))
    assert torch.equal(first[down], again[down])
    assert not torch.equal(first[down], other[down])
    assert not any(weight.any() for name, weight in first.items() if not name.endswith("down.weight"))
