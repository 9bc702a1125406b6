"""Noise on tokens: the table of what Eq. 5 prints and costs, against dp_accounting, integrals and simulation."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy import integrate, stats

from dpcl_core.privacy import gaussian, text_mechanisms
from dpcl_core.privacy.accounting import Pld

DELTA = 1e-6
# epsilon printed: sigma/C, true epsilon at 2C, true delta at the printed epsilon, true epsilon had sigma 2C, sigma/C needed
TABLE = {
    1: (5.299, 1.657, 7.7e-4, 0.784, 8.449), 2: (2.649, 3.558, 2.4e-3, 1.657, 4.461),
    3: (1.766, 5.632, 5.5e-3, 2.585, 3.088), 4: (1.325, 7.866, 1.1e-2, 3.558, 2.387),
    5: (1.060, 10.254, 2.0e-2, 4.575, 1.960), 6: (0.883, 12.793, 3.3e-2, 5.632, 1.672),
    7: (0.757, 15.480, 5.3e-2, 6.730, 1.464), 8: (0.662, 18.314, 8.0e-2, 7.866, 1.306),
    9: (0.589, 21.294, 0.115, 9.041, 1.182), 10: (0.530, 24.420, 0.160, 10.254, 1.082),
}  # fmt: skip


def test_the_printed_ratio() -> None:
    found = [text_mechanisms.printed_ratio(epsilon, DELTA) for epsilon in (1, 5, 10)]
    assert found == pytest.approx([5.2988, 1.0598, 0.52988], abs=5e-5)
    assert text_mechanisms.printed_ratio(math.inf, DELTA) == 0
    np.testing.assert_allclose(text_mechanisms.printed_ratios(np.array([[1.0, 2.0]]), DELTA), [[5.2988, 2.6494]], atol=5e-5)


@pytest.mark.parametrize("epsilon", TABLE)
def test_the_table_of_what_is_printed_and_what_is_true(epsilon: int) -> None:
    ratio, true, delta, with_2c, needed = TABLE[epsilon]
    found = text_mechanisms.printed_ratio(epsilon, DELTA)
    assert found == pytest.approx(ratio, abs=1e-3)
    assert text_mechanisms.true_epsilon(found, DELTA) == pytest.approx(true, abs=1e-3)
    assert text_mechanisms.true_delta(epsilon, found) == pytest.approx(delta, rel=0.05)
    assert text_mechanisms.true_epsilon(2 * found, DELTA) == pytest.approx(with_2c, abs=1e-3)
    assert text_mechanisms.ratio_for(epsilon, DELTA) == pytest.approx(needed, abs=1e-3)
    assert text_mechanisms.true_epsilon(found, DELTA) > epsilon


def test_where_the_classical_formula_stops_holding_at_the_right_sensitivity() -> None:
    """With noise of 2C it holds up to a nominal 8.78 at delta 1e-6 and 8.42 at 1e-5, and fails beyond."""
    for delta, limit in ((1e-6, 8.78), (1e-5, 8.42)):
        for epsilon, holds in ((limit - 0.01, True), (limit + 0.01, False)):
            true = text_mechanisms.true_epsilon(2 * text_mechanisms.printed_ratio(epsilon, delta), delta)
            assert (true <= epsilon) is holds


def test_true_epsilon_agrees_with_the_accountant_and_with_the_exact_integral() -> None:
    for epsilon in (1, 3, 5, 10):
        ratio = text_mechanisms.printed_ratio(epsilon, DELTA)
        accounted = Pld().epsilon([dp.GaussianDpEvent(ratio)], DELTA, "replace")  # doubled by the library: 2C over sigma
        assert accounted == pytest.approx(text_mechanisms.true_epsilon(ratio, DELTA), rel=1e-4, abs=1e-3)
        assert accounted >= text_mechanisms.true_epsilon(ratio, DELTA) - 1e-9

        def density(x: float, e: float = text_mechanisms.true_epsilon(ratio, DELTA), s: float = ratio) -> float:
            return max(0.0, float(stats.norm.pdf(x, 2, s) - math.exp(e) * stats.norm.pdf(x, 0, s)))

        start = ratio**2 / 2 * text_mechanisms.true_epsilon(ratio, DELTA) + 1  # where the loss is epsilon
        assert integrate.quad(density, start, start + 20 * ratio)[0] == pytest.approx(DELTA, rel=1e-4)


def test_true_epsilon_is_monotone_and_the_same_for_many() -> None:
    ratios = np.linspace(0.05, 12, 1000)
    found = text_mechanisms.true_epsilons(ratios, DELTA)
    assert (np.diff(found) < 0).all()
    # One at a time they are rounded up to 35 binary digits, 6e-11 of them at most.
    np.testing.assert_allclose(found, [text_mechanisms.true_epsilon(one, DELTA) for one in ratios], rtol=1e-10)
    np.testing.assert_allclose(
        text_mechanisms.true_epsilons(ratios, DELTA, 3),
        [text_mechanisms.true_epsilon(one, DELTA, 3) for one in ratios],
        rtol=1e-10,
    )
    edges = text_mechanisms.true_epsilons(np.array([[0.0, 1e9, 1e-4]]), DELTA)
    assert edges.shape == (1, 3)
    assert edges[0, :2].tolist() == [math.inf, 0.0]
    assert edges[0, 2] == pytest.approx(text_mechanisms.true_epsilon(1e-4, DELTA), rel=1e-12)


@pytest.mark.parametrize(("budget", "plain", "remark", "once", "thrice", "with_2c"), [
    (1, 64, 106.1, 18.3, 37.8, 7.9), (5, 320, 530, 184.9, 465, 63.6), (10, 640, 1060, 598.5, 1615, 184.9),
])  # fmt: skip
def test_a_text_of_64_tokens(
    budget: float, plain: float, remark: float, once: float, thrice: float, with_2c: float
) -> None:
    ratio = text_mechanisms.printed_ratio(budget, DELTA)
    assert sum([budget] * 64) == plain
    assert text_mechanisms.remark_1([budget] * 64, DELTA) == pytest.approx(remark, rel=1e-3)
    assert text_mechanisms.text_epsilon([ratio] * 64, DELTA) == pytest.approx(once, abs=0.06)
    assert text_mechanisms.text_epsilon([ratio] * 64, DELTA, 3) == pytest.approx(thrice, rel=1e-3)
    assert text_mechanisms.text_epsilon([2 * ratio] * 64, DELTA) == pytest.approx(with_2c, abs=0.06)
    assert text_mechanisms.true_epsilon(ratio, DELTA, 64) == pytest.approx(text_mechanisms.text_epsilon([ratio] * 64, DELTA))


@pytest.mark.parametrize(
    ("n_releases", "expected"), [(3, (3.03, 20.3, 51.7)), (10, (5.98, 45.4, 127)), (20, (8.97, 74.9, 222))]
)
def test_one_token_over_epochs_and_a_name_over_its_occurrences(n_releases: int, expected: tuple[float, ...]) -> None:
    ratios = [text_mechanisms.printed_ratio(epsilon, DELTA) for epsilon in (1, 5, 10)]
    found = [text_mechanisms.true_epsilon(ratio, DELTA, n_releases) for ratio in ratios]
    assert found == pytest.approx(expected, rel=3e-3)


def test_the_composition_of_unequal_tokens_agrees_with_the_accountant() -> None:
    ratios = [text_mechanisms.printed_ratio(eps, DELTA) for eps in (1.0, 1.7, 2.44, 3.25, 2.0)]
    accounted = Pld().epsilon([dp.GaussianDpEvent(ratio) for ratio in ratios] * 2, DELTA, "replace")
    assert accounted == pytest.approx(text_mechanisms.text_epsilon(ratios, DELTA, 2), rel=1e-3)
    assert text_mechanisms.text_epsilon([*ratios, 0.0], DELTA) == math.inf, "one stop word without noise"
    assert text_mechanisms.text_epsilon([], DELTA) == 0.0


def test_remark_1_takes_the_largest_budget_as_printed() -> None:
    """32 tokens at 1 and 32 at 10: 352 + sqrt(2 * 64 * ln(10^6)) * 10. With the sum of squares it would be 650.8."""
    assert text_mechanisms.remark_1([1.0] * 32 + [10.0] * 32, 1e-6) == pytest.approx(772.5, abs=0.05)
    assert text_mechanisms.remark_1([], 1e-6) == 0


def test_remark_1_is_never_useful() -> None:
    generator = np.random.default_rng(2)
    for _ in range(200):
        budgets = generator.uniform(0.001, 12, generator.integers(1, 200))
        delta = 10 ** generator.uniform(-12, -0.01)
        assert text_mechanisms.remark_1(list(budgets), delta) > budgets.sum()


@pytest.mark.parametrize(("epsilon", "once", "each", "thrice"), [
    (1, 67.6, 0.108, 117), (4, 19.1, 0.417, 33.1), (8, 10.45, 0.796, 18.1), (16, 5.90, 1.475, 10.2),
])  # fmt: skip
def test_calibration_of_a_text(epsilon: float, once: float, each: float, thrice: float) -> None:
    """Put back into delta(epsilon) at sensitivity 2 sqrt(64), the ratio gives delta, never more."""
    found = text_mechanisms.ratio_for(epsilon, DELTA, 64)
    assert found == pytest.approx(once, rel=1e-3)
    assert text_mechanisms.true_epsilon(found, DELTA) == pytest.approx(each, abs=1e-3)
    assert text_mechanisms.ratio_for(epsilon, DELTA, 64, 3) == pytest.approx(thrice, rel=3e-3)
    at = gaussian.delta(epsilon, found, 2 * math.sqrt(64))
    assert DELTA * (1 - 1e-3) < at <= DELTA
    assert gaussian.delta(epsilon, text_mechanisms.ratio_for(epsilon, DELTA), 2) == pytest.approx(DELTA, rel=1e-3)
    assert text_mechanisms.ratio_for(math.inf, DELTA, 64) == 0


@pytest.mark.parametrize(("pair", "n_values", "epsilon", "advantage"), [
    ((5, 5.05), 64, 0.57, 0.05), ((5, 5.05), 768, 1.86, 0.16), ((5, 5.05), 4096, 4.52, 0.35),
    ((5, 5.5), 64, 7.35, 0.41), ((5, 5.5), 768, 27.8, 0.94), ((5, 5.5), 4096, 85.6, 1.00),
    ((5, 6), 64, 16.9, 0.70), ((5, 6), 768, 72.3, 1.00), ((5, 6), 4096, 251, 1.00), ((1, 2), 64, 154, 1.00),
])  # fmt: skip
def test_what_the_noise_level_alone_tells(
    pair: tuple[float, float], n_values: int, epsilon: float, advantage: float
) -> None:
    first, second = (text_mechanisms.printed_ratio(eps, DELTA) for eps in pair)
    assert text_mechanisms.scale_epsilon(first, second, n_values, DELTA) == pytest.approx(epsilon, rel=6e-3)
    assert text_mechanisms.scale_epsilon(second, first, n_values, DELTA) == pytest.approx(epsilon, rel=6e-3)
    assert text_mechanisms.scale_advantage(first, second, n_values) == pytest.approx(advantage, abs=6e-3)


def test_larger_noise_levels_apart_tell_everything_and_equal_ones_nothing() -> None:
    assert text_mechanisms.scale_epsilon(1, 0.5, 768, DELTA) > 430
    assert text_mechanisms.scale_epsilon(1, 0.5, 4096, DELTA) > 430
    assert text_mechanisms.scale_epsilon(1, 1, 64, DELTA) == 0
    assert text_mechanisms.scale_advantage(1, 1, 64) == 0


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.2), (1.2, 1.0)])
@pytest.mark.parametrize("n_values", [1, 3, 64])
def test_the_noise_level_by_scipys_distributions(first: float, second: float, n_values: int) -> None:
    """The loss grows (or falls) with the squared length, so that both sides of delta(epsilon) are chi-squared chances."""
    epsilon = text_mechanisms._one_way(first, second, n_values, 1e-3)
    cut = (epsilon - n_values * math.log(second / first)) * 2 / (1 / second**2 - 1 / first**2)
    tail = stats.chi2.sf if first > second else stats.chi2.cdf
    if cut > 0:
        delta = tail(cut / first**2, n_values) - math.exp(epsilon) * tail(cut / second**2, n_values)
        assert delta == pytest.approx(1e-3, rel=1e-3)


def test_one_squared_length_reveals_sigma_as_far_as_the_paper_s_dimensions_allow() -> None:
    """Relative standard deviation 1 / sqrt(2 d), by simulation; 4,000 draws, six standard errors."""
    for width, share in ((64, 0.088), (768, 0.026)):
        drawn = np.random.default_rng(0).normal(0, 3, (4000, width))
        found = np.sqrt(np.square(drawn).mean(axis=1))
        assert found.std() / 3 == pytest.approx(1 / math.sqrt(2 * width), rel=6 / math.sqrt(2 * 4000))
        assert 1 / math.sqrt(2 * width) == pytest.approx(share, abs=1e-3)


def test_a_claim_holds_the_nominal_budgets_and_the_true_ones_beside() -> None:
    found = text_mechanisms.nominal_claim(1, 10, DELTA, 64, 3)
    assert found.epsilon == 10
    assert list(found.terms.values()) == [1, 10]
    assert all("nominal" in name for name in found.terms)
    assert found.numbers["true ε of the least noised token, one release"] == pytest.approx(24.420, abs=1e-3)
    assert found.numbers["true ε of the most noised token, all epochs"] == pytest.approx(3.03, abs=5e-3)
    assert found.numbers["true ε of a text of the most noised tokens, one release"] == pytest.approx(18.3, abs=0.05)
    assert found.numbers["true ε of a text of the most noised tokens, all epochs"] == pytest.approx(37.8, abs=0.05)
    without = text_mechanisms.nominal_claim(1, math.inf, DELTA, 64, 3)
    assert without.numbers["true ε of the least noised token, one release"] == math.inf
