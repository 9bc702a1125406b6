"""Noisy copies of records and embeddings: the laws of noise, what two of them can differ by, and what the ledger says."""

import math
from fractions import Fraction

import dp_accounting as dp
import numpy as np
import pytest
from mpmath import mp
from scipy import integrate, stats

from dpcl_core.privacy import accounting, gaussian, text_mechanisms
from dpcl_core.privacy.accounting import Pld
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, ReleaseNoise, SeededNoise
from dpcl_core.privacy.text_mechanisms import Randomiser, clipped, noisy_embeddings, noisy_labels, noisy_records
from dpcl_core.spec import Cell, Recurrence
from tests.support.asserting import refuses

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
    assert stats.kstest(drawn, stats.laplace(scale=scale).cdf).pvalue > 1e-6
    for wrong in (0.9, 1.1):
        assert stats.kstest(drawn, stats.laplace(scale=wrong * scale).cdf).pvalue < 1e-6
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
            assert stats.binomtest(int(counts[answer]), n, expected).pvalue > 1e-7
            assert answer != label or stats.binomtest(int(counts[answer]), n, expected * 0.95).pvalue < 1e-7


def test_a_record_of_no_listed_label_stays_and_answers_like_nobody_and_one_label_alone_is_no_secret() -> None:
    local = Randomiser(1, 1.0, 0.1)
    _, alone = noisy_records(np.zeros((50, 1)), np.full(50, 3), (3,), local, ReleaseNoise(), ledger(), task=0)
    assert set(alone.tolist()) == {3}
    n = 40_000
    found, answers = copies(np.ones((n, 1)), np.full(n, 9), Randomiser(1, 8.0, 8.0))
    assert len(answers) == n
    assert abs(float(found.mean())) < 6 * math.sqrt(2) * 0.25 / math.sqrt(n)
    for count in np.bincount(answers.astype(np.intp), minlength=5):
        assert stats.binomtest(int(count), n, 1 / 5).pvalue > 1e-7


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


def test_without_noise_copies_are_what_they_are_of_and_nothing_bounds_what_they_tell() -> None:
    values, labels, book = np.array([[0.5, -0.5]]), np.array([2]), ledger()
    found, answers = noisy_records(values, labels, SPACE, Randomiser(2, math.inf, math.inf), ReleaseNoise(), book, task=0)
    np.testing.assert_array_equal(found, values)
    assert answers.tolist() == [2]
    of_text = text_ledger()
    seen = noisy_embeddings(TABLE, np.array([[2]]), 0.0, 1.0, ReleaseNoise(), of_text, task=0)
    np.testing.assert_array_equal(seen[0], clipped(TABLE, 1.0)[2:3])
    assert book.epsilon() == of_text.epsilon() == math.inf


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_the_ledger_says_the_closed_form_of_anything_that_is_epsilon_dp(epsilon: float) -> None:
    """(epsilon, 0)-DP is at most (e', delta)-DP with delta = (e^epsilon - e^e') / (1 + e^epsilon) (Kairouz et al. 2015)."""
    book = ledger()
    noisy_records(*NOBODY, SPACE, Randomiser(1, epsilon / 3, 2 * epsilon / 3), ReleaseNoise(), book, task=0)
    assert book.epsilon() == pytest.approx(math.log(math.exp(epsilon) - DELTA * (1 + math.exp(epsilon))), rel=1e-6)
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
    each, book = text_mechanisms.epsilon_of_each(epsilon, DELTA, n_copies), ledger("every")
    assert each >= epsilon / n_copies
    for task in range(n_copies):
        noisy_records(*NOBODY, SPACE, Randomiser(1, each / 2, each / 2), ReleaseNoise(), book, task=task)
    assert 0.99 * epsilon < book.epsilon() <= epsilon
    assert text_mechanisms.epsilon_of_each(math.inf, DELTA, n_copies) == math.inf


def test_whether_a_record_or_a_text_is_there_is_not_hidden_and_never_said_to_be() -> None:
    added = Ledger(DELTA, "add-remove", "once")
    copied = *NOBODY, SPACE, Randomiser(1, 1.0, 1.0), ReleaseNoise(), added
    refuses(r"privacy\.adjacency = add-remove: must be replace", noisy_records, *copied, task=0)
    at_once = TABLE, np.zeros((1, 1), dtype=int), 1.0, 1.0, ReleaseNoise(), added
    refuses("must be replace where every token leaves a noisy vector", noisy_embeddings, *at_once, task=0)
    refuses("", Pld().epsilon, [accounting.LocalDpEvent(1.0)], DELTA, "add-remove", error=accounting.Unaccountable)


def test_labels_alone_are_answered_as_with_a_record_and_cost_their_epsilon() -> None:
    """Binomial tests of each of five answers, 1e-7 each."""
    book, n, epsilon = ledger(), 50_000, 2.0
    answers = noisy_labels(np.full(n, 3), SPACE, epsilon, ReleaseNoise(), book, task=0)
    kept, other = Randomiser(0, 0.0, epsilon).chances(5)
    for answer, count in enumerate(np.bincount(answers.astype(np.intp), minlength=5)):
        assert stats.binomtest(int(count), n, kept if answer == 3 else other).pvalue > 1e-7
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
    assert (len(once.entries), once.epsilon()) == (1, pytest.approx(8, rel=1e-3))
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
    found = text_mechanisms.published_embeddings(TABLE, tokens, ratios, 0.9, ReleaseNoise(), book, task=0)
    np.testing.assert_array_equal(found[:, 0], np.tile(clipped(TABLE, 0.9)[7], (n, 1)))
    for place, token in ((1, 3), (2, 7)):
        scaled = (found[:, place] - clipped(TABLE, 0.9)[token]).astype(np.float64) / (0.9 * ratios[0, place])
        assert np.square(scaled).mean() == pytest.approx(1, abs=6 * math.sqrt(2 / (8 * n)))
    assert book.epsilon() == math.inf


# Noise on tokens: the table of what Eq. 5 prints and costs, against dp_accounting, integrals and simulation.


# epsilon printed: sigma/C, true epsilon at 2C, true delta at the printed epsilon, true epsilon had sigma 2C, sigma/C needed
PRINTED = {
    1: (5.299, 1.657, 7.7e-4, 0.784, 8.449), 2: (2.649, 3.558, 2.4e-3, 1.657, 4.461),
    3: (1.766, 5.632, 5.5e-3, 2.585, 3.088), 4: (1.325, 7.866, 1.1e-2, 3.558, 2.387),
    5: (1.060, 10.254, 2.0e-2, 4.575, 1.960), 6: (0.883, 12.793, 3.3e-2, 5.632, 1.672),
    7: (0.757, 15.480, 5.3e-2, 6.730, 1.464), 8: (0.662, 18.314, 8.0e-2, 7.866, 1.306),
    9: (0.589, 21.294, 0.115, 9.041, 1.182), 10: (0.530, 24.420, 0.160, 10.254, 1.082),
}  # fmt: skip


def test_the_printed_ratio() -> None:
    found = [text_mechanisms.printed_ratio(epsilon, TEXT_DELTA) for epsilon in (1, 5, 10)]
    assert found == pytest.approx([5.2988, 1.0598, 0.52988], abs=5e-5)
    assert text_mechanisms.printed_ratio(math.inf, TEXT_DELTA) == 0
    of_many = text_mechanisms.printed_ratios(np.array([[1.0, 2.0]]), TEXT_DELTA)
    np.testing.assert_allclose(of_many, [[5.2988, 2.6494]], atol=5e-5)


@pytest.mark.parametrize("epsilon", PRINTED)
def test_the_table_of_what_is_printed_and_what_is_true(epsilon: int) -> None:
    ratio, true, delta, with_2c, needed = PRINTED[epsilon]
    found = text_mechanisms.printed_ratio(epsilon, TEXT_DELTA)
    assert found == pytest.approx(ratio, abs=1e-3)
    assert text_mechanisms.true_epsilon(found, TEXT_DELTA) == pytest.approx(true, abs=1e-3)
    assert text_mechanisms.true_delta(epsilon, found) == pytest.approx(delta, rel=0.05)
    assert text_mechanisms.true_epsilon(2 * found, TEXT_DELTA) == pytest.approx(with_2c, abs=1e-3)
    assert text_mechanisms.ratio_for(epsilon, TEXT_DELTA) == pytest.approx(needed, abs=1e-3)
    assert text_mechanisms.true_epsilon(found, TEXT_DELTA) > epsilon


def test_where_the_classical_formula_stops_holding_at_the_right_sensitivity() -> None:
    """With noise of 2C it holds up to a nominal 8.78 at delta 1e-6 and 8.42 at 1e-5, and fails beyond."""
    for delta, limit in ((1e-6, 8.78), (1e-5, 8.42)):
        for epsilon, holds in ((limit - 0.01, True), (limit + 0.01, False)):
            true = text_mechanisms.true_epsilon(2 * text_mechanisms.printed_ratio(epsilon, delta), delta)
            assert (true <= epsilon) is holds


def test_true_epsilon_agrees_with_the_accountant_and_with_the_exact_integral() -> None:
    for epsilon in (1, 3, 5, 10):
        ratio = text_mechanisms.printed_ratio(epsilon, TEXT_DELTA)
        accounted = Pld().epsilon([dp.GaussianDpEvent(ratio)], TEXT_DELTA, "replace")  # doubled there: 2C over sigma
        assert accounted == pytest.approx(text_mechanisms.true_epsilon(ratio, TEXT_DELTA), rel=1e-4, abs=1e-3)
        assert accounted >= text_mechanisms.true_epsilon(ratio, TEXT_DELTA) - 1e-9

        def density(x: float, e: float = text_mechanisms.true_epsilon(ratio, TEXT_DELTA), s: float = ratio) -> float:
            return max(0.0, float(stats.norm.pdf(x, 2, s) - math.exp(e) * stats.norm.pdf(x, 0, s)))

        start = ratio**2 / 2 * text_mechanisms.true_epsilon(ratio, TEXT_DELTA) + 1  # where the loss is epsilon
        assert integrate.quad(density, start, start + 20 * ratio)[0] == pytest.approx(TEXT_DELTA, rel=1e-4)


def test_true_epsilon_is_monotone_and_the_same_for_many() -> None:
    ratios = np.linspace(0.05, 12, 1000)
    found = text_mechanisms.true_epsilons(ratios, TEXT_DELTA)
    assert (np.diff(found) < 0).all()
    # One at a time they are rounded up to 35 binary digits, 6e-11 of them at most.
    np.testing.assert_allclose(found, [text_mechanisms.true_epsilon(one, TEXT_DELTA) for one in ratios], rtol=1e-10)
    np.testing.assert_allclose(
        text_mechanisms.true_epsilons(ratios, TEXT_DELTA, 3),
        [text_mechanisms.true_epsilon(one, TEXT_DELTA, 3) for one in ratios],
        rtol=1e-10,
    )
    edges = text_mechanisms.true_epsilons(np.array([[0.0, 1e9, 1e-4]]), TEXT_DELTA)
    assert (edges.shape, edges[0, :2].tolist()) == ((1, 3), [math.inf, 0.0])
    assert edges[0, 2] == pytest.approx(text_mechanisms.true_epsilon(1e-4, TEXT_DELTA), rel=1e-10)


@pytest.mark.parametrize(("budget", "plain", "remark", "once", "thrice", "with_2c"), [
    (1, 64, 106.1, 18.3, 37.8, 7.9), (5, 320, 530, 184.9, 465, 63.6), (10, 640, 1060, 598.5, 1615, 184.9),
])  # fmt: skip
def test_a_text_of_64_tokens(budget: float, plain: float, remark: float, once: float, thrice: float, with_2c: float) -> None:
    ratio = text_mechanisms.printed_ratio(budget, TEXT_DELTA)
    assert sum([budget] * 64) == plain
    assert text_mechanisms.remark_1([budget] * 64, TEXT_DELTA) == pytest.approx(remark, rel=1e-3)
    assert text_mechanisms.text_epsilon([ratio] * 64, TEXT_DELTA) == pytest.approx(once, abs=0.06)
    assert text_mechanisms.text_epsilon([ratio] * 64, TEXT_DELTA, 3) == pytest.approx(thrice, rel=1e-3)
    assert text_mechanisms.text_epsilon([2 * ratio] * 64, TEXT_DELTA) == pytest.approx(with_2c, abs=0.06)
    assert text_mechanisms.true_epsilon(ratio, TEXT_DELTA, 64) == pytest.approx(once, abs=0.06)


@pytest.mark.parametrize(
    ("n_releases", "expected"), [(3, (3.03, 20.3, 51.7)), (10, (5.98, 45.4, 127)), (20, (8.97, 74.9, 222))]
)
def test_one_token_over_epochs_and_a_name_over_its_occurrences(n_releases: int, expected: tuple[float, ...]) -> None:
    ratios = [text_mechanisms.printed_ratio(epsilon, TEXT_DELTA) for epsilon in (1, 5, 10)]
    found = [text_mechanisms.true_epsilon(ratio, TEXT_DELTA, n_releases) for ratio in ratios]
    assert found == pytest.approx(expected, rel=3e-3)


def test_the_composition_of_unequal_tokens_agrees_with_the_accountant() -> None:
    ratios = [text_mechanisms.printed_ratio(eps, TEXT_DELTA) for eps in (1.0, 1.7, 2.44, 3.25, 2.0)]
    accounted = Pld().epsilon([dp.GaussianDpEvent(ratio) for ratio in ratios] * 2, TEXT_DELTA, "replace")
    assert accounted == pytest.approx(text_mechanisms.text_epsilon(ratios, TEXT_DELTA, 2), rel=1e-3)
    assert text_mechanisms.text_epsilon([*ratios, 0.0], TEXT_DELTA) == math.inf, "one stop word without noise"
    assert text_mechanisms.text_epsilon([], TEXT_DELTA) == 0.0


def test_remark_1_takes_the_largest_budget_as_printed_and_is_never_useful() -> None:
    """32 tokens at 1 and 32 at 10: 352 + sqrt(2 * 64 * ln(10^6)) * 10. With the sum of squares it would be 650.8."""
    assert text_mechanisms.remark_1([1.0] * 32 + [10.0] * 32, 1e-6) == pytest.approx(772.5, abs=0.05)
    assert text_mechanisms.remark_1([], 1e-6) == 0
    generator = np.random.default_rng(2)
    for _ in range(200):
        budgets, delta = generator.uniform(0.001, 12, generator.integers(1, 200)), 10 ** generator.uniform(-12, -0.01)
        assert text_mechanisms.remark_1(list(budgets), delta) > budgets.sum()


@pytest.mark.parametrize(("epsilon", "once", "each", "thrice"), [
    (1, 67.6, 0.108, 117), (4, 19.1, 0.417, 33.1), (8, 10.45, 0.796, 18.1), (16, 5.90, 1.475, 10.2),
])  # fmt: skip
def test_calibration_of_a_text(epsilon: float, once: float, each: float, thrice: float) -> None:
    """Put back into delta(epsilon) at sensitivity 2 sqrt(64), the ratio gives delta, never more."""
    found = text_mechanisms.ratio_for(epsilon, TEXT_DELTA, 64)
    assert found == pytest.approx(once, rel=1e-3)
    assert text_mechanisms.true_epsilon(found, TEXT_DELTA) == pytest.approx(each, abs=1e-3)
    assert text_mechanisms.ratio_for(epsilon, TEXT_DELTA, 64, 3) == pytest.approx(thrice, rel=3e-3)
    assert TEXT_DELTA * (1 - 1e-3) < gaussian.delta(epsilon, found, 2 * math.sqrt(64)) <= TEXT_DELTA
    assert gaussian.delta(epsilon, text_mechanisms.ratio_for(epsilon, TEXT_DELTA), 2) == pytest.approx(TEXT_DELTA, rel=1e-3)
    assert text_mechanisms.ratio_for(math.inf, TEXT_DELTA, 64) == 0


@pytest.mark.parametrize(("pair", "n_values", "epsilon", "advantage"), [
    ((5, 5.05), 64, 0.57, 0.05), ((5, 5.05), 768, 1.86, 0.16), ((5, 5.05), 4096, 4.52, 0.35),
    ((5, 5.5), 64, 7.35, 0.41), ((5, 5.5), 768, 27.8, 0.94), ((5, 5.5), 4096, 85.6, 1.00),
    ((5, 6), 64, 16.9, 0.70), ((5, 6), 768, 72.3, 1.00), ((5, 6), 4096, 251, 1.00), ((1, 2), 64, 154, 1.00),
])  # fmt: skip
def test_what_the_noise_level_alone_tells(
    pair: tuple[float, float], n_values: int, epsilon: float, advantage: float
) -> None:
    first, second = (text_mechanisms.printed_ratio(eps, TEXT_DELTA) for eps in pair)
    assert text_mechanisms.scale_epsilon(first, second, n_values, TEXT_DELTA) == pytest.approx(epsilon, rel=6e-3)
    assert text_mechanisms.scale_epsilon(second, first, n_values, TEXT_DELTA) == pytest.approx(epsilon, rel=6e-3)
    assert text_mechanisms.scale_advantage(first, second, n_values) == pytest.approx(advantage, abs=6e-3)
    assert text_mechanisms.scale_epsilon(1, 0.5, max(n_values, 768), DELTA) > 430, "larger ones apart tell everything"
    assert text_mechanisms.scale_epsilon(1, 1, n_values, DELTA) == text_mechanisms.scale_advantage(1, 1, n_values) == 0


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
        found = np.sqrt(np.square(np.random.default_rng(0).normal(0, 3, (4000, width))).mean(axis=1))
        assert found.std() / 3 == pytest.approx(1 / math.sqrt(2 * width), rel=6 / math.sqrt(2 * 4000))
        assert 1 / math.sqrt(2 * width) == pytest.approx(share, abs=1e-3)


def test_a_claim_holds_the_nominal_budgets_and_the_true_ones_beside() -> None:
    found = text_mechanisms.nominal_claim(1, 10, TEXT_DELTA, 64, 3)
    assert (found.epsilon, list(found.terms.values())) == (10, [1, 10])
    assert all("nominal" in name for name in found.terms)
    assert found.numbers["true ε of the least noised token, one release"] == pytest.approx(24.420, abs=1e-3)
    assert found.numbers["true ε of the most noised token, all epochs"] == pytest.approx(3.03, abs=5e-3)
    assert found.numbers["true ε of a text of the most noised tokens, one release"] == pytest.approx(18.3, abs=0.05)
    assert found.numbers["true ε of a text of the most noised tokens, all epochs"] == pytest.approx(37.8, abs=0.05)
    without = text_mechanisms.nominal_claim(1, math.inf, TEXT_DELTA, 64, 3)
    assert without.numbers["true ε of the least noised token, one release"] == math.inf
