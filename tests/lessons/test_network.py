"""The small network: gradients against finite differences, clipping on neighbours, and what a server computes from them."""

import math

import numpy as np
import pytest

from dpcl_core.lessons import network
from dpcl_core.privacy import accounting
from dpcl_core.privacy.statement import odds_bound


def test_each_gradient_is_that_of_its_own_loss_in_a_batch_as_alone() -> None:
    x, labels = network.digits(3)
    weights, step = network.untrained(), 1e-5
    rows = network.gradients(weights, x, labels)
    assert rows.shape == (3, network.N_WEIGHTS)
    for place in range(0, network.N_WEIGHTS, 7):
        shift = step * (np.arange(network.N_WEIGHTS) == place)
        slope = (network.losses(weights + shift, x, labels) - network.losses(weights - shift, x, labels)) / (2 * step)
        assert rows[:, place] == pytest.approx(slope, abs=1e-8)
    alone = [network.gradients(weights, x[n : n + 1], labels[n : n + 1])[0] for n in range(3)]
    assert rows == pytest.approx(np.stack(alone), abs=1e-12)


@pytest.mark.parametrize("clip", [0.01, 1.0, 5.0])
def test_one_person_moves_the_sum_by_at_most_the_clipping_norm(clip: float) -> None:
    rows = network.early_gradients(64)
    rows[0] *= 1e6
    without, total = network.clipped(rows[1:], clip).sum(axis=0), network.clipped(rows, clip).sum(axis=0)
    assert np.linalg.norm(total - without) == pytest.approx(clip, rel=1e-9)
    kept = network.lengths(rows) <= clip
    assert (network.clipped(rows, clip)[kept] == rows[kept]).all(), "shorter ones stay as they are"
    assert not network.clipped(np.zeros((1, 3)), clip).any()


def test_noise_is_charged_for_the_steps_that_are_taken() -> None:
    steps = accounting.subsampled_gaussian(network.sigma(1.0, 1347), network.BATCH / 1347, network.N_STEPS)
    assert accounting.delta(steps, 1.0, "add-remove") == pytest.approx(network.DELTA, rel=0.01)


def test_the_network_learns_and_knows_its_own_digits() -> None:
    """Trained from fixed seeds, so that a threshold far from the measured number holds on every processor."""
    assert network.accuracy(network.plain(1347)) > 0.93
    inside, outside = network.members(network.plain(40), 40)
    assert (len(inside), len(outside)) == (40, 40)
    assert outside.mean() > 10 * inside.mean()
    few, many = (network.pairs_right(*network.members(network.plain(n), n)) for n in (40, 640))
    assert few > 0.85
    assert 0.5 < many < few - 0.1


def test_a_guesser_of_pairs_counts_every_pair() -> None:
    inside, outside = np.array([0.1, 0.3]), np.array([0.2, 0.4, 0.3])
    right = [(1.0 if one < two else 0.5 if one == two else 0.0) for one in inside for two in outside]
    assert network.pairs_right(inside, outside) == pytest.approx(np.mean(right))


@pytest.mark.parametrize("clip", [math.inf, 1.0, 1e-3])
def test_a_gradient_of_one_picture_is_the_picture(clip: float) -> None:
    x, labels = network.digits(20)
    for row, picture in zip(network.clipped(network.gradients(network.untrained(), x, labels), clip), x, strict=True):
        assert network.seen(row) == pytest.approx(picture, abs=1e-10)
        assert network.seen_by_units(row) == pytest.approx(np.tile(picture, (network.HIDDEN, 1)), abs=1e-8)


def test_a_batch_gives_the_mean_weighted_by_the_errors_of_the_unit() -> None:
    x, labels = network.digits(6)
    rows = network.gradients(network.untrained(), x, labels)
    biases = rows[:, network.HIDDEN * network.N_PIXELS :][:, : network.HIDDEN]
    mixed = (biases.T @ x) / biases.sum(axis=0)[:, None]
    assert network.seen_by_units(rows.mean(axis=0)) == pytest.approx(mixed, abs=1e-9)


def test_belief_in_a_secret_is_bounded_by_bayes() -> None:
    """The worst release reaches the bound: one secret e^ε times as likely as every other."""
    for epsilon in (0.1, 1.0, 10.0):
        assert network.named(epsilon, 2) == pytest.approx(odds_bound(epsilon, 0.0))
        likelihoods = np.array([math.exp(epsilon), *np.ones(99)])
        assert network.named(epsilon, 100) == pytest.approx((likelihoods / likelihoods.sum())[0])
    assert network.named(0.0, 10) == pytest.approx(0.1)


def test_the_noise_of_dp_sgd_is_fresh_and_as_wide_as_charged() -> None:
    """One step on a network where all gradients are clipped to 1: what moves is the noise, 610 numbers at a time."""
    x, labels = network.digits(64)
    sigma = 1000.0
    first, second = (network.trained(x, labels, sigma, n_steps=1) for _ in range(2))
    moved = np.concatenate([first - network.untrained(), second - network.untrained()]) * 64 / network.RATE
    assert not np.array_equal(first, second)
    assert moved.std() == pytest.approx(sigma * network.CLIP, rel=0.15)  # 1,220 numbers: a standard error of 2 %
