"""Noise and batches: the laws they follow, and that nothing but a recorded seed repeats them."""

from __future__ import annotations

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import binomtest

from dpcl_core.privacy.accounting import SampledGroupDpEvent, of_steps
from dpcl_core.privacy.noise import Batches, ReleaseNoise, Steps, noise_of
from dpcl_core.spec import Cell

CELL = Cell(1.0, 0)


def test_release_noise_never_repeats_and_seeded_noise_does_by_cell_and_purpose() -> None:
    nothing = np.zeros(9, np.float32)
    assert (ReleaseNoise().added32(nothing, 1.0) != ReleaseNoise().added32(nothing, 1.0)).any()
    again = [noise_of("seeded", CELL, "training").added32(nothing, 1.0) for _ in range(2)]
    np.testing.assert_array_equal(*again)
    for other in (noise_of("seeded", Cell(2.0, 0), "training"), noise_of("seeded", CELL, "labels")):
        assert (other.added32(nothing, 1.0) != again[0]).any()


@pytest.mark.parametrize("seed", [None, 7])
def test_every_record_is_sampled_with_the_announced_chance_and_on_its_own(seed: int | None) -> None:
    """600,000 coins at 0.3: false alarm 1e-6; two records are together as often as chance has it."""
    batches, n_records, n_draws = Batches(0.3, seed), 100, 6000
    taken = np.zeros((n_draws, n_records), dtype=bool)
    for row in taken:
        row[batches.draw(n_records)] = True
    assert binomtest(int(taken.sum()), taken.size, 0.3).pvalue > 1e-6
    assert binomtest(int((taken[:, 0] & taken[:, 1]).sum()), n_draws, 0.09).pvalue > 1e-6
    assert binomtest(int((taken[1:, 0] & taken[:-1, 0]).sum()), n_draws - 1, 0.09).pvalue > 1e-6
    sizes = taken.sum(axis=1)
    assert 15 < sizes.var() < 27  # binomial: 21; batches of one size would give 0


def test_a_rate_of_one_takes_everyone_and_nobody_gives_an_empty_batch() -> None:
    for seed in (None, 3):
        np.testing.assert_array_equal(Batches(1.0, seed).draw(50), np.arange(50))
        assert len(Batches(0.5, seed).draw(0)) == 0


def test_steps_draw_at_the_rates_that_they_are_charged_at_and_no_batch_more() -> None:
    steps = Steps(3, (0.25, 0.5), 1.3)
    assert of_steps(steps) == dp.SelfComposedDpEvent(SampledGroupDpEvent(1.3, (0.25, 0.5)), 3)
    for part, rate in enumerate((0.25, 0.5)):
        batches = steps.batches(7, "any", part)
        plain = Batches(rate, 7, "any")
        assert [batches.draw(60).tolist() for _ in range(3)] == [plain.draw(60).tolist() for _ in range(3)]
        with pytest.raises(RuntimeError):
            batches.draw(60)
    one = Steps(4, (0.5,), 1.3)
    assert of_steps(one) == dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(1.3)), 4)
    assert isinstance(of_steps(Steps(4, (0.5,), 0.0)), dp.NonPrivateDpEvent)


def test_batches_of_a_release_do_not_repeat_and_seeded_ones_do() -> None:
    assert any((Batches(0.5, None).draw(64).tolist() != Batches(0.5, None).draw(64).tolist()) for _ in range(3))
    first, second = Batches(0.5, 1), Batches(0.5, 1)
    assert [first.draw(64).tolist() for _ in range(5)] == [second.draw(64).tolist() for _ in range(5)]
    assert Batches(0.5, 2).draw(64).tolist() != Batches(0.5, 1).draw(64).tolist()


@pytest.mark.parametrize("seed", [None, 4])
def test_copies_draw_the_same_batches_and_copies_made_another_time_others(seed: int | None) -> None:
    """6,000 batches of a copy are drawn at the announced rate as well: false alarm 1e-6."""
    copies = Batches(0.3, seed).copies(2)
    drawn = [[batches.draw(100).tolist() for _ in range(6000)] for batches in copies]
    assert drawn[0] == drawn[1]
    assert len({tuple(batch) for batch in drawn[0]}) > 5990
    n_taken = sum(map(len, drawn[0]))
    assert abs(n_taken - 0.3 * 600_000) < 4.9 * (600_000 * 0.3 * 0.7) ** 0.5
    others = Batches(0.3, seed).copies(1)[0].draw(100).tolist()
    assert (others == drawn[0][0]) == (seed is not None)
