"""Noise and batches: laws, closed forms and roundings, held against mpmath; nothing but a recorded seed repeats them."""

import math
import os
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, stdtrit
from scipy.stats import binomtest, chi2, laplace, norm

from dpcl_core.privacy import accounting, gaussian, numerics
from dpcl_core.privacy.noise import Batches, Noise, ReleaseNoise, SeededNoise, Steps, additions32, noise_of
from dpcl_core.privacy.numerics import log_normal_cdf, log_normal_cdfs, normal_cdf, normal_cdfs, root, rounded_up
from dpcl_core.spec import Cell
from tests.support.asserting import refuses

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
        refuses("", batches.draw, 60, error=RuntimeError)
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


# Noise rounded exactly: its law, its first look held against mpmath, and every way of looking again.


NOISES: list[Noise] = [ReleaseNoise(), SeededNoise(Cell(1.0, 0), "a test")]


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with mpmath.workprec(400):
        yield


def fed(words: np.ndarray, then: bytes = b"\0") -> gaussian.Bits:
    """Random bits chosen beforehand; whatever is asked for after them is `then`, over and over."""
    rest = iter([words.tobytes()])

    def bits(count: int) -> bytes:
        chunk = next(rest, then * count)
        assert len(chunk) == count
        return chunk

    return bits


def uniform(words: np.ndarray, n_digits: int, then: bytes) -> list[mpmath.mpf]:
    """The numbers in [0, 1] with these digits, and zeros or ones behind them."""
    return [mpmath.mpf(int(word) + (then == b"\xff")) / mpmath.mpf(2) ** n_digits for word in words]


def exact_pairs(words: np.ndarray, n_digits: int, then: bytes = b"\0") -> list[list[mpmath.mpf]]:
    """Standard normal numbers of the pairs words [2, n]: first those of the cosine, then those of the sine."""
    pairs = list(zip(*(uniform(row, n_digits, then) for row in words), strict=True))
    radii = [mpmath.sqrt(-2 * mpmath.log(u)) for u, _ in pairs]
    return [
        [radius * side(2 * mpmath.pi * v) for radius, (_, v) in zip(radii, pairs, strict=True)]
        for side in (mpmath.cos, mpmath.sin)
    ]


def rounded_exactly(clean: np.ndarray, drawn: list[mpmath.mpf], std: float, step: float) -> list[float]:
    sums = zip(clean.ravel().tolist(), drawn, strict=True)
    return [float(mpmath.nint((mpmath.mpf(value) + std * n) / step) * step) for value, n in sums]


def corner_words(dtype: type[np.unsignedinteger], n: int = 200) -> np.ndarray:
    """Words [2, n]: random ones, and U and V near their ends and quarters."""
    most, generator = np.iinfo(dtype).max, np.random.default_rng(7)
    words = generator.integers(0, most, (2, n), dtype=dtype, endpoint=True)
    ends = [1, 2, 1000, most // 4, most // 4 + 1, most // 2, most // 2 + 1, most - 1000, most - 1, most]
    words[0, : len(ends)], words[1, 40 : 40 + len(ends)] = ends, ends
    words[0, 40 : 40 + len(ends)], words[1, 80 : 80 + len(ends)] = 1, ends
    return words


@pytest.mark.parametrize("then", [b"\0", b"\xff"])
@pytest.mark.parametrize("std", [1.0, 3.7, 2.0**-30 * 1.9])
def test_double_precision_is_the_exact_sum_rounded(std: float, then: bytes) -> None:
    """Clean numbers on no grid, large, tiny; half of them put within 2^-30 of a grid step from where rounding turns."""
    words, step = corner_words(np.uint64), gaussian.grid(std)
    drawn = list(chain(*exact_pairs(words, 64, then)))
    clean = np.random.default_rng(1).standard_normal(400) * std * np.geomspace(1e-12, 1e6, 400)
    turns = [float(step * (mpmath.floor(n * std / step) + 0.5) - std * n) for n in drawn]
    clean[::2] = [value + (-1) ** place * step * 2.0**-30 for place, value in enumerate(turns)][::2]
    assert gaussian.added(clean, std, fed(words, then)).tolist() == rounded_exactly(clean, drawn, std, step)


@pytest.mark.parametrize("then", [b"\0", b"\xff"])
@pytest.mark.parametrize("std", [1.0, 3.7, 1e-3])
def test_single_precision_is_the_exact_sum_rounded(std: float, then: bytes) -> None:
    words, step = corner_words(np.uint32), gaussian.grid32(std)
    drawn = list(chain(*exact_pairs(words, 32, then)))
    clean = (np.random.default_rng(1).standard_normal(400) * std * np.geomspace(1e-6, 1e3, 400)).astype(np.float32)
    turns = [float(step * (mpmath.floor(n * std / step) + 0.5) - std * n) for n in drawn]
    clean[::2] = np.nextafter(np.array(turns, dtype=np.float32), np.float32(0))[::2]  # a tie would be looked at for ever
    found = gaussian.added32(clean, std, fed(words, then))
    assert found.dtype == np.float32
    assert found.tolist() == [float(np.float32(value)) for value in rounded_exactly(clean, drawn, std, step)]


@pytest.mark.parametrize("then", [b"\0", b"\xff"])
def test_rows_of_several_scales_drawn_ahead_are_the_exact_sums_rounded(then: bytes) -> None:
    """Three rows in one block, an odd number of values in all, so that the last draw is discarded; two additions."""
    stds, size, half = (1.0, 3.7, 1e-3), 67, 101
    words = corner_words(np.uint32, 2 * half).reshape(2, 2, half)
    ahead = gaussian.Ahead32(3 * size, stds, 2, fed(words, then))
    scales = np.repeat(stds, size)
    steps = np.array([gaussian.grid32(std) for std in scales])
    for addition in (1, 0):  # what was drawn last is used first
        drawn = list(chain(*exact_pairs(words[:, addition], 32, then)))[: 3 * size]
        clean = (np.random.default_rng(1).standard_normal(3 * size) * scales).astype(np.float32)
        each = list(zip(drawn, scales, steps, strict=True))
        turns = [float(step * (mpmath.floor(n * std / step) + 0.5) - std * n) for n, std, step in each]
        clean[::2] = np.nextafter(np.array(turns, dtype=np.float32), np.float32(0))[::2]
        expected = [rounded_exactly(one, [n], std, step) for one, (n, std, step) in zip(clean[:, None], each, strict=True)]
        assert ahead.added(clean).tolist() == [float(np.float32(value)) for (value,) in expected]


@pytest.mark.parametrize("noise", ["release", "seeded"])
def test_what_of_a_number_lies_on_the_grid_is_added_as_it_is(noise: str) -> None:
    """In double precision 2^23 steps and a fraction are not rounded to whole steps before they have their noise."""
    std, rest = 3.7, np.random.default_rng(2).uniform(-1, 1, 400)
    step, words = gaussian.grid32(std), np.random.default_rng(3).integers(0, 2**32, 400, np.uint32)

    def added(clean: np.ndarray) -> np.ndarray:
        source = ReleaseNoise(fed(words)) if noise == "release" else SeededNoise(Cell(1.0, 0), "means")
        found = source.added32(clean, std)
        assert found.dtype == np.float32
        return found.astype(np.float64)

    large = 2.0**23 * step
    np.testing.assert_array_equal(added(large + rest) - large, added(rest))
    single = added(rest.astype(np.float32))
    assert (added(rest) == single).mean() > 0.99  # they may part where rounding to single precision turned a tie


@pytest.mark.parametrize("then", [b"\0", b"\xff"])
def test_laplace_is_the_exact_sum_rounded(then: bytes) -> None:
    words, scale = corner_words(np.uint64).ravel() | np.uint64(2), 5.3  # of nothing but zeros no logarithm is found
    step = gaussian.grid(scale)
    signs = [-1 if word & np.uint64(1) else 1 for word in words]
    drawn = [-sign * mpmath.log(u) for sign, u in zip(signs, uniform(words >> np.uint64(1), 63, then), strict=True)]
    clean = np.random.default_rng(1).standard_normal(400) * np.geomspace(1e-9, 1e9, 400)
    turns = [float(step * (mpmath.floor(n * scale / step) + 0.5) - scale * n) for n in drawn]
    clean[::2] = [value + step * 2.0**-30 for value in turns][::2]
    assert gaussian.laplace_added(clean, scale, fed(words, then)).tolist() == rounded_exactly(clean, drawn, scale, step)


def test_first_looks_are_far_within_their_bounds() -> None:
    """Random words and all corners: an error of a third of the bound would mean functions within some 3 units, not 8."""
    words = corner_words(np.uint64, 800)
    ratio = 2.0**25
    found, sums = gaussian._in_double(words, ratio)
    inside = (found >= gaussian._RANGE[0]) & (found <= gaussian._RANGE[1])
    errors = np.array([[float(n * ratio - mpmath.mpf(z)) for n, z in zip(*rows, strict=True)] for rows in
                       zip(exact_pairs(words, 64), sums.tolist(), strict=True)])  # fmt: skip
    assert inside.sum() > 700
    assert np.abs(errors[:, inside]).max() < gaussian._MARGIN / 2
    words32 = corner_words(np.uint32, 800)
    ahead = gaussian.Ahead32(words32.size, [7.95 / 4], 1, fed(words32))
    ahead._draw(ahead._blocks[0])
    first = ahead._drawn.reshape(2, -1)
    pairs = zip(exact_pairs(words32, 32), first.tolist(), strict=True)
    errors = np.array([[float(n * 7.95 - mpmath.mpf(z)) for n, z in zip(*rows, strict=True)] for rows in pairs])
    inside = np.isfinite(first).all(axis=0)
    assert inside.sum() > 700
    assert np.abs(errors[:, inside]).max() < gaussian._MARGIN32 / 2


def test_tails_are_not_cut_off() -> None:
    """U of 71 and of 39 zeros: beyond 9 and 7 standard deviations, where 32 digits end at 6.7; U of ones gives 0."""
    for added, words in ((gaussian.added, np.zeros(2, np.uint64)), (gaussian.added32, np.zeros(2, np.uint32))):
        chunks = iter([words.tobytes()])
        assert 7.3 < added(np.zeros(2, np.float32), 1.0, lambda count, chunks=chunks: next(chunks, b"\1" * count))[0] < 10.2
        assert added(np.zeros(2, np.float32), 1.0, fed(~words, b"\xff")).tolist() == [0.0, 0.0]


def fits(values: np.ndarray, step: float, law: Callable[[np.ndarray], np.ndarray], n_cells: int = 60) -> bool:
    """Chi-square of counts in cells cut between the points of the grid: false alarm 1e-6."""
    edges = np.unique(step * (np.round(np.quantile(values, np.linspace(0, 1, n_cells + 1)[1:-1]) / step) + 0.5))
    expected = len(values) * np.diff(np.concatenate([[0.0], law(edges), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, values), minlength=len(expected))
    return bool(((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, len(expected) - 1))


@pytest.mark.parametrize("noise", NOISES)
def test_rounded_numbers_follow_the_law_and_ten_percent_less_noise_does_not(noise: Noise) -> None:
    """300,001 draws of each kind: an odd count, so the pairs of the transform are cut."""
    n, std, clean = 300_001, 3.7, 0.0123
    double = noise.added(np.full(n, clean), std)
    single = noise.added32(np.full(n, clean, np.float32), std).astype(np.float64)
    steps = noise.additions32(101, std, 1000)
    small = np.concatenate([steps(np.full(101, clean, np.float32)) for _ in range(1000)]).astype(np.float64)
    for values, step, law in (
        (double, gaussian.grid(std), norm(clean, std)),
        (single, gaussian.grid32(std), norm(clean, std)),
        (small, gaussian.grid32(std), norm(clean, std)),
        (noise.laplace_added(np.full(n, clean), std), gaussian.grid(std), laplace(clean, std)),
    ):
        assert (values % step == 0).all()
        assert fits(values, step, law.cdf)
        assert not fits(values, step, type(law.dist)()(clean, 0.9 * std).cdf)
        half = len(values) // 2
        assert abs(np.corrcoef(values[:half], values[-half:])[0, 1]) < 5 / np.sqrt(half)  # five standard errors
        assert abs(np.corrcoef(values[:half] ** 2, values[-half:] ** 2)[0, 1]) < 6 / np.sqrt(half)


def test_rows_drawn_together_have_each_their_own_noise() -> None:
    """Three rows of 20,001 numbers, over the edges of blocks: each on its own grid, by its own law, none like another's."""
    stds, clean = [0.5, 3.7, 100.0], np.array([0.01, -2.0, 7.0], np.float32)
    add = additions32([ReleaseNoise() for _ in stds], stds, 20_001, 3)
    found = np.stack([add(np.repeat(clean[:, None], 20_001, axis=1)) for _ in range(3)]).astype(np.float64)
    for row, (std, mean) in enumerate(zip(stds, clean.tolist(), strict=True)):
        values, step = found[:, row].ravel(), gaussian.grid32(std)
        assert (values % step == 0).all()
        assert fits(values, step, norm(mean, std).cdf)
        assert not fits(values, step, norm(mean, 0.9 * std).cdf)
    apart = np.corrcoef(((found - clean[:, None]) / np.array(stds)[:, None]).reshape(9, -1)) - np.eye(9)
    assert np.abs(apart).max() < 6 / np.sqrt(20_001)  # six standard errors


@pytest.mark.parametrize("noise", NOISES)
def test_a_zero_is_never_negative(noise: Noise) -> None:
    """Clean numbers of 0, -0 and a little below: 5e-2 of single-precision results are 0, and none says from which side."""
    for clean in (0.0, -0.0, -1e-6):
        zeros = noise.added32(np.full(20_000, clean, np.float32), 1.0)
        assert (zeros == 0).sum() > 50
        assert not np.signbit(zeros[zeros == 0]).any()
    assert not np.signbit(gaussian.added(np.full(2, -0.0), 1.0, fed(np.array([2**64 - 1, 0], np.uint64), b"\xff"))).any()


def test_no_number_serves_twice_and_no_more_are_given_than_asked_for() -> None:
    """40,000 numbers a step: two blocks; and small steps drawn together."""
    for size, count in ((40_000, 3), (7, 50)):
        steps = gaussian.Ahead32(size, [1.0], count, os.urandom)
        found = np.stack([steps.added(np.zeros(size, np.float32)) for _ in range(count)])
        found = found.reshape(-1, min(size, 20_000))  # the two blocks of a large step apart
        assert len({row.tobytes() for row in found}) == len(found)
        refuses("more additions", steps.added, np.zeros(size, np.float32), error=ValueError)


def test_the_grid_is_a_power_of_two_of_the_scale_alone_and_no_scale_is_without_one() -> None:
    for std in (1e-20, 0.3, 1.0, 1.9999999, 2.0, 7e20):
        for found, places in ((gaussian.grid(std), 24), (gaussian.grid32(std), 2)):
            assert Fraction(found).numerator == 1 or Fraction(found).denominator == 1
            assert np.frexp(found)[0] == 0.5
            assert 2**places <= Fraction(std) / Fraction(found) < 2 ** (places + 1)
    for std in (0.0, -1.0, np.nan, np.inf, 1e-300):
        refuses("no grid", gaussian.added, np.zeros(1), std, os.urandom, error=ValueError)


def test_shapes_are_kept_and_empty_arrays_stay_empty() -> None:
    for noise in NOISES:
        for shape in ((), (0,), (3, 0, 2), (3, 5), (1,)):
            assert noise.added(np.zeros(shape), 1.0).shape == shape
            assert noise.added32(np.zeros(shape, np.float32), 1.0).shape == shape
            assert noise.laplace_added(np.zeros(shape), 1.0).shape == shape


# Roots, normal tails and Student's quantiles: beside SciPy's, and beside arithmetic of forty digits.


SHAPES: tuple[Callable[[float], float], ...] = (
    lambda t: t, lambda t: t**3, math.tanh, math.expm1, lambda t: math.copysign(abs(t) ** 0.3, t),
    lambda t: math.copysign(1.0, t),
)  # fmt: skip
TAIL = [*(-np.logspace(-3, 4, 500)).tolist(), -25.0, math.nextafter(-25.0, 0.0), 0.0, *np.logspace(-3, 1, 100).tolist()]


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("xtol", [1e-13, 1e-5])
def test_a_root_is_brentqs_to_the_last_bit_by_as_many_steps(shape: int, xtol: float) -> None:
    chosen = random.Random(shape)
    for _ in range(40):
        place, low, high = chosen.uniform(-3, 3), chosen.uniform(0.01, 5), chosen.uniform(0.01, 5)
        calls = [0, 0]

        def counted(x: float, of: int, place: float = place, calls: list[int] = calls) -> float:
            calls[of] += 1
            return SHAPES[shape](3 * (x - place))

        ours = root(lambda x: counted(x, 0), place - low, place + high, xtol=xtol, rtol=8.9e-16)
        theirs = brentq(lambda x: counted(x, 1), place - low, place + high, xtol=xtol, rtol=8.9e-16, maxiter=500)
        assert (ours, calls[0]) == (theirs, calls[1])


def test_a_root_at_an_end_is_found_and_none_between_equal_signs() -> None:
    assert (root(lambda x: x, 0.0, 1.0), root(lambda x: x - 1, 0.0, 1.0)) == (0.0, 1.0)
    for bad in (lambda x: x * x + 1, lambda x: math.nan):
        refuses(r"no root is known between 0\.0 and 1\.0", root, bad, 0.0, 1.0, error=ValueError)


def test_the_normal_distribution_is_exact_in_both_tails() -> None:
    """Forty digits: neither does 1 - p lose them above, nor does p become 0 below."""
    with mpmath.workdps(40):
        for x in TAIL:
            chance = mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2
            assert abs(log_normal_cdf(x) / mpmath.log(chance) - 1) < 1e-13, x
            if x > -37:
                assert abs(normal_cdf(x) / chance - 1) < 1e-12, x


def test_arrays_have_the_same_numbers() -> None:
    x = np.array([*TAIL, -math.inf])
    np.testing.assert_allclose(normal_cdfs(x), ndtr(x), rtol=1e-12, atol=0)
    np.testing.assert_allclose(log_normal_cdfs(x), log_ndtr(x), rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("n_free", [1, 2, 3, 4, 9, 30, 999])
@pytest.mark.parametrize("chance", [0.5, 0.6, 0.975, 0.99, 1 - 1e-5])
def test_students_quantiles_are_scipys(n_free: int, chance: float) -> None:
    assert numerics.student_quantile(n_free, chance) == pytest.approx(stdtrit(n_free, chance), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("exponent", [-300, -9, 0, 5, 300])
def test_rounding_up_never_falls_below_and_adds_little(exponent: int) -> None:
    """In exact fractions: not below x, above it by 2^-34 of x at most, and unchanged by a second rounding."""
    draw = random.Random(exponent)
    for x in [1.0, math.nextafter(1.0, 2.0), *(draw.uniform(0.1, 10) * 10.0**exponent for _ in range(200))]:
        found = rounded_up(x)
        assert Fraction(x) <= Fraction(found) <= Fraction(x) * (1 + Fraction(1, 2**34))
        assert rounded_up(found) == found


def test_rounding_up_hides_last_digits() -> None:
    """Two computers whose values differ by 1e-14 agree, but for about one value in 3,000."""
    assert sum(rounded_up(x) != rounded_up(x * (1 + 1e-14)) for x in np.random.default_rng(0).uniform(0.5, 1, 2000)) <= 5
    assert (rounded_up(math.inf), rounded_up(0.0)) == (math.inf, 0.0)
