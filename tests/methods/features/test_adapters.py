"""Training of adapters: against Opacus' own optimizer, its noise against its law, and what it may depend on."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import torch

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.dpsgd import ROUNDING
from dpcl_core.methods.features import adapters
from dpcl_core.methods.features.adapters import Kind
from dpcl_core.privacy.noise import Batches, Noise, ReleaseNoise
from tests.methods import small_network
from tests.methods.training import Prescribed, Recorded, Silent, opacus, plan, spreads, told

KINDS: tuple[Kind, ...] = ("film", "lora")
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


def joined(model: adapters.Adapter) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in model.weights.values()])


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("kind", KINDS)
def test_training_equals_opacus_on_the_same_batches_and_noise(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trained number after six steps of Opacus' hooks and optimizer, with Adam, in float64; one batch is empty."""
    from opacus import GradSampleModule

    pictures, labels = small_network.pictures()
    start = small_network.start(kind)
    generator, sigma = np.random.default_rng(1), 1.3
    draws = [generator.standard_normal(len(joined(start))) for _ in BATCHES]
    found = after(start, pictures, labels, Recorded(draws), sigma)

    module, schedule = start.module(), plan()
    trainable = dict(module.trainable())
    for part in module.modules():
        part.training = any(parameter.requires_grad for parameter in part.parameters(recurse=False))
    wrapped = GradSampleModule(module, loss_reduction="sum")
    waiting: list[torch.Tensor] = []
    adam = torch.optim.Adam(trainable.values(), lr=schedule.learning_rate)
    optimizer = opacus(monkeypatch, adam, sigma, schedule, waiting)
    sizes = [parameter.numel() for parameter in trainable.values()]
    for batch, draw in zip(BATCHES, draws, strict=True):
        pieces = torch.split((1 + ROUNDING) * torch.from_numpy(draw), sizes)  # theirs leaves nothing for single precision
        waiting[:] = [piece.reshape(p.shape) for piece, p in zip(pieces, trainable.values(), strict=True)]
        optimizer.zero_grad()
        logits = wrapped(torch.from_numpy(pictures[batch]))
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[batch]), reduction="sum").backward()
        optimizer.step()
    for name, parameter in trainable.items():
        torch.testing.assert_close(found.weights[name], parameter.detach(), rtol=0, atol=1e-10)
        assert not torch.allclose(found.weights[name], start.weights[name], atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_of_a_step_has_the_announced_spread(dtype: torch.dtype) -> None:
    """Chi-square of 48,000 draws on an empty batch: false alarm 1e-6; a spread 10 % wrong would be seen always."""
    sums = [torch.zeros(300, 50, dtype=dtype), torch.zeros(1000, dtype=dtype)]
    std = plan().noise_std(1.6)
    rounds = [adapters.noisy_means(sums, 9.0, std, ReleaseNoise()) for _ in range(3)]
    drawn = torch.cat([part.flatten().double() for parts in rounds for part in parts])
    assert std == pytest.approx(1.6 * 0.7 * (1 + ROUNDING) / 9.0)
    assert [spreads(drawn.numpy(), factor * std) for factor in (1, 0.9, 1.1)] == [True, False, False]


def test_sums_are_divided_by_the_expected_batch_whoever_is_in_it() -> None:
    sums = [torch.full((2, 3), 6.0), torch.tensor([3.0])]
    first, second = adapters.noisy_means(sums, 4.0, 0.0, ReleaseNoise())
    assert torch.equal(first, torch.full((2, 3), 1.5))
    assert torch.equal(second, torch.tensor([0.75]))


@pytest.mark.parametrize("kind", KINDS)
def test_examples_outside_the_label_space_change_nothing(kind: Kind) -> None:
    """The filtered data are trained on: neither a step nor the drawing of batches depends on what was filtered out."""
    pictures, labels = small_network.pictures(n=20, n_classes=2)
    start = small_network.start(kind, n_classes=2)
    others, _ = small_network.pictures(n=7, seed=9)
    mixed = np.insert(pictures, [0, 5, 5, 9, 20, 20, 20], others, axis=0)
    mixed_labels = np.insert(labels, [0, 5, 5, 9, 20, 20, 20], [2, 3, 2, 9, 5, 3, 2])
    draws = np.random.default_rng(4).standard_normal((6, len(joined(start))))
    alone, filtered = (
        after(start, x, y, Recorded(list(draws)), batches=Batches(0.3, 1))
        for x, y in ((pictures, labels), (mixed, mixed_labels))
    )
    assert torch.equal(joined(alone), joined(filtered))
    assert not torch.equal(joined(alone), joined(start))


def test_a_task_without_examples_takes_the_same_noisy_steps() -> None:
    """Every number moves, by about the learning rate a step, as it does when only noise is in a batch."""
    pictures, labels = small_network.pictures(n=0)
    start = adapters.fresh(small_network.network(), "film", 0, range(4), 4, 0)
    found = after(start, pictures, labels, ReleaseNoise(), batches=Batches(0.3, None))
    moved = (joined(found) - joined(start)).abs()
    assert float((moved > 0).double().mean()) == 1.0
    assert 0.01 < float(moved.mean()) < 0.3


def test_without_noise_nothing_is_clipped() -> None:
    pictures, labels = small_network.pictures()
    start = small_network.start("film")
    tight, loose = (after(start, pictures, labels, Silent(), 0.0, clip_norm=norm) for norm in (1e-3, 1e3))
    assert torch.equal(joined(tight), joined(loose))


def test_training_from_an_earlier_model_goes_on_from_it_and_leaves_it_as_it_was() -> None:
    pictures, labels = small_network.pictures()
    start = small_network.start("film")
    before = joined(start).clone()
    once = after(start, pictures, labels, Silent(), n_steps=3)
    twice = after(once, pictures, labels, Silent(), n_steps=3)
    assert torch.equal(joined(start), before)
    moves = [(joined(b) - joined(a)).norm() for a, b in ((start, once), (once, twice))]
    assert all(float(move) > 0 for move in moves)
    assert float((joined(twice) - before).norm()) < float(moves[0] + moves[1]) + 1e-9


class Pushing:
    """Noise that always pushes one way."""

    def added32(self, clean: np.ndarray, std: float) -> np.ndarray:
        return clean + np.float32(std)


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_training_that_diverges_stops_at_once_and_names_step_and_learning_rate(sigma: float) -> None:
    """Long before a number overflows, whether noise pushes the weights or the data alone."""
    pictures, labels = small_network.pictures()
    start, noise = small_network.start("film", double=False), cast(Noise, Pushing())
    training = adapters.Training(start, pictures, labels, sigma, Batches(0.5, 0), noise)
    steps = adapters.train_together([training], plan(learning_rate=400.0, n_steps=40))
    taken = []
    with pytest.raises(Diverged, match=r"diverged at step \d+ of 40 with params\.learning_rate = 400"):
        taken.extend(steps)
    assert 1 <= len(taken) < 20


@pytest.mark.parametrize("kind", KINDS)
def test_two_kinds_of_pictures_are_learned_and_told_apart(kind: Kind) -> None:
    """Bright left halves against bright right ones, in one precision, from the network as it is, without noise."""
    generator = np.random.default_rng(0)
    pictures = generator.integers(0, 100, (40, 16, 16, 3), dtype=np.uint8)
    labels = np.arange(40) % 2
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, 8 * label : 8 * label + 8] += 120
    start = adapters.fresh(small_network.network(double=False), kind, 2, (1, 2), 4, 0)
    found = after(start, pictures, labels + 1, Silent(), 0.0, Batches(0.5, 0), n_steps=30, expected_batch=20.0)
    logits = found.logits(pictures)
    assert logits.shape == (40, 4)
    assert np.isneginf(logits[:, [0, 3]]).all()
    assert float((logits.argmax(1) == labels + 1).mean()) > 0.9
