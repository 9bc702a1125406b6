"""Noisy copies of records and embeddings: the laws of noise, what two of them can differ by, and what the ledger says."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp
from scipy import stats
from scipy.stats import binomtest, kstest, laplace

from dpcl_core.errors import BadInput
from dpcl_core.privacy import accounting, gaussian, text_mechanisms
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, ReleaseNoise, SeededNoise
from dpcl_core.privacy.text_mechanisms import (
    Randomiser,
    clipped,
    epsilon_of_each,
    noisy_embeddings,
    noisy_labels,
    noisy_records,
    published_embeddings,
)
from dpcl_core.spec import Cell, Recurrence

DELTA = 1e-5
SPACE = (0, 1, 2, 3, 4)
NOBODY = np.zeros((1, 1)), np.zeros(1, dtype=np.int64)


def ledger(recurrence: Recurrence = "once") -> Ledger:
    return Ledger(DELTA, "replace", recurrence)


def copies(
    values: np.ndarray, labels: np.ndarray, randomiser: Randomiser, noise: Noise | None = None
) -> tuple[np.ndarray, np.ndarray]:
    return noisy_records(values, labels, SPACE, randomiser, noise or ReleaseNoise(), ledger(), task=0)


@pytest.mark.parametrize("noise", [ReleaseNoise(), SeededNoise(Cell(1.0, 0), "records")])
@pytest.mark.parametrize(("l1_clip", "scale"), [(None, 2 * 4 / 3), (0.5, 2 * 0.5 / 3)])
def test_noise_is_laplace_of_the_scale_that_two_records_can_differ_by(
    noise: Noise, l1_clip: float | None, scale: float
) -> None:
    """Kolmogorov and Smirnov on 100,000 values, false alarm 1e-6; a scale 10 % off is found."""
    randomiser = Randomiser(4, 3.0, 1.0, l1_clip)
    assert randomiser.scale == pytest.approx(scale)
    found, _ = copies(np.zeros((25_000, 4)), np.zeros(25_000, dtype=np.int64), randomiser, noise)
    drawn = found.astype(np.float64).ravel()
    assert kstest(drawn, laplace(scale=scale).cdf).pvalue > 1e-6
    for wrong in (0.9, 1.1):
        assert kstest(drawn, laplace(scale=wrong * scale).cdf).pvalue < 1e-6
    assert np.abs(drawn).mean() == pytest.approx(scale, rel=0.02)  # 6 standard errors
    assert np.abs(np.corrcoef(found.T)[np.triu_indices(4, 1)]).max() < 6 / math.sqrt(25_000)


@pytest.mark.parametrize("n_labels", [2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_no_label_is_told_more_often_than_its_odds_allow_to_the_last_word(epsilon: float, n_labels: int) -> None:
    """In whole words, as they are drawn: the true label at most e^epsilon times as often as the rarest other."""
    kept = int(Randomiser(0, 0.0, epsilon).chances(n_labels)[0] * 2.0**64)
    rarest = Fraction(2**64 - kept, 2**64) * Fraction(2**64 // (n_labels - 1), 2**64)
    with mp.workdps(50):
        assert mp.mpf(kept) / 2**64 <= mp.exp(mp.mpf(epsilon)) * rarest.numerator / rarest.denominator


@pytest.mark.parametrize("l1_clip", [None, 0.7])
def test_no_two_records_are_farther_apart_than_the_scale_allows_for(l1_clip: float | None) -> None:
    """Whatever they hold; and some pairs are as far apart as that."""
    generator, randomiser = np.random.default_rng(0), Randomiser(3, math.inf, math.inf, l1_clip)
    rows = np.vstack(
        [generator.standard_normal((60, 3)) * generator.choice([0.1, 1, 1e9], (60, 1)), np.eye(3), -np.eye(3),
         np.ones((1, 3)), -np.ones((1, 3)), [[np.nan, 1, 1]], [[np.inf, 0, 0]], [[1e308, 1e308, 1e308]]]
    )  # fmt: skip
    kept, _ = copies(rows, np.zeros(len(rows), dtype=np.int64), randomiser)
    apart = np.abs(kept[:, None].astype(np.float64) - kept).sum(axis=2).max()
    assert apart == pytest.approx(Randomiser(3, 1.0, 1.0, l1_clip).scale, rel=1e-6)
    assert np.isfinite(kept).all()


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_labels_are_answered_as_randomised_response_has_it(epsilon: float) -> None:
    """Binomial tests of each of five answers, 1e-7 each; odds never above e^epsilon.

    So many answers a label that a chance of keeping it 5 % smaller would be seen by 14 standard deviations or more.
    """
    randomiser, n = Randomiser(1, 1.0, epsilon), 200_000
    kept, other = randomiser.chances(len(SPACE))
    assert kept + 4 * other == pytest.approx(1.0, abs=1e-12)
    assert math.exp(epsilon) * (1 - 1e-9) < kept / other <= math.exp(epsilon)
    for label in (0, 3):
        _, answers = copies(np.zeros((n, 1)), np.full(n, label), randomiser)
        counts = np.bincount(answers.astype(np.intp), minlength=5)
        for answer in SPACE:
            expected = kept if answer == label else other
            assert binomtest(int(counts[answer]), n, expected).pvalue > 1e-7
            assert answer != label or binomtest(int(counts[answer]), n, expected * 0.95).pvalue < 1e-7


def test_a_record_of_no_listed_label_stays_and_answers_like_nobody() -> None:
    n = 40_000
    found, answers = copies(np.ones((n, 1)), np.full(n, 9), Randomiser(1, 8.0, 8.0))
    assert len(answers) == n
    assert abs(float(found.mean())) < 6 * math.sqrt(2) * 0.25 / math.sqrt(n)
    for count in np.bincount(answers.astype(np.intp), minlength=5):
        assert binomtest(int(count), n, 1 / 5).pvalue > 1e-7


def test_differences_of_two_copies_are_not_free_of_noise_and_seeded_ones_repeat() -> None:
    """With one vector for all records they would be exact; here their noise has twice the variance of one."""
    randomiser, labels = Randomiser(5, 10.0, 1.0), np.zeros(4000, dtype=np.int64)
    values = np.random.default_rng(3).uniform(-1, 1, (4000, 5))
    found, _ = copies(values, labels, randomiser)
    noise = np.diff(found.astype(np.float64) - values, axis=0)
    assert (np.abs(noise) > 1e-12).all()
    assert noise.var() == pytest.approx(2 * 2 * randomiser.scale**2, rel=0.15)
    seeded = [copies(values, labels, randomiser, SeededNoise(Cell(1.0, 0), "records")) for _ in range(2)]
    for first, second in zip(*seeded, strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(found, copies(values, labels, randomiser)[0])


def test_without_noise_copies_are_the_records_and_nothing_bounds_what_they_tell() -> None:
    values, labels, book = np.array([[0.5, -0.5]]), np.array([2]), ledger()
    found, answers = noisy_records(values, labels, SPACE, Randomiser(2, math.inf, math.inf), ReleaseNoise(), book, task=0)
    np.testing.assert_array_equal(found, values)
    assert answers.tolist() == [2]
    assert book.epsilon() == math.inf


def test_one_label_alone_is_no_secret() -> None:
    _, answers = noisy_records(
        np.zeros((50, 1)), np.full(50, 3), (3,), Randomiser(1, 1.0, 0.1), ReleaseNoise(), ledger(), task=0
    )
    assert set(answers.tolist()) == {3}


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_the_ledger_says_the_closed_form_of_anything_that_is_epsilon_dp(epsilon: float) -> None:
    """(epsilon, 0)-DP is at most (e', delta)-DP with delta = (e^epsilon - e^e') / (1 + e^epsilon) (Kairouz et al. 2015)."""
    book = ledger()
    randomiser = Randomiser(1, epsilon / 3, 2 * epsilon / 3)
    noisy_records(*NOBODY, SPACE, randomiser, ReleaseNoise(), book, task=0)
    expected = math.log(math.exp(epsilon) - DELTA * (1 + math.exp(epsilon)))
    assert book.epsilon() == pytest.approx(expected, rel=1e-6)
    assert book.epsilon() <= epsilon


def test_copies_of_all_tasks_add_up_where_a_record_is_in_all_and_do_not_otherwise() -> None:
    """k binary choices of epsilon each, composed by their exact law: the tails of a binomial."""
    epsilon, k, delta = 0.3, 7, 1e-5
    every, once = ledger("every"), ledger("once")
    for book in (every, once):
        for task in range(k):
            noisy_records(*NOBODY, SPACE, Randomiser(1, 0.2, 0.1), ReleaseNoise(), book, task=task)
    odds = math.exp(epsilon)

    def tail(total: float) -> float:
        likely = [math.comb(k, i) * odds ** (k - i) / (1 + odds) ** k for i in range(k + 1)]
        return sum(p * max(0.0, 1 - math.exp(total - (k - 2 * i) * epsilon)) for i, p in enumerate(likely))

    assert once.epsilon() == pytest.approx(epsilon, rel=1e-3)
    found = every.epsilon()
    assert tail(found) <= delta * (1 + 1e-6)
    assert tail(found * (1 - 1e-3)) > delta
    assert found <= k * epsilon


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 30.0])
@pytest.mark.parametrize("n_copies", [1, 3, 40])
def test_copies_get_as_much_of_the_budget_as_their_sum_allows(epsilon: float, n_copies: int) -> None:
    each, book = epsilon_of_each(epsilon, DELTA, n_copies), ledger("every")
    assert each >= epsilon / n_copies
    for task in range(n_copies):
        noisy_records(*NOBODY, SPACE, Randomiser(1, each / 2, each / 2), ReleaseNoise(), book, task=task)
    assert 0.99 * epsilon < book.epsilon() <= epsilon
    assert epsilon_of_each(math.inf, DELTA, n_copies) == math.inf


def test_whether_a_record_is_there_is_not_hidden_and_never_said_to_be() -> None:
    with pytest.raises(BadInput, match=r"privacy\.adjacency = add-remove: must be replace"):
        noisy_records(
            *NOBODY, SPACE, Randomiser(1, 1.0, 1.0), ReleaseNoise(), Ledger(DELTA, "add-remove", "once"), task=0
        )
    with pytest.raises(accounting.Unaccountable):
        accounting.Pld().epsilon([accounting.LocalDpEvent(1.0)], DELTA, "add-remove")


def test_labels_alone_are_answered_as_with_a_record_and_cost_their_epsilon() -> None:
    """Binomial tests of each of five answers, 1e-7 each."""
    book, n, epsilon = ledger(), 50_000, 2.0
    answers = noisy_labels(np.full(n, 3), SPACE, epsilon, ReleaseNoise(), book, task=0)
    kept, other = Randomiser(0, 0.0, epsilon).chances(5)
    for answer, count in enumerate(np.bincount(answers.astype(np.intp), minlength=5)):
        assert binomtest(int(count), n, kept if answer == 3 else other).pvalue > 1e-7
    assert book.epsilon() == pytest.approx(epsilon, rel=1e-3)
    assert noisy_labels(np.array([4, 0]), SPACE, math.inf, ReleaseNoise(), book, task=0).tolist() == [4, 0]
    assert book.epsilon() == math.inf


# Noisy embeddings: their laws, how far two texts can be apart, and what the ledger holds for how many releases.


TEXT_DELTA = 1e-6
TABLE = np.random.default_rng(0).normal(0, 1, (30, 8)).astype(np.float32)


def text_ledger() -> Ledger:
    return Ledger(TEXT_DELTA, "replace", "once")


def test_rows_are_clipped_as_printed_and_never_longer() -> None:
    rows = np.vstack([TABLE * np.logspace(-3, 8, 30)[:, None], np.zeros((1, 8)), np.full((1, 8), np.nan)])
    found = clipped(rows, 1.5)
    assert (np.linalg.norm(found.astype(np.float64), axis=1) <= 1.5).all()
    lengths = np.linalg.norm(rows[:30], axis=1, keepdims=True)
    np.testing.assert_allclose(found[:30], rows[:30] * np.minimum(1, 1.5 / lengths), rtol=1e-6, atol=1e-9)
    assert not found[30:].any()


def test_no_two_texts_are_farther_apart_than_the_noise_allows_for() -> None:
    """Opposite rows reach 2C sqrt(L); others stay below, whatever the table holds."""
    table = np.vstack([100 * TABLE, -100 * TABLE]).astype(np.float32)
    tokens = np.random.default_rng(1).integers(0, 60, (200, 16))
    tokens[1] = (tokens[0] + 30) % 60
    found = noisy_embeddings(table, tokens, 0.0, 0.7, ReleaseNoise(), text_ledger(), task=0)
    rows = found.reshape(200, -1).astype(np.float64)
    apart = np.linalg.norm(rows[:, None] - rows, axis=2)
    assert apart.max() <= 2 * 0.7 * math.sqrt(16)
    assert apart[0, 1] == pytest.approx(2 * 0.7 * math.sqrt(16), rel=1e-6)


@pytest.mark.parametrize("source", ["release", "seeded"])
def test_the_noise_is_the_same_on_every_token_stop_words_included(source: str) -> None:
    """Chi-squared tests of the variance of each of four places, 1e-8 each; a ratio 5 % off is found; normal in shape."""
    noise = ReleaseNoise() if source == "release" else SeededNoise(Cell(1.0, 0), "embeddings")
    n, ratio, clip = 4000, 2.5, 0.4
    tokens = np.tile(np.array([[0, 1, 2, 3]]), (n, 1))
    found = noisy_embeddings(TABLE, tokens, ratio, clip, noise, text_ledger(), task=0).astype(np.float64)
    rest = found - clipped(TABLE, clip)[:4].astype(np.float64)
    for place in range(4):
        squares = np.square(rest[:, place] / (ratio * clip)).sum()
        for factor, accepted in ((1.0, True), (1.05, False), (0.95, False)):
            chance = stats.chi2.cdf(squares / factor**2, n * 8)
            assert bool(min(chance, 1 - chance) > 5e-9) is accepted
    # Numbers on a grid are uniform once each is put anywhere in its own cell of the law.
    ends = stats.norm.cdf((rest + np.array([[-0.5], [0.5]])[:, None, None] * gaussian.grid32(ratio * clip)) / (ratio * clip))
    within = np.random.default_rng(0).random(rest.shape)
    assert stats.kstest((ends[0] + within * (ends[1] - ends[0])).ravel(), "uniform").pvalue > 1e-7
    assert np.abs(np.corrcoef(rest.reshape(n, -1).T) - np.eye(32)).max() < 6.5 / math.sqrt(n), "no vector shares its noise"


def test_kept_vectors_are_one_release_and_fresh_ones_one_each() -> None:
    """A kept array is read again for nothing; E calls are E releases, and the ledger agrees with the closed form."""
    tokens, noise = np.tile(np.arange(16), (5, 4)), ReleaseNoise()
    ratio = text_mechanisms.ratio_for(8, TEXT_DELTA, 64)
    once, thrice = text_ledger(), text_ledger()
    kept = noisy_embeddings(TABLE, tokens, ratio, 1.0, noise, once, task=0)
    assert len(once.entries) == 1
    assert once.epsilon() == pytest.approx(8, rel=1e-3)
    assert once.epsilon() <= 8
    fresh = [noisy_embeddings(TABLE, tokens, ratio, 1.0, noise, thrice, task=0) for _ in range(3)]
    assert len(thrice.entries) == 3
    assert thrice.epsilon() == pytest.approx(text_mechanisms.text_epsilon([ratio] * 64, TEXT_DELTA, 3), rel=1e-3)
    assert thrice.epsilon() > 1.5 * once.epsilon()
    assert kept.shape == (5, 64, 8)
    assert not any(np.array_equal(fresh[0], other) for other in fresh[1:])


def test_the_ledger_is_doubled_for_a_replaced_text_exactly_once() -> None:
    """One token, known closed form: Gaussian noise of sigma / C at sensitivity 2, not 1 and not 4."""
    book, ratio = text_ledger(), text_mechanisms.printed_ratio(5, TEXT_DELTA)
    noisy_embeddings(TABLE, np.zeros((3, 1), dtype=np.int64), ratio, 0.2, ReleaseNoise(), book, task=0)
    assert book.epsilon() == pytest.approx(10.254, abs=2e-3)


def test_seeded_noise_repeats_and_padding_is_nothing() -> None:
    tokens = np.array([[4, 5, -1, -1], [-1, -1, -1, -1]])
    first, second = (
        noisy_embeddings(TABLE, tokens, 1.0, 1.0, SeededNoise(Cell(1.0, 0), "embeddings"), text_ledger(), task=0)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    assert first[0, :2].all()
    assert not first[0, 2:].any()
    assert not first[1].any()


def test_published_stop_words_come_out_bit_by_bit_and_nothing_is_bounded() -> None:
    n = 3000
    tokens = np.tile(np.array([[7, 3, 7]]), (n, 1))
    ratios, book = np.tile(np.array([[0.0, 5.2988, 0.53]]), (n, 1)), text_ledger()
    found = published_embeddings(TABLE, tokens, ratios, 0.9, ReleaseNoise(), book, task=0)
    np.testing.assert_array_equal(found[:, 0], np.tile(clipped(TABLE, 0.9)[7], (n, 1)))
    for place, token in ((1, 3), (2, 7)):
        scaled = (found[:, place] - clipped(TABLE, 0.9)[token]).astype(np.float64) / (0.9 * ratios[0, place])
        assert np.square(scaled).mean() == pytest.approx(1, abs=6 * math.sqrt(2 / (8 * n)))
    assert book.epsilon() == math.inf


def test_one_example_more_or_less_is_refused() -> None:
    with pytest.raises(BadInput, match="must be replace where every token leaves a noisy vector"):
        noisy_embeddings(
            TABLE, np.zeros((1, 1), dtype=int), 1.0, 1.0, ReleaseNoise(), Ledger(TEXT_DELTA, "add-remove", "once"), task=0
        )


def test_without_noise_nothing_bounds_what_is_told() -> None:
    book = text_ledger()
    found = noisy_embeddings(TABLE, np.array([[2]]), 0.0, 1.0, ReleaseNoise(), book, task=0)
    np.testing.assert_array_equal(found[0], clipped(TABLE, 1.0)[2:3])
    assert book.epsilon() == math.inf
