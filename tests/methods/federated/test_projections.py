"""Projections: hand cases, what they must leave alone, and how large noise becomes as a covariance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dpcl_core.methods.federated.lists import psd, simplex


@pytest.mark.parametrize(
    ("given", "nearest"), [((0.5, 0.5, 0.5), (1 / 3, 1 / 3, 1 / 3)), ((1.2, -0.1, 0.3), (0.95, 0, 0.05)), ((7.0,), (1.0,))]
)
def test_simplex_of_hand_cases(given: tuple[float, ...], nearest: tuple[float, ...]) -> None:
    assert simplex(np.array(given)) == pytest.approx(nearest, abs=1e-15)


def test_simplex_is_what_it_should_be() -> None:
    values = np.random.default_rng(0).standard_normal((50, 4, 6)) * 3
    found = simplex(values)
    assert found.sum(axis=-1) == pytest.approx(np.ones((50, 4)), abs=1e-12)
    assert (found >= 0).all()
    assert simplex(found) == pytest.approx(found, abs=1e-12)
    assert simplex(values + 2.5) == pytest.approx(found, abs=1e-12)
    order = values.argsort(axis=-1)
    assert (np.diff(np.take_along_axis(found, order, axis=-1), axis=-1) >= -1e-15).all()


def test_simplex_is_the_nearest_point() -> None:
    """Against a general solver of the same problem."""
    for values in np.random.default_rng(1).standard_normal((5, 4)):
        solved = minimize(
            lambda p, v=values: ((p - v) ** 2).sum(), np.full(4, 0.25), bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, options={"ftol": 1e-14}
        )
        assert simplex(values) == pytest.approx(solved.x, abs=1e-6)


def test_psd_raises_small_eigenvalues_alone() -> None:
    raw = np.random.default_rng(2).standard_normal((3, 6, 6))
    found = psd(raw, 0.05)
    assert (found == np.swapaxes(found, 1, 2)).all()
    assert np.linalg.eigvalsh(found).min() >= 0.05 - 1e-10
    assert psd(found, 0.05) == pytest.approx(found, abs=1e-12)
    above = raw @ np.swapaxes(raw, 1, 2) + np.eye(6)
    above = (above + np.swapaxes(above, 1, 2)) / 2
    assert (psd(above, 0.05) == above).all()


def test_a_covariance_of_noise_alone_is_as_large_as_the_paper_s_would_be() -> None:
    """Six clients, multiplier 1.45, 384 dimensions: trace 545 where the true one is below 1."""
    noise = 1.45 / 6 * np.random.default_rng(3).standard_normal((384, 384))
    assert np.trace(psd(noise, 1e-3)) == pytest.approx(545, rel=0.02)


def test_noise_on_a_full_matrix_is_smaller_off_the_diagonal_once_symmetric() -> None:
    """10,500 and 10,000 draws: 3.5 % off are five standard errors, chance below 1e-6."""
    symmetric = psd(np.random.default_rng(4).standard_normal((100, 15, 15)), -np.inf)
    upper = symmetric[:, *np.triu_indices(15, 1)]
    assert upper.std() == pytest.approx(1 / np.sqrt(2), rel=0.035)
    many = psd(np.random.default_rng(5).standard_normal((1000, 10, 10)), -np.inf)
    assert np.diagonal(many, axis1=1, axis2=2).std() == pytest.approx(1, rel=0.035)
