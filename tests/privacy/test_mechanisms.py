"""Noisy sums: equal to a loop, bounded on neighbours, with the right noise, written down before they leave."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import chi2, norm

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.mechanisms import (
    ClientVectors,
    Coefficients,
    class_sums_std,
    coefficients_sensitivity,
    coefficients_std,
    noisy_class_sums,
    noisy_client_sums,
    noisy_client_vectors,
    noisy_coefficients,
    noisy_mean,
)
from dpcl_core.privacy.noise import Batches, ReleaseNoise, SeededNoise
from dpcl_core.privacy.sums import clipped_rows, unit_rows
from dpcl_core.spec import Adjacency, Cell, Recurrence
from tests.support.planned import charged

DELTA = 1e-5


def ledger(adjacency: Adjacency = "add-remove", recurrence: Recurrence = "once") -> Ledger:
    return Ledger(DELTA, adjacency, recurrence)


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
    assert [variance_is(values * factor, std) for factor in (1.0, 0.9, 1.1)] == [True, False, False]


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
    noisy_class_sums(features, labels, (0, 1, 2, 3), 4, [2.5, 0.0], [ReleaseNoise(), ReleaseNoise()], books, task=3)
    assert (books[0].entries[0].event, books[0].entries[0].task) == (dp.GaussianDpEvent(2.5), 3)
    assert books[1].epsilon() == math.inf


def mean(values: np.ndarray, n: int, std: float, book: Ledger) -> float:
    return noisy_mean(values, n, std, ReleaseNoise(), book, task=0, what="mean")


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_noisy_mean_costs_what_one_person_can_move_it_by(adjacency: Adjacency) -> None:
    """n = 3000, standard deviation 0.01: mu = 1/30 under both, for a number in [0, 1] moves by 1 at most when replaced."""
    values, book = np.concatenate([np.full(2000, 0.5), [np.nan, 7.0, -3.0]]), charged(delta=1e-6, adjacency=adjacency)
    drawn = [mean(values, 3000, 0.01, charged(delta=1e-6, adjacency=adjacency)) for _ in range(2000)]
    assert np.mean(drawn) == pytest.approx(1001 / 3000, abs=6 * 0.01 / math.sqrt(2000))
    assert 1e-7 < chi2.cdf(np.square((np.array(drawn) - 1001 / 3000) / 0.01).sum(), 2000) < 1 - 1e-7
    mean(values, 3000, 0.01, book)
    assert book.epsilon() == pytest.approx(gaussian.epsilon(30.0, 1e-6), rel=1e-3, abs=1e-4)
    assert mean(values, 3000, 0.0, book) == pytest.approx(1001 / 3000)
    assert book.epsilon() == math.inf


def test_a_noisy_mean_moves_by_one_share_for_any_person() -> None:
    values = np.random.default_rng(0).random(50)
    other = np.concatenate([[1.0 - np.round(values[0])], values[1:]])
    found = [mean(given, 50, 0.0, ledger()) for given in (values, values[1:], other, np.append(values, np.inf))]
    assert max(abs(one - found[0]) for one in found) <= 1 / 50
    assert 0 <= mean(values, 50, 100.0, ledger()) <= 1


# The three sums: equal to a loop, as far apart on neighbours as proved and no farther, with the right noise, accounted.


KINDS: list[tuple[Adjacency, bool, float]] = [
    ("add-remove", False, 3), ("add-remove", True, 3), ("replace", False, 8), ("replace", True, 6),
]  # fmt: skip


def released_coefficients(
    features: np.ndarray, labels: np.ndarray, std: float = 0.0, *, space: tuple[int, ...] = (0, 1, 2),
    is_non_negative: bool = False, book: Ledger | None = None,
) -> Coefficients:  # fmt: skip
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
    found = released_coefficients(features, labels)
    shorter = 1 - math.sqrt(5) * 2.0**-18  # so much all rows are, for none to be longer than 1 after rounding by 2^-19
    np.testing.assert_allclose(found.features[0], shorter * s, atol=40 * 2.0**-19)
    np.testing.assert_allclose(found.products[0], shorter**2 * products, atol=40 * 2.0**-18)
    np.testing.assert_allclose(found.by_class[0], shorter * by_class, atol=40 * 2.0**-19)


@pytest.mark.parametrize(("adjacency", "is_non_negative", "squared"), KINDS)
def test_no_neighbours_found_are_farther_apart_than_the_sensitivity(
    adjacency: Adjacency, is_non_negative: bool, squared: float
) -> None:
    """Random examples of length up to 1 in one to four dimensions, each pushed uphill: they come close, and never above."""
    assert coefficients_sensitivity(adjacency, is_non_negative=is_non_negative) == math.sqrt(squared)
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
        return coordinates(released_coefficients(*data, is_non_negative=is_non_negative))

    found = []
    for place, row in enumerate(rows):
        partners = [None] if adjacency == "add-remove" else rows[:place]
        found += [np.linalg.norm(with_row(row, 0) - with_row(partner, label)) for partner in partners for label in (0, 1)]
    assert 1 - 2e-5 < max(found) / math.sqrt(squared) < 1


def test_a_row_of_no_use_counts_zero_in_all_three_sums() -> None:
    nothing = released_coefficients(np.array([[np.nan, 1.0], [0.0, 0.0], [-np.inf, 2.0]]), np.zeros(3, dtype=np.int64))
    assert not coordinates(nothing).any()
    negative = released_coefficients(np.array([[-3.0, 0.0], [-1.0, 2.0]]), np.zeros(2, dtype=np.int64), is_non_negative=True)
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
    assert [variance_is(vectors * factor, std) for factor in (1.0, 0.9, 1.1)] == [True, False, False]
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
    released_coefficients(np.ones((1, 2)), np.zeros(1, dtype=np.int64), 0.0, book=book)
    assert book.epsilon() == math.inf
    books = [ledger(), ledger()]
    noises = [SeededNoise(Cell(epsilon, 0), "coefficients") for epsilon in (1.0, 2.0)]
    both = noisy_coefficients(
        np.zeros((0, 30)), np.zeros(0, dtype=np.int64), (0,), 1, [1.0, 1.0], noises, books, task=0, is_non_negative=False
    )
    assert abs(np.corrcoef(both.products.reshape(2, -1))[0, 1]) < 6.5 / math.sqrt(30 * 31 / 2)


# Sums of clients' vectors: bounded whatever a client does, with the noise they announce, and one entry a round.


def released_by_clients(*parts: ClientVectors, rate: float = 1.0) -> tuple[list[np.ndarray], Ledger]:
    book = ledger(recurrence="every")
    return noisy_client_sums(parts, [ReleaseNoise()], [book], task=0, what="test", batches=Batches(rate, None)), book


def test_without_noise_sums_equal_a_loop_and_nothing_is_promised() -> None:
    vectors = np.random.default_rng(0).standard_normal((5, 3))
    (found,), book = released_by_clients(ClientVectors(REPLAY, vectors, 1.2, [0.0]))
    total = np.zeros(3)
    for row in vectors:
        total += row * min(1, 1.2 / math.sqrt((row**2).sum()))
    assert found[0] == pytest.approx(total)
    assert book.entries[0].event == dp.NonPrivateDpEvent()
    assert math.isinf(book.epsilon())


def test_one_client_moves_a_sum_by_the_bound_at_most() -> None:
    vectors = 10 * np.random.default_rng(1).standard_normal((6, 4))
    vectors[1] = [np.nan, 1, 1, 1]
    vectors[2] = [np.inf, 0, 0, 0]
    vectors[3] = 0
    vectors[4] = [1e200, 1e200, 0, 0]
    def total(rows: np.ndarray) -> np.ndarray:
        return released_by_clients(ClientVectors(REPLAY, rows, 0.7, [0.0]))[0][0]

    whole = total(vectors)
    moves = [np.linalg.norm(whole - total(np.delete(vectors, client, axis=0))) for client in range(6)]
    assert np.isfinite(whole).all()
    assert max(moves) <= 0.7 + 1e-12
    assert max(moves) == pytest.approx(0.7)
    assert moves[1] == moves[2] == moves[3] == 0  # what is no number counts zero


def test_noise_has_the_announced_spread_and_no_mean() -> None:
    """10,000 coordinates of sums over nobody: chi-square and mean, false alarm 1e-6 each; a spread 10 % wrong is seen."""
    stds, books = [0.5, 1.45], [ledger(recurrence="every"), ledger(recurrence="every")]
    part = ClientVectors(REPLAY, np.zeros((0, 10_000)), 1.0, stds)
    (found,) = noisy_client_sums([part], [ReleaseNoise(), ReleaseNoise()], books, task=0, what="test")
    for values, std in zip(found, stds, strict=True):
        assert [variance_is(values, factor * std) for factor in (1.0, 0.9, 1.1)] == [True, False, False]
        assert abs(values.mean()) < -norm.ppf(5e-7) * std / 100
    assert abs(np.corrcoef(found)[0, 1]) < -norm.ppf(5e-7) / 100  # budgets never share noise


def test_statistics_of_one_round_are_one_event_amplified_once() -> None:
    """Four of multiplier sigma share a coin: one sampled Gaussian of sigma / 2, not four."""
    sigma, rate = 1.45, 0.3
    sizes = ((1, 1.0), (3, 1.0), (9, 2.0), (4, 1.0))
    parts = [ClientVectors(REPLAY, np.zeros((2, size)), bound, [sigma * bound]) for size, bound in sizes]
    _, book = released_by_clients(*parts, rate=rate)
    assert len(book.entries) == 1
    event = book.entries[0].event
    assert isinstance(event, dp.PoissonSampledDpEvent)
    assert (event.sampling_probability, event.event.noise_multiplier) == (rate, pytest.approx(sigma / 2))
    assert book.epsilon() == pytest.approx(4.79, rel=0.01)  # the card's PLD for one round


def test_replay_and_head_of_one_round_are_told_apart_and_paid_together() -> None:
    replay = ClientVectors(REPLAY, np.zeros((2, 3)), 1.0, [6.66])
    _, book = released_by_clients(replay, ClientVectors(HEAD, np.zeros((2, 5)), 0.5, [0.5 * 6.66]), rate=0.3)
    entry = book.entries[0]
    assert entry.event == dp.PoissonSampledDpEvent(0.3, dp.GaussianDpEvent(pytest.approx(1 / math.sqrt(2 / 6.66**2))))
    assert set(entry.channels) == {REPLAY, HEAD}
    alone = dp.PoissonSampledDpEvent(0.3, dp.GaussianDpEvent(pytest.approx(6.66)))
    assert (entry.channels[REPLAY], entry.channels[HEAD]) == (alone, alone)
    parts = book.by_channel()
    assert max(parts.values()) <= book.epsilon() < sum(parts.values())


def test_a_clean_part_leaves_no_bound_on_the_whole_but_on_the_other() -> None:
    nothing = np.zeros((2, 3))
    _, book = released_by_clients(ClientVectors(REPLAY, nothing, 1.0, [2.0]), ClientVectors(HEAD, nothing, 1.0, [0.0]))
    assert math.isinf(book.epsilon())
    assert math.isinf(book.by_channel()[HEAD])
    assert book.by_channel()[REPLAY] < math.inf


def test_a_round_without_clients_costs_and_looks_as_any_other() -> None:
    full, one = released_by_clients(ClientVectors(REPLAY, np.zeros((3, 4)), 1.0, [1.0]), rate=0.3)
    empty, other = released_by_clients(ClientVectors(REPLAY, np.zeros((0, 4)), 1.0, [1.0]), rate=0.3)
    assert empty[0].shape == full[0].shape
    assert one.entries == other.entries


def test_releases_may_have_vectors_of_their_own() -> None:
    vectors, books = np.random.default_rng(2).standard_normal((2, 3, 4)), [ledger(recurrence="every") for _ in range(2)]
    part = ClientVectors(HEAD, vectors, 9.0, [0.0, 0.0])
    (found,) = noisy_client_sums([part], [ReleaseNoise()] * 2, books, task=0, what="test")
    assert found == pytest.approx(vectors.sum(axis=1))


def test_a_client_s_own_noise_is_not_averaged_and_not_amplified() -> None:
    book = ledger(recurrence="every")
    part = ClientVectors(REPLAY, np.full((500, 20), 3.0), 1.0, [2.0])
    found = noisy_client_vectors(part, [ReleaseNoise()], [book], task=0, what="test")
    assert found.shape == (1, 500, 20)
    assert book.entries[0].event == dp.GaussianDpEvent(2.0)
    assert variance_is(found[0] - 1 / math.sqrt(20), 2.0)


def test_clipped_rows_shorten_and_leave_alone() -> None:
    given = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert clipped_rows(given, 1.0) == pytest.approx(np.array([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


@pytest.mark.parametrize("bound", [1.0, 0.75, 1e-3])
def test_no_clipped_row_is_as_long_as_its_bound(bound: float) -> None:
    """Along one axis a length has no rounding: the margin alone, which covers what rounds elsewhere, keeps it below."""
    assert (np.linalg.norm(clipped_rows(bound * np.diag([1.0, 5.0, 1e300]), bound), axis=1) <= bound * (1 - 2.0**-33)).all()
