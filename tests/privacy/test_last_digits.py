"""Last digits tell nothing: the attack of Mironov (2012), adapted, on every mechanism that releases sums or copies.

The attacker knows the clean value of either world. fl(x + noise) keeps x's grid wherever it comes out small, and he sees a
number that is no multiple of it: then x was not there. Here numbers of both worlds lie on one public grid, and he learns
nothing from where on it they lie. `test_the_attack_finds_floating_point_noise` shows that he wins against noise as usual."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from dpcl_core.privacy import gaussian, ledger, mechanisms
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_class_sums, noisy_client_sums, noisy_coefficients, noisy_mean
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.sums import STEP, ExactSum, RowProducts, clipped_rows, finite_rows, on_grid, unit_rows
from dpcl_core.privacy.text_mechanisms import Randomiser, clipped, noisy_embeddings, noisy_records

K, N, STD = 24, 1500, 3.7
GENERATOR, FACTORS = np.random.default_rng(1), np.random.default_rng(3)
OTHERS, LABELS = GENERATOR.standard_normal((40, K)), np.arange(40) % 2
PERSON = GENERATOR.choice([-1, 1], K) * (1 + 0.1 * GENERATOR.random(K))


def ledgers(n: int, adjacency: str = "add-remove") -> list[ledger.Ledger]:
    return [ledger.Ledger(1e-5, adjacency, "once") for _ in range(n)]  # type: ignore[arg-type]


def with_person(is_there: bool) -> tuple[np.ndarray, np.ndarray]:
    """40 known rows of classes 0 and 1, and one more that is alone in class 2."""
    return (np.vstack([OTHERS, PERSON]), np.append(LABELS, 2)) if is_there else (OTHERS, LABELS)


def class_sums(is_there: bool, n: int) -> np.ndarray:
    noises = [ReleaseNoise()] * n
    return noisy_class_sums(*with_person(is_there), (0, 1, 2), 3, [STD] * n, noises, ledgers(n), task=0)[:, 2]


def coefficients(is_there: bool, n: int) -> np.ndarray:
    found = noisy_coefficients(
        *with_person(is_there), (0, 1, 2), 3, [STD] * n, [ReleaseNoise()] * n, ledgers(n), task=0, is_non_negative=False
    )
    return np.hstack([found.features, found.by_class[:, 2], found.products[:, np.arange(K), np.arange(K)]])


def client_sums(is_there: bool, n: int) -> np.ndarray:
    vectors = np.vstack([np.zeros((1, K)), PERSON[None] * is_there])
    parts = [ClientVectors(channel, vectors, 1.0, [STD] * n) for channel in (ledger.REPLAY, ledger.HEAD)]
    return np.hstack(noisy_client_sums(parts, [ReleaseNoise()] * n, ledgers(n), task=0, what="sums"))


def client_vectors(is_there: bool, n: int) -> np.ndarray:
    part = ClientVectors(ledger.REPLAY, PERSON[None] * is_there, 1.0, [STD] * n)
    return mechanisms.noisy_client_vectors(part, [ReleaseNoise()] * n, ledgers(n), task=0, what="lists")[:, 0]


def records(is_there: bool, n: int) -> np.ndarray:
    values = np.tile(np.clip(PERSON, -1, 1) * 0.7 if is_there else np.zeros(K), (n, 1))
    local = Randomiser(K, 2 * K / STD, 1.0)
    (book,) = ledgers(1, "replace")
    return noisy_records(values, np.zeros(n, np.int64), (0, 1), local, ReleaseNoise(), book, task=0)[0]


def embeddings(is_there: bool, n: int) -> np.ndarray:
    table, tokens = np.vstack([np.zeros(K), PERSON]).astype(np.float32), np.full((n, 1), int(is_there))
    return noisy_embeddings(table, tokens, STD, 1.0, ReleaseNoise(), ledgers(1, "replace")[0], task=0)[:, 0]


def means(is_there: bool, n: int) -> np.ndarray:
    values = [0.1234567] * 4 + [0.7654321] * is_there
    book = ledgers(1)[0]
    found = [noisy_mean(np.array(values), 8, STD / 80, ReleaseNoise(), book, task=0, what="mean") for _ in range(n)]
    return 8 * np.array(found)[:, None]


MECHANISMS: dict[str, tuple[Callable[[bool, int], np.ndarray], float]] = {
    "class sums": (class_sums, gaussian.grid(STD)),
    "coefficients": (coefficients, gaussian.grid(STD)),
    "client sums": (client_sums, gaussian.grid(STD)),
    "client vectors": (client_vectors, gaussian.grid(STD)),
    "records": (records, gaussian.grid(STD)),  # given out in single precision: of multiples, rounded once more
    "embeddings": (embeddings, gaussian.grid32(STD)),
    "mean": (means, gaussian.grid(STD / 10)),
}


def says_absent(released: np.ndarray) -> np.ndarray:
    """The attack [n, K] -> [n]: a number that is small and no multiple of the grid that the person's row would leave."""
    row = PERSON / np.linalg.norm(PERSON)
    finest = 2.0 ** (np.floor(np.log2(np.abs(row))) - 53)
    return ((np.abs(released) < np.abs(row) / 4) & (np.mod(released / finest, 1.0) != 0)).any(axis=1)


def test_rows_are_added_up_in_one_order_however_they_lie_in_memory() -> None:
    """numpy adds numbers that lie side by side in another order than others, and a row alone always lies side by side."""
    rows = GENERATOR.standard_normal((50, 1280))
    for lying in (rows, np.asfortranarray(rows), rows[:, np.arange(1280)], np.repeat(rows, 2, axis=1)[:, ::2]):
        doubles = finite_rows(lying)
        assert doubles.flags.c_contiguous
        for place in (0, 49):
            assert np.linalg.norm(doubles, axis=1)[place] == np.linalg.norm(rows[place : place + 1], axis=1)[0]


def test_the_attack_finds_floating_point_noise() -> None:
    row, noise = PERSON / np.linalg.norm(PERSON), STD * GENERATOR.standard_normal((N, K))
    assert not says_absent(row + noise).any()
    assert says_absent(noise).mean() > 0.1


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_last_digit_of_any_release_tells_of_the_person(name: str) -> None:
    """1,500 releases a side. On one public grid, whose low bits are fair coins with the person and without: 1e-6 each."""
    release, step = MECHANISMS[name]
    for is_there in (True, False):
        released = release(is_there, N).astype(np.float64)
        if name in ("class sums", "client vectors"):
            assert not says_absent(released).any()
        assert not np.signbit(released[released == 0]).any()
        places = released / step
        if name == "records":  # single precision keeps 24 digits: of small numbers all that are on the grid
            places = places[np.abs(places) < 2**24]
        if name == "mean":
            places = places[(released > 0) & (released < 8)]
        np.testing.assert_array_equal(places, np.rint(places))
        if name != "embeddings":  # their grid is coarse, and its points are not equally likely
            ones = (places.astype(np.int64) & 1).ravel()
            assert binomtest(int(ones.sum()), len(ones), 0.5).pvalue > 1e-6
        else:
            assert_fits_its_law(places.ravel() * step, clipped(PERSON[None] * is_there, 1.0)[0], step)


def assert_fits_its_law(values: np.ndarray, clean: np.ndarray, step: float) -> None:
    """Single precision: the mean square about the clean value is that of the noise and of rounding; false alarm 1e-6."""
    statistic = float(((values - np.tile(clean, len(values) // len(clean))) ** 2).sum()) / (STD**2 + step**2 / 12)
    assert chi2.ppf(5e-7, len(values)) < statistic < chi2.isf(5e-7, len(values))


# Neighbours: whatever rows there are, what goes into the noise moves by no more than accounted, in exact arithmetic.

EXTREMES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1 / 3, 1e-38, -1e38, 1e300, -1e300, 5e-324, -1e-310, math.nan, math.inf, -math.inf, 2e19]
)
NUMBERS = EXTREMES | st.floats(width=64) | st.floats(-2, 2)
ROWS = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=5)
)
FUZZ = settings(max_examples=150, deadline=None, derandomize=True, database=None)


def length_squared(values: np.ndarray) -> Fraction:
    return sum((Fraction(value) ** 2 for value in values.ravel().tolist()), Fraction(0))


def clean_sums(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return noisy_class_sums(rows, labels, (0, 1), 2, [0.0], [ReleaseNoise()], ledgers(1), task=0)[0]


@FUZZ
@given(ROWS, st.integers(0, 1))
def test_class_sums_of_neighbours_are_at_most_one_apart(rows: list[list[float]], label: int) -> None:
    data, labels = np.array(rows), np.append(np.zeros(len(rows) - 1, np.int64), label)
    whole, rest = clean_sums(data, labels), clean_sums(data[:-1], labels[:-1])
    assert np.isfinite(whole).all()
    assert length_squared(whole - rest) <= 1
    order = np.arange(len(rows))[::-1]
    np.testing.assert_array_equal(whole, clean_sums(data[order], labels[order]))  # in any order, to the last digit


@FUZZ
@given(ROWS, st.booleans())
def test_coefficients_of_neighbours_stay_within_the_sensitivity(rows: list[list[float]], is_non_negative: bool) -> None:
    def coordinates(data: np.ndarray) -> np.ndarray:
        found = noisy_coefficients(
            data, np.zeros(len(data), np.int64), (0,), 1, [0.0], [ReleaseNoise()], ledgers(1), task=0,
            is_non_negative=is_non_negative,
        )  # fmt: skip
        return np.concatenate([found.features.ravel(), found.products.ravel(), found.by_class.ravel()])

    data = np.array(rows)
    whole, rest = coordinates(data), coordinates(data[:-1])
    assert np.isfinite(whole).all()
    # All entries of the symmetric matrix: each off the diagonal twice, which is once with the factor sqrt(2).
    assert length_squared(whole - rest) <= 3
    assert mechanisms.coefficients_sensitivity("add-remove", is_non_negative=is_non_negative) == math.sqrt(3)


@FUZZ
@given(ROWS, st.floats(1e-3, 1e3))
def test_clipped_vectors_are_no_longer_than_their_bound(rows: list[list[float]], bound: float) -> None:
    found = clipped_rows(np.array(rows), bound)
    assert np.isfinite(found).all()
    assert all(length_squared(row) <= Fraction(bound) ** 2 for row in found)
    total = sum(np.array([Fraction(value) for value in row]) for row in found.tolist())
    assert [Fraction(value) for value in found.sum(axis=0).tolist()] == list(total)  # sums are exact
    assert all(length_squared(row) <= Fraction(bound) ** 2 for row in clipped(np.array(rows), bound))


@FUZZ
@given(ROWS, st.none() | st.floats(1e-3, 1e3))
def test_records_are_no_farther_apart_than_the_scale_allows(rows: list[list[float]], clip: float | None) -> None:
    data = np.array(rows)
    local = Randomiser(data.shape[1], math.inf, math.inf, clip)
    found = noisy_records(data, np.zeros(len(data), np.int64), (0,), local, Still(), ledgers(1, "replace")[0], task=0)[0]
    assert np.isfinite(found).all()
    noisy = Randomiser(data.shape[1], 0.7, math.inf, clip)
    seen = Still()
    noisy_records(data, np.zeros(len(data), np.int64), (0,), noisy, seen, ledgers(1, "replace")[0], task=0)
    lengths = [sum(abs(Fraction(value)) for value in row) for row in seen.clean.tolist()]
    assert 2 * max(lengths) / Fraction(noisy.scale) <= Fraction(0.7)


class Still(ReleaseNoise):
    """Noise that keeps what it was given, and adds nothing."""

    def laplace_added(self, clean: np.ndarray, scale: float) -> np.ndarray:
        self.clean = clean.copy()
        return clean


@FUZZ
@given(st.lists(NUMBERS, max_size=6), NUMBERS)
def test_a_mean_of_neighbours_moves_by_one_share(values: list[float], other: float) -> None:
    def of_sum(given: list[float]) -> Fraction:
        return Fraction(noisy_mean(np.array(given), 2**20, 0.0, ReleaseNoise(), ledgers(1)[0], task=0, what="mean")) * 2**20

    assert abs(of_sum([*values, other]) - of_sum(values)) <= 1


def test_each_number_of_a_mean_is_on_the_grid_before_it_is_added() -> None:
    """Cut off once, at the end, their sum would be larger."""
    many = FACTORS.random(3000)
    found = noisy_mean(many, 2**20, 0.0, ReleaseNoise(), ledgers(1)[0], task=0, what="mean")
    assert Fraction(found) * 2**20 == sum(map(Fraction, on_grid(many.copy(), STEP).tolist()))


@FUZZ
@given(ROWS)
def test_unit_rows_are_no_longer_than_one(rows: list[list[float]]) -> None:
    assert all(length_squared(row) < 1 for row in unit_rows(np.array(rows)))


# Products of rows with a public matrix are exact sums of numbers on grids, so no row depends on another.


@pytest.mark.parametrize("width", [1, 2, 1023, 1024, 2047])
def test_no_order_of_additions_changes_a_digit(width: int) -> None:
    """Numbers near the largest that are possible, all of one sign: their sums come as close to 2^53 as they can."""
    rows, matrix = 1 - FACTORS.random((40, width)) / 256, 1 - FACTORS.random((width, 30)) / 256
    found = RowProducts(matrix).of(rows)
    for _ in range(5):
        order = FACTORS.permutation(width)
        np.testing.assert_array_equal(RowProducts(matrix[order]).of(rows[:, order]), found)


def test_numbers_of_24_and_of_18_bits_are_multiplied_without_rounding() -> None:
    rows = FACTORS.integers(1 - 2**24, 2**24, (20, 1280))
    matrix = FACTORS.integers(1 - 2**18, 2**18, (1280, 7))
    rows[:, 0], matrix[0] = 2**24 - 1, 2**18 - 1  # no row and no column is on a coarser grid
    for scale in (2.0**-900, 2.0**-140, 1.0, 2.0**100):  # a row's and a column's own grids
        np.testing.assert_array_equal(RowProducts(matrix * 2.0**-30).of(rows * scale), (rows @ matrix) * (scale * 2.0**-30))


def test_no_row_moves_anothers_grid_however_large_it_is() -> None:
    rows, matrix = FACTORS.standard_normal((9, 64)), FACTORS.standard_normal((64, 5))
    rows *= 2.0 ** np.arange(-360, 361, 90)[:, None]
    alone = np.vstack([RowProducts(matrix).of(row[None]) for row in rows])
    np.testing.assert_array_equal(RowProducts(matrix).of(rows), alone)


def test_a_sum_of_more_steps_than_a_float_holds_stays_at_the_last_one_that_it_holds() -> None:
    """Or its rounding would move two neighbours' sums farther apart than the one row between them."""
    for sign in (1, -1):
        total = ExactSum((1,), 0.5)
        for _ in range(3):
            total.add(np.array([sign * 2.0**51]))
        assert total.value().tolist() == [sign * 2.0**52], "2^53 steps of a half"


def test_rows_that_are_not_finite_and_rows_of_zeros_give_zeros() -> None:
    rows, matrix = FACTORS.standard_normal((5, 9)), FACTORS.standard_normal((9, 4))
    rows[1], rows[2, 3], rows[4, 0] = 0, np.inf, np.nan
    matrix[:, 2] = 0
    found = RowProducts(matrix).of(rows)
    assert not found[[1, 2, 4]].any()
    assert not found[:, 2].any()
    np.testing.assert_allclose(found[[0, 3]], rows[[0, 3]] @ matrix, rtol=0, atol=1e-5)
    assert RowProducts(matrix).of(rows[:0]).shape == (0, 4)
