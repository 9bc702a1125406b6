"""Attacks on shared noise: exact where noise is shared, at chance where it is not, identities in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.attacks import l2dp_games
from dpcl_core.attacks.play import Guesses
from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.privacy.noise import ReleaseNoise, SeededNoise
from dpcl_core.spec import Cell, DataSpec

NOISE = ReleaseNoise()
# A fair coin thrown 2 x 500 times is right in more than 61.2 % of them with a chance below 5e-14.
N, CHANCE = 500, 0.612


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Public pictures [n, 64] in [-1, 1] and one-hot labels [n, 10]."""
    found = load.load(DataSpec(dataset="digits")).train
    return 2 * extractor.features("pixels", found.images).astype(np.float64) - 1, np.eye(10)[found.labels]


def shared(scale: float):
    return lambda records: records + scale * NOISE.laplace((records.shape[1],))


def independent(scale: float):
    return lambda records: records + scale * NOISE.laplace(records.shape)


@pytest.mark.parametrize(("scale", "error"), [(13.0, 1e-12), (4e4, 1e-9)])
def test_one_known_record_opens_all_others(digits: tuple, scale: float, error: float) -> None:
    records = digits[0]
    found = l2dp_games.difference(shared(scale)(records), 7, records[7])
    assert np.abs(found - records).max() < error
    levels = np.round((found + 1) * 8)  # the sixteen grey values of these pictures
    assert (levels == np.round((records + 1) * 8)).all()


def test_single_precision_still_gives_every_grey_value(digits: tuple) -> None:
    records = digits[0].astype(np.float32)
    noise = (13 * NOISE.laplace((64,))).astype(np.float32)
    found = l2dp_games.difference((records + noise).astype(np.float64), 0, records[0].astype(np.float64))
    assert np.abs(found - records).max() < 2e-5


@pytest.mark.parametrize("scale", [0.0, 13.0, 4e4])
def test_differencing_wins_every_game_at_any_scale_of_shared_noise(digits: tuple, scale: float) -> None:
    game = l2dp_games.difference_game(shared(scale), digits[0][:3], digits[0][3], N)
    assert (game.hits, game.false_alarms) == (N, 0)
    assert game.lower_bound(0.0) == pytest.approx(math.log(0.025 ** (1 / N) / (1 - 0.025 ** (1 / N))))


def test_differencing_is_at_chance_where_every_record_has_its_own_noise(digits: tuple) -> None:
    game = l2dp_games.difference_game(independent(100.0), digits[0][:3], digits[0][3], N)
    assert game.share_right < CHANCE
    assert game.lower_bound(0.0) < 0.7


def test_the_noise_of_a_linear_encoder_has_rank_one(digits: tuple) -> None:
    """The card's identity: gradient - cross = -n (c + mean u)(v - mean a)^T with c = theta^T v + 2 chi2."""
    records, theta = digits[0][:40], np.random.default_rng(0).normal(0, 0.2, (64, 12))
    chi1, chi2 = NOISE.laplace((64,)), NOISE.laplace((12,))
    gradient = l2dp_games.encoder_gradient(records, theta, chi1, chi2)
    left = gradient - l2dp_games.cross_covariance(records, theta)
    hidden, rest = (records @ theta).mean(axis=0), (0.5 - records).mean(axis=0)
    assert np.abs(left + 40 * np.outer(theta.T @ chi1 + 2 * chi2 + hidden, chi1 - rest)).max() < 1e-10
    assert l2dp_games.second_singular_value(gradient, l2dp_games.cross_covariance(records, theta)) < 1e-10
    changed = np.vstack([records[:-1], digits[0][40]])
    assert l2dp_games.second_singular_value(gradient, l2dp_games.cross_covariance(changed, theta)) > 1


def test_the_gradient_equals_a_loop_over_records(digits: tuple) -> None:
    records, theta = digits[0][:5], np.random.default_rng(0).normal(0, 0.2, (64, 3))
    chi1, chi2, total = NOISE.laplace((64,)), NOISE.laplace((3,)), np.zeros((3, 64))
    for record in records:
        hidden = theta.T @ (record + chi1) + 2 * chi2
        total += np.outer(hidden, 0.5 - (record + chi1))
    assert np.abs(l2dp_games.encoder_gradient(records, theta, chi1, chi2) - total).max() < 1e-10


def test_the_rank_one_test_wins_every_game(digits: tuple) -> None:
    theta = np.random.default_rng(0).normal(0, 0.2, (64, 12))
    for scale in (2.1, 213.0, 2e4):
        game = l2dp_games.rank_one_game(NOISE, scale, digits[0][:20], digits[0][20], theta, 120)
        assert (game.hits, game.false_alarms) == (120, 0), scale


def test_two_steps_give_every_label_away(digits: tuple) -> None:
    """Scale 512 on each coefficient: the difference of the two steps is free of it; the others' labels known or not."""
    records, labels = digits[0][:50], digits[1][:50]
    generator = np.random.default_rng(0)
    first, second = (np.clip(np.maximum(records @ generator.normal(0, 0.3, (64, 60)), 0), -1, 1) for _ in range(2))
    game = l2dp_games.label_game(NOISE, 512.0, (first, second), labels, (int(labels[-1].argmax()) + 1) % 10, N)
    assert (game.hits, game.false_alarms) == (N, 0)
    chi3 = 512 * NOISE.laplace((10, 60))
    known = labels.copy()
    known[-1] = 0
    scores = l2dp_games.label_scores(labels.T @ first + chi3, labels.T @ second + chi3, (first, second), known, 49)
    assert scores.argmax() == labels[-1].argmax()
    assert np.abs(np.delete(scores, labels[-1].argmax())).max() < 1e-6 * scores.max()


def test_one_step_equals_a_loop_with_the_clip(digits: tuple) -> None:
    records, theta = digits[0][:5], np.random.default_rng(0).normal(0, 0.2, (64, 3))
    chi1, chi2, total = NOISE.laplace((64,)), NOISE.laplace((3,)), np.zeros((3, 64))
    for record in records:
        total += np.outer(np.clip(theta.T @ (record + chi1), -1, 1) + chi2, 0.5 - (record + chi1)) / 5
    assert np.abs(l2dp_games.step(records, theta, chi1, chi2) - total).max() < 1e-12


def test_the_fits_derivative_is_that_of_the_step(digits: tuple) -> None:
    records, theta = digits[0][:30], np.random.default_rng(0).normal(0, 0.02, (64, 4))
    at, h = np.concatenate([4 * NOISE.laplace((64,)), 4 * NOISE.laplace((4,))]), 1e-6
    slopes = l2dp_games.Hypothesis(records, theta)._jacobian(at)
    for place in (0, 17, 63, 64, 67):
        ahead, behind = at.copy(), at.copy()
        ahead[place] += h
        behind[place] -= h
        moved = (l2dp_games.step(records, theta, ahead[:64], ahead[64:]) - l2dp_games.step(
            records, theta, behind[:64], behind[64:])).ravel() / (2 * h)  # fmt: skip
        # a unit of one of 30 records that the step pushes over the clip's edge is seen in a part of the difference only
        assert np.abs(slopes[:, place] - moved).max() < 1e-5


def test_the_likelihood_test_tells_the_data_by_what_no_noise_explains(digits: tuple) -> None:
    theta = np.random.default_rng(0).normal(0, 0.005, (64, 8))
    noise = SeededNoise(Cell(0.5, 0), "likelihood")  # a search may miss by chance
    game = l2dp_games.likelihood_game(noise, 4.0, digits[0][:100], digits[0][100], theta, 20)
    assert game.share_right >= 0.7  # chance alone would be there in one of 120 cases
    chi1, chi2 = 4 * NOISE.laplace((64,)), 8 * NOISE.laplace((8,))
    released = l2dp_games.step(digits[0][:100], theta, chi1, chi2)
    changed = np.vstack([digits[0][:99], digits[0][100]])
    assert l2dp_games.Hypothesis(changed, theta).residual(released) > 1e-6


def test_a_game_counts_both_kinds_of_error() -> None:
    game = Guesses(hits=450, false_alarms=50, n=500)
    assert game.share_right == 0.9
    assert 1.5 < game.lower_bound(1e-5) < math.log(0.9 / 0.1)
    assert Guesses(250, 250, 500).lower_bound(0.0) == 0.0
