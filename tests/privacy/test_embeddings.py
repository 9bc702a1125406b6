"""Noisy embeddings: their laws, how far two texts can be apart, and what the ledger holds for how many releases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpcl_core.errors import BadInput
from dpcl_core.privacy import text_mechanisms
from dpcl_core.privacy.gaussian import grid32
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import ReleaseNoise, SeededNoise
from dpcl_core.privacy.text_mechanisms import clipped, noisy_embeddings, published_embeddings
from dpcl_core.spec import Cell

DELTA = 1e-6
TABLE = np.random.default_rng(0).normal(0, 1, (30, 8)).astype(np.float32)


def ledger() -> Ledger:
    return Ledger(DELTA, "replace", "once")


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
    rows = noisy_embeddings(table, tokens, 0.0, 0.7, ReleaseNoise(), ledger(), task=0).reshape(200, -1).astype(np.float64)
    apart = np.linalg.norm(rows[:, None] - rows, axis=2)
    assert apart.max() <= 2 * 0.7 * math.sqrt(16)
    assert apart[0, 1] == pytest.approx(2 * 0.7 * math.sqrt(16), rel=1e-6)


@pytest.mark.parametrize("source", ["release", "seeded"])
def test_the_noise_is_the_same_on_every_token_stop_words_included(source: str) -> None:
    """Chi-squared tests of the variance of each of four places, 1e-8 each; a ratio 5 % off is found; normal in shape."""
    noise = ReleaseNoise() if source == "release" else SeededNoise(Cell(1.0, 0), "embeddings")
    n, ratio, clip = 4000, 2.5, 0.4
    tokens = np.tile(np.array([[0, 1, 2, 3]]), (n, 1))
    found = noisy_embeddings(TABLE, tokens, ratio, clip, noise, ledger(), task=0).astype(np.float64)
    rest = found - clipped(TABLE, clip)[:4].astype(np.float64)
    for place in range(4):
        squares = np.square(rest[:, place] / (ratio * clip)).sum()
        for factor, accepted in ((1.0, True), (1.05, False), (0.95, False)):
            chance = stats.chi2.cdf(squares / factor**2, n * 8)
            assert bool(min(chance, 1 - chance) > 5e-9) is accepted
    # Numbers on a grid are uniform once each is put anywhere in its own cell of the law.
    ends = stats.norm.cdf((rest + np.array([[-0.5], [0.5]])[:, None, None] * grid32(ratio * clip)) / (ratio * clip))
    within = np.random.default_rng(0).random(rest.shape)
    assert stats.kstest((ends[0] + within * (ends[1] - ends[0])).ravel(), "uniform").pvalue > 1e-7
    assert np.abs(np.corrcoef(rest.reshape(n, -1).T) - np.eye(32)).max() < 6.5 / math.sqrt(n), "no vector shares its noise"


def test_kept_vectors_are_one_release_and_fresh_ones_one_each() -> None:
    """A kept array is read again for nothing; E calls are E releases, and the ledger agrees with the closed form."""
    tokens, noise = np.tile(np.arange(16), (5, 4)), ReleaseNoise()
    ratio = text_mechanisms.ratio_for(8, DELTA, 64)
    once, thrice = ledger(), ledger()
    kept = noisy_embeddings(TABLE, tokens, ratio, 1.0, noise, once, task=0)
    assert len(once.entries) == 1
    assert once.epsilon() == pytest.approx(8, rel=1e-3)
    assert once.epsilon() <= 8
    fresh = [noisy_embeddings(TABLE, tokens, ratio, 1.0, noise, thrice, task=0) for _ in range(3)]
    assert len(thrice.entries) == 3
    assert thrice.epsilon() == pytest.approx(text_mechanisms.text_epsilon([ratio] * 64, DELTA, 3), rel=1e-3)
    assert thrice.epsilon() > 1.5 * once.epsilon()
    assert kept.shape == (5, 64, 8)
    assert not any(np.array_equal(fresh[0], other) for other in fresh[1:])


def test_the_ledger_is_doubled_for_a_replaced_text_exactly_once() -> None:
    """One token, known closed form: Gaussian noise of sigma / C at sensitivity 2, not 1 and not 4."""
    book, ratio = ledger(), text_mechanisms.printed_ratio(5, DELTA)
    noisy_embeddings(TABLE, np.zeros((3, 1), dtype=np.int64), ratio, 0.2, ReleaseNoise(), book, task=0)
    assert book.epsilon() == pytest.approx(10.254, abs=2e-3)


def test_seeded_noise_repeats_and_padding_is_nothing() -> None:
    tokens = np.array([[4, 5, -1, -1], [-1, -1, -1, -1]])
    first, second = (
        noisy_embeddings(TABLE, tokens, 1.0, 1.0, SeededNoise(Cell(1.0, 0), "embeddings"), ledger(), task=0)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    assert first[0, :2].all()
    assert not first[0, 2:].any()
    assert not first[1].any()


def test_published_stop_words_come_out_bit_by_bit_and_nothing_is_bounded() -> None:
    n = 3000
    tokens = np.tile(np.array([[7, 3, 7]]), (n, 1))
    ratios, book = np.tile(np.array([[0.0, 5.2988, 0.53]]), (n, 1)), ledger()
    found = published_embeddings(TABLE, tokens, ratios, 0.9, ReleaseNoise(), book, task=0)
    np.testing.assert_array_equal(found[:, 0], np.tile(clipped(TABLE, 0.9)[7], (n, 1)))
    for place, token in ((1, 3), (2, 7)):
        scaled = (found[:, place] - clipped(TABLE, 0.9)[token]).astype(np.float64) / (0.9 * ratios[0, place])
        assert np.square(scaled).mean() == pytest.approx(1, abs=6 * math.sqrt(2 / (8 * n)))
    assert book.epsilon() == math.inf


def test_one_example_more_or_less_is_refused() -> None:
    with pytest.raises(BadInput, match="must be replace where every token leaves a noisy vector"):
        noisy_embeddings(
            TABLE, np.zeros((1, 1), dtype=int), 1.0, 1.0, ReleaseNoise(), Ledger(DELTA, "add-remove", "once"), task=0
        )


def test_without_noise_nothing_bounds_what_is_told() -> None:
    book = ledger()
    found = noisy_embeddings(TABLE, np.array([[2]]), 0.0, 1.0, ReleaseNoise(), book, task=0)
    np.testing.assert_array_equal(found[0], clipped(TABLE, 1.0)[2:3])
    assert book.epsilon() == math.inf
