"""The class-sum mechanism: equal to a loop, bounded on neighbours, with the right noise, written down before it leaves."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import chi2

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums, noisy_mean
from dpcl_core.privacy.noise import ReleaseNoise, SeededNoise
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.spec import Adjacency, Cell

DELTA = 1e-5


def ledger() -> Ledger:
    return Ledger(DELTA, "add-remove", "once")


def clean(features: np.ndarray, labels: np.ndarray, space: tuple[int, ...], n_classes: int) -> np.ndarray:
    return noisy_class_sums(features, labels, space, n_classes, [0.0], [ReleaseNoise()], [ledger()], task=0)[0]


def data(n: int = 60, n_classes: int = 4, size: int = 7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((n, size)), generator.integers(0, n_classes, n)


def test_clean_sums_equal_a_loop() -> None:
    features, labels = data()
    expected = np.zeros((4, 7))
    for row, label in zip(features, labels, strict=True):
        expected[label] += row / math.sqrt(sum(value * value for value in row))
    np.testing.assert_allclose(clean(features, labels, (0, 1, 2, 3), 4), expected, atol=1e-13)


def test_removing_any_record_changes_one_class_by_at_most_one() -> None:
    features, labels = data()
    features[3] = np.nan
    features[4] = 0.0
    features[5, 0] = np.inf
    features = features.astype(np.float32).astype(np.float64)  # some lengths round above 1 in float32
    features[6] *= 1e200
    whole = clean(features, labels, (0, 1, 2, 3), 4)
    for row in range(len(labels)):
        rest = np.delete(np.arange(len(labels)), row)
        change = np.linalg.norm(whole - clean(features[rest], labels[rest], (0, 1, 2, 3), 4), axis=1)
        assert (change > 1e-12).sum() <= 1
        assert change.max() <= 1 + 1e-12


def test_replacing_a_record_changes_the_stacked_sums_by_at_most_two() -> None:
    features, labels = data()
    turned = features.copy()
    turned[0] = -turned[0]
    change = clean(features, labels, (0, 1, 2, 3), 4) - clean(turned, labels, (0, 1, 2, 3), 4)
    assert np.linalg.norm(change) == pytest.approx(2.0)
    assert class_sums_std(1.0, DELTA, "replace") == pytest.approx(2 * class_sums_std(1.0, DELTA, "add-remove"))


def test_broken_rows_count_zero_and_long_rows_do_not_overflow() -> None:
    rows = unit_rows(np.array([[0.0, 0.0], [np.nan, 1.0], [np.inf, 0.0], [3e200, 4e200], [3e-300, 4e-300]]))
    np.testing.assert_allclose(rows, [[0, 0], [0, 0], [0, 0], [0.6, 0.8], [0.6, 0.8]], atol=1e-12)


def residuals(std: float, n: int = 60) -> np.ndarray:
    features, labels = data()
    draws = [
        noisy_class_sums(features, labels, (0, 1, 3), 5, [std], [ReleaseNoise()], [ledger()], task=0)[0] for _ in range(n)
    ]
    kept = np.isin(labels, (0, 1, 3))
    return np.stack(draws)[:, [0, 1, 3]] - clean(features[kept], labels[kept], (0, 1, 3), 5)[[0, 1, 3]]


def variance_is(values: np.ndarray, std: float, false_alarm: float = 1e-6) -> bool:
    """Two-sided chi-square test of the variance about zero; rejects true noise once in a million runs."""
    statistic = float((values**2).sum()) / std**2
    return bool(chi2.ppf(false_alarm / 2, values.size) < statistic < chi2.isf(false_alarm / 2, values.size))


def test_noise_has_the_written_variance_and_ten_percent_less_is_rejected() -> None:
    std = gaussian.sigma(1.0, DELTA)
    values = residuals(std, n=400)
    assert variance_is(values, std)
    assert not variance_is(values * 0.9, std)
    assert not variance_is(values * 1.1, std)


def test_noise_is_independent_over_classes_and_coordinates() -> None:
    values = residuals(1.0, n=3000).reshape(3000, -1)
    correlations = np.corrcoef(values.T)[np.triu_indices(values.shape[1], 1)]
    assert np.abs(correlations).max() < 6 / math.sqrt(3000)  # 210 pairs: one false alarm in two million runs


def test_classes_of_the_space_without_data_get_noise_and_others_stay_zero() -> None:
    features, labels = data(n_classes=2)
    sums = noisy_class_sums(features, labels, (0, 1, 4), 6, [1.0], [ReleaseNoise()], [ledger()], task=0)[0]
    assert np.abs(sums[4]).min() > 0
    assert not sums[[2, 3, 5]].any()


def test_an_empty_task_runs_the_same_procedure() -> None:
    books = [ledger()]
    sums = noisy_class_sums(np.zeros((0, 7)), np.zeros(0, np.int64), (0, 1), 2, [1.0], [ReleaseNoise()], books, task=0)
    assert np.abs(sums).min() > 0
    assert len(books[0].entries) == 1


def test_every_release_is_written_down_with_the_noise_it_used() -> None:
    features, labels = data()
    books = [ledger(), ledger()]
    noises = [ReleaseNoise(), ReleaseNoise()]
    noisy_class_sums(features, labels, (0, 1, 2, 3), 4, [2.5, 0.0], noises, books, task=3)
    assert books[0].entries[0].event == dp.GaussianDpEvent(2.5)
    assert books[0].entries[0].task == 3
    assert books[1].epsilon() == math.inf


def test_release_noise_is_standard_normal_and_never_repeats() -> None:
    values = ReleaseNoise().normal((100_001,))
    assert variance_is(values, 1.0)
    assert abs(values.mean()) < 5 / math.sqrt(values.size)
    assert abs((values**4).mean() - 3) < 6 * math.sqrt(96 / values.size)  # fourth moment: variance 105 - 9
    assert not np.array_equal(values, ReleaseNoise().normal((100_001,)))


def test_seeded_noise_repeats_and_differs_between_cells_and_purposes() -> None:
    first = SeededNoise(Cell(1.0, 0), "class sums").normal((50,))
    np.testing.assert_array_equal(first, SeededNoise(Cell(1.0, 0), "class sums").normal((50,)))
    for cell, purpose in ((Cell(2.0, 0), "class sums"), (Cell(1.0, 1), "class sums"), (Cell(1.0, 0), "batches")):
        other = SeededNoise(cell, purpose)
        assert abs(np.corrcoef(first, other.normal((50,)))[0, 1]) < 0.7


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_noisy_mean_costs_what_one_person_can_move_it_by(adjacency: Adjacency) -> None:
    """n = 3000, standard deviation 0.01: mu = 1/30 under both, for a number in [0, 1] moves by 1 at most when replaced."""
    book = Ledger(1e-6, adjacency, "once")
    values = np.concatenate([np.full(2000, 0.5), [np.nan, 7.0, -3.0]])
    drawn = [
        noisy_mean(values, 3000, 0.01, ReleaseNoise(), Ledger(1e-6, adjacency, "once"), task=0, what="mean")
        for _ in range(2000)
    ]
    assert np.mean(drawn) == pytest.approx(1001 / 3000, abs=6 * 0.01 / math.sqrt(2000))
    squares = np.square((np.array(drawn) - 1001 / 3000) / 0.01).sum()
    assert 1e-7 < chi2.cdf(squares, 2000) < 1 - 1e-7
    noisy_mean(values, 3000, 0.01, ReleaseNoise(), book, task=0, what="mean")
    assert book.epsilon() == pytest.approx(gaussian.epsilon(30.0, 1e-6), rel=1e-3, abs=1e-4)
    assert noisy_mean(values, 3000, 0.0, ReleaseNoise(), book, task=0, what="mean") == pytest.approx(1001 / 3000)
    assert book.epsilon() == math.inf


def test_a_noisy_mean_moves_by_one_share_for_any_person() -> None:
    values = np.random.default_rng(0).random(50)
    other = np.concatenate([[1.0 - np.round(values[0])], values[1:]])
    found = [
        noisy_mean(given, 50, 0.0, ReleaseNoise(), ledger(), task=0, what="mean")
        for given in (values, values[1:], other, np.append(values, np.inf))
    ]
    assert max(abs(mean - found[0]) for mean in found) <= 1 / 50
    assert 0 <= noisy_mean(values, 50, 100.0, ReleaseNoise(), ledger(), task=0, what="mean") <= 1
