"""Replayed mixtures: samples follow the released numbers, and parts of a mixture keep their shares."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.methods.federated.client_release import Replay, joined, sampled

MEANS = np.array([[1.0, 0, 0], [0, 2, 0]])
TARGETS = np.array([[0.9, 0.1], [0.0, 1.0]])
ROOT = np.array([[0.5, 0, 0], [0.3, 0.4, 0], [0, 0.1, 0.2]])
FULL = ROOT @ ROOT.T


def covariances(kind: str) -> np.ndarray:
    one_each = np.stack([FULL, np.diag([0.1, 0.2, 0.3])])
    return {"shared": FULL, "own": one_each, "diagonal": np.diagonal(one_each, axis1=1, axis2=2)[:, None, :]}[kind]


def of(kind: str, weights: tuple[float, float] = (0.3, 0.7)) -> Replay:
    return Replay(np.array(weights), MEANS, covariances(kind), TARGETS)


@pytest.mark.parametrize("kind", ["shared", "own", "diagonal"])
def test_samples_have_the_moments_of_their_components(kind: str) -> None:
    """40,000 draws: means within six standard errors, covariances within 5 %."""
    z, y, k = of(kind).sample(40_000, np.random.default_rng(0))
    assert (z.dtype, y.dtype, k.dtype) == (np.float32, np.float32, np.int64)
    assert (k == 0).mean() == pytest.approx(0.3, abs=6 * np.sqrt(0.21 / 40_000))
    assert (y == TARGETS.astype(np.float32)[k]).all()
    spreads = covariances(kind)
    for place in range(2):
        own = z[k == place]
        spread = FULL if kind == "shared" else spreads[place]
        spread = np.diag(spread[0]) if kind == "diagonal" else spread
        assert own.mean(axis=0) == pytest.approx(MEANS[place], abs=6 * np.sqrt(spread.max() / len(own)))
        assert np.cov(own, rowvar=False) == pytest.approx(spread, abs=0.05 * spread.max())


def test_a_singular_covariance_is_sampled_too() -> None:
    flat = np.outer([1.0, 2, 0], [1, 2, 0])
    z, _, k = Replay(np.array([0.5, 0.5]), MEANS, flat, TARGETS).sample(4000, np.random.default_rng(1))
    away = z - MEANS[k]
    assert away[:, 2] == pytest.approx(np.zeros(4000), abs=1e-5)
    assert away[:, 1] == pytest.approx(2 * away[:, 0], abs=1e-4)


def test_samples_repeat() -> None:
    one, two = (of("shared").sample(50, np.random.default_rng(2)) for _ in range(2))
    for first, second in zip(one, two, strict=True):
        assert (first == second).all()


def test_no_samples_of_a_weightless_component_and_none_at_all() -> None:
    _, _, k = of("own", (0.0, 1.0)).sample(100, np.random.default_rng(3))
    assert (k == 1).all()
    assert of("own").sample(0, np.random.default_rng(4))[0].shape == (0, 3)


@pytest.mark.parametrize("kind", ["shared", "own", "diagonal"])
def test_joined_parts_weigh_the_same(kind: str) -> None:
    parts = [of(kind), of(kind, (0.2, 0.6))]
    both = joined(parts)
    assert both.weights == pytest.approx([0.15, 0.35, 0.125, 0.375])
    assert (both.means == np.tile(MEANS, (2, 1))).all()
    z, _, k = both.sample(20_000, np.random.default_rng(5))
    spread = {"shared": FULL, "own": covariances("own")[1], "diagonal": np.diag(covariances("diagonal")[1, 0])}[kind]
    assert np.cov(z[k == 3], rowvar=False) == pytest.approx(spread, abs=0.08 * spread.max())


def test_a_shared_covariance_stays_shared_where_it_is_one() -> None:
    one = of("shared")
    other = Replay(one.weights, one.means, one.covariances, one.targets)
    assert joined([one, other]).covariances is one.covariances
    different = Replay(one.weights, one.means, 2 * FULL, one.targets)
    assert joined([one, different]).covariances.shape == (4, 3, 3)


def test_invented_embeddings_keep_their_direction_at_unit_length() -> None:
    parts = [of("own"), of("own", (0.5, 0.5))]
    z, targets = sampled(parts, 50, np.random.default_rng(3), unit_length=False)
    drawn, expected, _ = joined(parts).sample(50, np.random.default_rng(3))
    assert (z == drawn).all()
    units, same = sampled(parts, 50, np.random.default_rng(3), unit_length=True)
    assert (targets == expected).all()
    assert (same == expected).all()
    assert units.dtype == np.float32
    assert units == pytest.approx(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), rel=1e-5)
