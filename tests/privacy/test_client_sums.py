"""Sums of clients' vectors: bounded whatever a client does, with the noise they announce, and one entry a round."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import chi2, norm

from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums, noisy_client_vectors
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from dpcl_core.privacy.sums import clipped_rows

DELTA = 1e-5


def ledger() -> Ledger:
    return Ledger(DELTA, "add-remove", "every")


def released(*parts: ClientVectors, rate: float = 1.0) -> tuple[list[np.ndarray], Ledger]:
    book = ledger()
    return noisy_client_sums(parts, [ReleaseNoise()], [book], task=0, what="test", batches=Batches(rate, None)), book


def test_without_noise_sums_equal_a_loop_and_nothing_is_promised() -> None:
    vectors = np.random.default_rng(0).standard_normal((5, 3))
    (found,), book = released(ClientVectors(REPLAY, vectors, 1.2, [0.0]))
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
    whole = released(ClientVectors(REPLAY, vectors, 0.7, [0.0]))[0][0]
    moves = [
        np.linalg.norm(whole - released(ClientVectors(REPLAY, np.delete(vectors, client, axis=0), 0.7, [0.0]))[0][0])
        for client in range(6)
    ]
    assert np.isfinite(whole).all()
    assert max(moves) <= 0.7 + 1e-12
    assert max(moves) == pytest.approx(0.7)
    assert moves[1] == moves[2] == moves[3] == 0  # what is no number counts zero


def test_noise_has_the_announced_spread_and_no_mean() -> None:
    """10,000 coordinates of sums over nobody: chi-square and mean, false alarm 1e-6 each; a spread 10 % wrong is seen."""
    stds = [0.5, 1.45]
    book = [ledger(), ledger()]
    part = ClientVectors(REPLAY, np.zeros((0, 10_000)), 1.0, stds)
    (found,) = noisy_client_sums([part], [ReleaseNoise(), ReleaseNoise()], book, task=0, what="test")
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 10_000)
    for values, std in zip(found, stds, strict=True):
        assert low < (values**2).sum() / std**2 < high
        for wrong in (0.9, 1.1):
            assert not low < (values**2).sum() / (wrong * std) ** 2 < high
        assert abs(values.mean()) < -norm.ppf(5e-7) * std / 100
    assert abs(np.corrcoef(found)[0, 1]) < -norm.ppf(5e-7) / 100  # budgets never share noise


def test_statistics_of_one_round_are_one_event_amplified_once() -> None:
    """Four of multiplier sigma share a coin: one sampled Gaussian of sigma / 2, not four."""
    sigma, rate = 1.45, 0.3
    sizes = ((1, 1.0), (3, 1.0), (9, 2.0), (4, 1.0))
    parts = [ClientVectors(REPLAY, np.zeros((2, size)), bound, [sigma * bound]) for size, bound in sizes]
    _, book = released(*parts, rate=rate)
    assert len(book.entries) == 1
    event = book.entries[0].event
    assert isinstance(event, dp.PoissonSampledDpEvent)
    assert event.sampling_probability == rate
    assert event.event.noise_multiplier == pytest.approx(sigma / 2)
    assert book.epsilon() == pytest.approx(4.79, rel=0.01)  # the card's PLD for one round


def test_replay_and_head_of_one_round_are_told_apart_and_paid_together() -> None:
    replay = ClientVectors(REPLAY, np.zeros((2, 3)), 1.0, [6.66])
    head = ClientVectors(HEAD, np.zeros((2, 5)), 0.5, [0.5 * 6.66])
    _, book = released(replay, head, rate=0.3)
    entry = book.entries[0]
    joint = 1 / math.sqrt(2 / 6.66**2)
    assert entry.event == dp.PoissonSampledDpEvent(0.3, dp.GaussianDpEvent(pytest.approx(joint)))
    assert set(entry.channels) == {REPLAY, HEAD}
    alone = dp.PoissonSampledDpEvent(0.3, dp.GaussianDpEvent(pytest.approx(6.66)))
    assert entry.channels[REPLAY] == alone
    assert entry.channels[HEAD] == alone
    parts = book.by_channel()
    assert max(parts.values()) <= book.epsilon() < sum(parts.values())


def test_a_clean_part_leaves_no_bound_on_the_whole_but_on_the_other() -> None:
    nothing = np.zeros((2, 3))
    _, book = released(ClientVectors(REPLAY, nothing, 1.0, [2.0]), ClientVectors(HEAD, nothing, 1.0, [0.0]))
    assert math.isinf(book.epsilon())
    assert math.isinf(book.by_channel()[HEAD])
    assert book.by_channel()[REPLAY] < math.inf


def test_a_round_without_clients_costs_and_looks_as_any_other() -> None:
    full, one = released(ClientVectors(REPLAY, np.zeros((3, 4)), 1.0, [1.0]), rate=0.3)
    empty, other = released(ClientVectors(REPLAY, np.zeros((0, 4)), 1.0, [1.0]), rate=0.3)
    assert empty[0].shape == full[0].shape
    assert one.entries == other.entries


def test_releases_may_have_vectors_of_their_own() -> None:
    vectors = np.random.default_rng(2).standard_normal((2, 3, 4))
    part = ClientVectors(HEAD, vectors, 9.0, [0.0, 0.0])
    (found,) = noisy_client_sums([part], [ReleaseNoise()] * 2, [ledger(), ledger()], task=0, what="test")
    assert found == pytest.approx(vectors.sum(axis=1))


def test_a_client_s_own_noise_is_not_averaged_and_not_amplified() -> None:
    book = ledger()
    part = ClientVectors(REPLAY, np.full((500, 20), 3.0), 1.0, [2.0])
    found = noisy_client_vectors(part, [ReleaseNoise()], [book], task=0, what="test")
    assert found.shape == (1, 500, 20)
    assert book.entries[0].event == dp.GaussianDpEvent(2.0)
    noise = found[0] - 1 / math.sqrt(20)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], noise.size)
    assert low < (noise**2).sum() / 4 < high


def test_clipped_rows_shorten_and_leave_alone() -> None:
    given = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert clipped_rows(given, 1.0) == pytest.approx(np.array([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


@pytest.mark.parametrize("bound", [1.0, 0.75, 1e-3])
def test_no_clipped_row_is_as_long_as_its_bound(bound: float) -> None:
    """Along one axis a length has no rounding: the margin alone, which covers what rounds elsewhere, keeps it below."""
    rows = clipped_rows(bound * np.diag([1.0, 5.0, 1e300]), bound)
    assert (np.linalg.norm(rows, axis=1) <= bound * (1 - 2.0**-33)).all()
