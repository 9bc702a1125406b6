"""Last layers whose products are computed on a card: the processor's sums bit by bit, and where it is worth a card."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpcl_core.methods.features import adapters, linear_heads
from dpcl_core.methods.features.adapters import Directions
from dpcl_core.methods.features.linear_heads import clipped_sums
from dpcl_core.methods.features.process_pool import is_wide
from dpcl_core.privacy.noise import Batches, SeededNoise
from dpcl_core.spec import Cell
from tests.methods.features.test_head_gradients import SINGLE, examples, prepared, weights_of
from tests.methods.training import plan, trained_heads
from tests.support import second_device

CLIPS = np.array([0.5, 1e6], np.float32)


@pytest.mark.parametrize(("n_inputs", "n_columns"), [(1, 2), (64, 10), (193, 33), (1030, 7)])
@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_sums_are_the_processors_bit_by_bit(n_inputs: int, n_columns: int, size: float) -> None:
    """Also where a batch is far larger than expected, so that single precision cannot hold its sums."""
    data, weights = prepared(examples(60, n_inputs), n_columns, expected=2.0), weights_of(n_columns, n_inputs, size)
    generator = np.random.default_rng(3)
    found = set()
    for count in (0, 1, 5, 16, 60, 5000):
        batch = generator.integers(0, 60, count)
        expected, _ = clipped_sums(data, batch, weights, CLIPS)
        with second_device.attached():
            there = Directions.of(data.directions, second_device.NAME)
            assert there is not None
            assert second_device.is_on_card(there.rows)
            sums, _ = clipped_sums(data, batch, weights, CLIPS, there)
        np.testing.assert_array_equal(sums, expected)
        assert sums.dtype == expected.dtype
        found.add(sums.dtype)
    assert SINGLE in found


def test_budgets_without_noise_stay_on_the_processor_beside_those_on_the_card() -> None:
    data, weights = prepared(examples(60, 8), 3), weights_of(3, 8, 1.0)
    batch, clips = np.arange(20, 60), CLIPS[:1]
    expected = clipped_sums(data, batch, weights, clips)
    with second_device.attached():
        found = clipped_sums(data, batch, weights, clips, Directions.of(data.directions, second_device.NAME))
    for sums, same in zip(found, expected, strict=True):
        np.testing.assert_array_equal(sums, same)


def test_a_training_on_a_card_gives_the_same_classifiers() -> None:
    rows, labels = np.random.default_rng(0).standard_normal((80, 12)), np.arange(80) % 4
    start = linear_heads.fresh([range(4), range(3)], 12, 4)

    def trained(device: str) -> np.ndarray:
        noises = [SeededNoise(Cell(epsilon, 0), "x") for epsilon in (1.0, 8.0)]
        steps = plan(n_steps=20)
        return trained_heads(start, rows, labels, steps, [2.0, 0.5], Batches(0.3, 0), noises, device=device).weights

    with second_device.attached():
        on_card = trained(second_device.NAME)
    np.testing.assert_array_equal(on_card, trained("cpu"))


def test_rounded_products_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that rounds what it multiplies to bfloat16's eight bits changes sums; the comparison above sees it."""

    def rounded(self: Directions, whole: np.ndarray) -> np.ndarray:
        short = (torch.from_numpy(whole).view(torch.int32) & ~0xFFFF).view(torch.float32)
        return (short @ self.rows.T.float().cpu()).numpy()

    data, weights = prepared(examples(60, 64), 10), weights_of(10, 64, 1.0)
    expected, _ = clipped_sums(data, np.arange(20, 60), weights, CLIPS)
    monkeypatch.setattr(adapters.Directions, "scores", rounded)
    found, _ = clipped_sums(data, np.arange(20, 60), weights, CLIPS, Directions.of(data.directions, "cpu"))
    assert (found != expected).any()


def test_directions_that_do_not_fit_stay_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: torch.Tensor, device: str) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.Tensor, "to", full)
    assert Directions.of(np.zeros((3, 2), np.float32), "cuda:0") is None
    assert linear_heads._on_card(np.zeros((3, 2), np.float32), "cuda:0") is None
    assert linear_heads._on_card(np.zeros((3, 2)), "cuda:0") is None  # double precision


def test_small_heads_are_not_worth_a_card() -> None:
    assert not is_wide(64, 2 * 10 * 193)
    assert is_wide(500, 2 * 100 * 1281)
