"""The Gaussian's closed form; noise and batches: the laws they follow, and that nothing but a recorded seed repeats them."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.noise import Batches, ReleaseNoise, Steps, noise_of
from dpcl_core.spec import Cell

CELL = Cell(1.0, 0)


def test_release_noise_never_repeats_and_seeded_noise_does_by_cell_and_purpose() -> None:
    nothing = np.zeros(9, np.float32)
    assert (ReleaseNoise().added32(nothing, 1.0) != ReleaseNoise().added32(nothing, 1.0)).any()
    again = [noise_of("seeded", CELL, "training").added32(nothing, 1.0) for _ in range(2)]
    np.testing.assert_array_equal(*again)
    for cell, purpose in ((Cell(2.0, 0), "training"), (Cell(1.0, 1), "training"), (CELL, "labels")):
        assert (noise_of("seeded", cell, purpose).added32(nothing, 1.0) != again[0]).any()


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
    assert accounting.of_steps(steps) == dp.SelfComposedDpEvent(accounting.SampledGroupDpEvent(1.3, (0.25, 0.5)), 3)
    for part, rate in enumerate((0.25, 0.5)):
        batches = steps.batches(7, "any", part)
        plain = Batches(rate, 7, "any")
        assert [batches.draw(60).tolist() for _ in range(3)] == [plain.draw(60).tolist() for _ in range(3)]
        with pytest.raises(RuntimeError):
            batches.draw(60)
    one = Steps(4, (0.5,), 1.3)
    assert accounting.of_steps(one) == dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(1.3)), 4)
    assert isinstance(accounting.of_steps(Steps(4, (0.5,), 0.0)), dp.NonPrivateDpEvent)


def test_batches_of_a_release_do_not_repeat_and_seeded_ones_do() -> None:
    assert any((Batches(0.5, None).draw(64).tolist() != Batches(0.5, None).draw(64).tolist()) for _ in range(3))
    first, second = Batches(0.5, 1), Batches(0.5, 1)
    assert [first.draw(64).tolist() for _ in range(5)] == [second.draw(64).tolist() for _ in range(5)]
    assert Batches(0.5, 2).draw(64).tolist() != Batches(0.5, 1).draw(64).tolist()


@pytest.mark.parametrize("seed", [None, 4])
def test_copies_draw_the_same_batches_and_copies_made_another_time_others(seed: int | None) -> None:
    """6,000 batches of a copy are drawn at the announced rate as well: false alarm 1e-6."""
    drawn = [[batches.draw(100).tolist() for _ in range(6000)] for batches in Batches(0.3, seed).copies(2)]
    assert drawn[0] == drawn[1]
    assert len({tuple(batch) for batch in drawn[0]}) > 5990
    assert abs(sum(map(len, drawn[0])) - 0.3 * 600_000) < 4.9 * (600_000 * 0.3 * 0.7) ** 0.5
    assert (Batches(0.3, seed).copies(1)[0].draw(100).tolist() == drawn[0][0]) == (seed is not None)


# The analytic Gaussian mechanism against an independent implementation, its definition, and the published table.


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 16.0, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_sigma_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    expected = dp.get_sigma_gaussian(epsilon, delta)
    sigma = gaussian.sigma(epsilon, delta)
    assert sigma == pytest.approx(expected, rel=3e-6)
    assert sigma >= expected * (1 - 1e-9), "calibrated noise must never be rounded down"


@pytest.mark.parametrize(
    ("epsilon", "sigma"), [(0.1, 30.7496), (0.5, 7.0318), (1, 3.7306), (2, 1.9938), (4, 1.0812), (8, 0.60023), (16, 0.34418)]
)
def test_sigma_of_the_published_budgets(epsilon: float, sigma: float) -> None:
    assert gaussian.sigma(epsilon, 1e-5) == pytest.approx(sigma, rel=5e-5)


@given(st.floats(0.05, 30), st.floats(1e-10, 0.2), st.floats(0.1, 10))
def test_epsilon_undoes_sigma_and_never_exceeds_the_target(epsilon: float, delta: float, sensitivity: float) -> None:
    back = gaussian.epsilon(gaussian.sigma(epsilon, delta, sensitivity), delta, sensitivity)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-4)


def test_delta_is_the_largest_excess_over_events() -> None:
    """Against the definition: delta = sup over sets of P(S) - e^eps Q(S), integrated numerically."""
    sigma, epsilon = 1.3, 0.7
    grid = np.linspace(-30, 30, 600_001)
    excess = np.maximum(norm.pdf(grid, 1, sigma) - math.exp(epsilon) * norm.pdf(grid, 0, sigma), 0)
    assert gaussian.delta(epsilon, sigma) == pytest.approx(np.trapezoid(excess, grid), rel=1e-7)


def test_true_epsilon_of_the_classical_formula_violates_its_claim_at_16() -> None:
    assert gaussian.epsilon(math.sqrt(2 * math.log(1.25 / 1e-5)) / 16, 1e-5) == pytest.approx(18.9, abs=0.05)


def test_replace_neighbours_of_noise_calibrated_for_adding_or_removing() -> None:
    sigma = gaussian.sigma(1.0, 1e-5)
    assert gaussian.epsilon(sigma, 1e-5, 2.0) == pytest.approx(2.155, abs=1e-3)
    assert gaussian.epsilon(sigma, 1e-5, math.sqrt(2)) == pytest.approx(1.465, abs=1e-3)


def test_no_noise_has_no_bound_and_no_budget_needs_no_noise() -> None:
    assert (gaussian.epsilon(0.0, 1e-5), gaussian.sigma(math.inf, 1e-5)) == (math.inf, 0.0)
    assert gaussian.epsilon(1e9, 1e-5) == 0.0
