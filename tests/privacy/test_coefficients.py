"""The three sums: equal to a loop, as far apart on neighbours as proved and no farther, with the right noise, accounted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.coefficient_release import Coefficients, coefficients_std, noisy_coefficients, sensitivity
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import ReleaseNoise, SeededNoise
from dpcl_core.spec import Adjacency, Cell, Recurrence

DELTA = 1e-5
KINDS: list[tuple[Adjacency, bool, float]] = [
    ("add-remove", False, 3), ("add-remove", True, 3), ("replace", False, 8), ("replace", True, 6),
]  # fmt: skip


def ledger(adjacency: Adjacency = "add-remove", recurrence: Recurrence = "once") -> Ledger:
    return Ledger(DELTA, adjacency, recurrence)


def released(
    features: np.ndarray,
    labels: np.ndarray,
    std: float = 0.0,
    *,
    space: tuple[int, ...] = (0, 1, 2),
    is_non_negative: bool = False,
    book: Ledger | None = None,
) -> Coefficients:
    return noisy_coefficients(
        features, labels, space, 3, [std], [ReleaseNoise()], [book or ledger()], task=0, is_non_negative=is_non_negative
    )


def coordinates(sums: Coefficients) -> np.ndarray:
    """One release as the vector that the noise is independent on: the products' triangle, sqrt(2) times off the diagonal."""
    products = sums.products[0]
    above = np.triu_indices(len(products), 1)
    return np.concatenate([sums.features[0], products.diagonal(), math.sqrt(2) * products[above], sums.by_class[0].ravel()])


def of_one(phi: np.ndarray, label: int) -> np.ndarray:
    """What one example of any length adds to that vector, written anew."""
    triangle = [(1 if i == j else math.sqrt(2)) * phi[i] * phi[j] for i in range(len(phi)) for j in range(i, len(phi))]
    by_class = np.zeros((3, len(phi)))
    by_class[label] = phi
    return np.concatenate([phi, triangle, by_class.ravel()])


def test_the_sums_are_those_of_a_loop() -> None:
    generator = np.random.default_rng(0)
    features, labels = generator.standard_normal((40, 5)) * 7, generator.integers(0, 3, 40)
    s, products, by_class = np.zeros(5), np.zeros((5, 5)), np.zeros((3, 5))
    for row, label in zip(features, labels, strict=True):
        phi = row / math.sqrt(float(row @ row))
        s, products = s + phi, products + np.outer(phi, phi)
        by_class[label] += phi
    found = released(features, labels)
    shorter = 1 - math.sqrt(5) * 2.0**-18  # so much all rows are, for none to be longer than 1 after rounding by 2^-19
    np.testing.assert_allclose(found.features[0], shorter * s, atol=40 * 2.0**-19)
    np.testing.assert_allclose(found.products[0], shorter**2 * products, atol=40 * 2.0**-18)
    np.testing.assert_allclose(found.by_class[0], shorter * by_class, atol=40 * 2.0**-19)


@pytest.mark.parametrize(("adjacency", "is_non_negative", "squared"), KINDS)
def test_no_neighbours_found_are_farther_apart_than_the_sensitivity(
    adjacency: Adjacency, is_non_negative: bool, squared: float
) -> None:
    """Random examples of length up to 1 in one to four dimensions, each pushed uphill: they come close, and never above."""
    assert sensitivity(adjacency, is_non_negative=is_non_negative) == math.sqrt(squared)
    generator, best = np.random.default_rng(1), 0.0

    def bounded(values: np.ndarray) -> np.ndarray:
        values = np.maximum(values, 0) if is_non_negative else values
        return values / max(1.0, float(np.linalg.norm(values)))

    def apart(pair: np.ndarray, labels: tuple[int, int]) -> float:
        first, second = (of_one(bounded(values), label) for values, label in zip(pair, labels, strict=True))
        return float(np.linalg.norm(first - second if adjacency == "replace" else first))

    for _ in range(120):
        pair = generator.standard_normal((2, int(generator.integers(1, 5)))) * generator.uniform(0.2, 2)
        labels = (0, int(generator.integers(0, 2)))
        here, step = apart(pair, labels), 0.5
        for _ in range(60):
            tried = pair + step * generator.standard_normal(pair.shape)
            there = apart(tried, labels)
            if there > here:
                pair, here = tried, there
            else:
                step *= 0.93
        best = max(best, here)
    assert 0.995 * math.sqrt(squared) < best <= math.sqrt(squared) * (1 + 1e-12)


@pytest.mark.parametrize(("adjacency", "is_non_negative", "squared"), KINDS)
def test_the_mechanism_itself_moves_by_the_sensitivity_on_the_worst_neighbours_and_no_others_by_more(
    adjacency: Adjacency, is_non_negative: bool, squared: float
) -> None:
    """Rows that are far too long, not finite or negative included: they are brought into bounds inside."""
    generator = np.random.default_rng(2)
    others, labels = generator.standard_normal((6, 3)), np.array([0, 1, 2, 0, 1, 2])
    worst = [np.eye(3)[0], np.eye(3)[1] if is_non_negative else -np.eye(3)[0]]
    broken = [np.array([np.nan, 1, 0]), np.array([np.inf, 0, 0]), np.zeros(3)]
    rows = [*worst, *(generator.standard_normal((20, 3)) * 1e8), *broken]

    def with_row(row: np.ndarray | None, label: int) -> np.ndarray:
        data = (others, labels) if row is None else (np.vstack([others, row]), np.append(labels, label))
        return coordinates(released(*data, is_non_negative=is_non_negative))

    found = []
    for place, row in enumerate(rows):
        partners = [None] if adjacency == "add-remove" else rows[:place]
        found += [np.linalg.norm(with_row(row, 0) - with_row(partner, label)) for partner in partners for label in (0, 1)]
    assert 1 - 2e-5 < max(found) / math.sqrt(squared) < 1


def test_a_row_of_no_use_counts_zero_in_all_three_sums() -> None:
    nothing = released(np.array([[np.nan, 1.0], [0.0, 0.0], [-np.inf, 2.0]]), np.zeros(3, dtype=np.int64))
    assert not coordinates(nothing).any()
    negative = released(np.array([[-3.0, 0.0], [-1.0, 2.0]]), np.zeros(2, dtype=np.int64), is_non_negative=True)
    assert negative.features[0].tolist() == [0, 1 - 2.0**-18]


def test_every_coordinate_has_noise_of_that_size_and_no_two_the_same() -> None:
    """4,000 releases of nothing: chi squared at a false alarm of 1e-6, which noise 10 % too large or too small fails."""
    n, size, std = 4000, 3, 2.5
    drawn = noisy_coefficients(
        np.zeros((0, size)), np.zeros(0, dtype=np.int64), (0, 2), 3, [std] * n, [ReleaseNoise()] * n,
        [ledger() for _ in range(n)], task=0, is_non_negative=False,
    )  # fmt: skip
    np.testing.assert_array_equal(drawn.products, drawn.products.transpose(0, 2, 1))
    assert not drawn.by_class[:, 1].any(), "a class outside the list has no noise"
    parts = drawn.features, drawn.products, drawn.by_class[:, [0, 2]]
    vectors = np.array([coordinates(Coefficients(*(part[e : e + 1] for part in parts))) for e in range(n)])
    low, high = chi2.ppf([5e-7 / vectors.shape[1], 1 - 5e-7 / vectors.shape[1]], n)
    sizes = (vectors**2).sum(axis=0) / std**2
    assert ((sizes > low) & (sizes < high)).all()
    whole = (vectors**2).sum() / std**2
    for factor, fits in ((1.0, True), (0.9, False), (1.1, False)):
        bounds = chi2.ppf([5e-7, 1 - 5e-7], vectors.size)
        assert (bounds[0] < whole * factor**2 < bounds[1]) == fits
    correlations = np.corrcoef(vectors.T)[np.triu_indices(vectors.shape[1], 1)]
    assert np.abs(correlations).max() < 6.5 / math.sqrt(n)  # 105 pairs: below 1e-7


@pytest.mark.parametrize(("adjacency", "is_non_negative", "squared"), KINDS)
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_ledger_adds_up_to_what_was_asked_and_to_the_closed_form(
    adjacency: Adjacency, is_non_negative: bool, squared: float, epsilon: float
) -> None:
    std = coefficients_std(epsilon, DELTA, adjacency, is_non_negative=is_non_negative)
    assert std == pytest.approx(gaussian.sigma(epsilon, DELTA, math.sqrt(squared)))
    once, every = ledger(adjacency), ledger(adjacency, "every")
    empty = np.zeros((0, 2)), np.zeros(0, dtype=np.int64)
    for book in (once, every):
        for task in range(5):
            noisy_coefficients(*empty, (0,), 1, [std], [ReleaseNoise()], [book], task=task, is_non_negative=is_non_negative)
    assert once.epsilon() == pytest.approx(epsilon, rel=2e-5)
    assert every.epsilon() == pytest.approx(gaussian.epsilon(std, DELTA, math.sqrt(5 * squared)), rel=1e-4)
    shared = coefficients_std(epsilon, DELTA, adjacency, is_non_negative=is_non_negative, n_releases=5)
    within = ledger(adjacency, "every")
    for task in range(5):
        noisy_coefficients(*empty, (0,), 1, [shared], [ReleaseNoise()], [within], task=task, is_non_negative=is_non_negative)
    assert within.epsilon() == pytest.approx(epsilon, rel=2e-5)


def test_without_noise_there_is_no_bound_and_releases_share_no_noise() -> None:
    book = ledger()
    released(np.ones((1, 2)), np.zeros(1, dtype=np.int64), 0.0, book=book)
    assert book.epsilon() == math.inf
    books = [ledger(), ledger()]
    noises = [SeededNoise(Cell(epsilon, 0), "coefficients") for epsilon in (1.0, 2.0)]
    both = noisy_coefficients(
        np.zeros((0, 30)), np.zeros(0, dtype=np.int64), (0,), 1, [1.0, 1.0], noises, books, task=0, is_non_negative=False
    )
    assert abs(np.corrcoef(both.products.reshape(2, -1))[0, 1]) < 6.5 / math.sqrt(30 * 31 / 2)
