"""The calculators: any two of epsilon, sigma, delta give the third, with and without sampling."""

from __future__ import annotations

import math

import pytest

from dpcl_core.errors import BadInput
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.calculator import solve
from tests.support.tiers import quick


@pytest.mark.parametrize("rate", quick(1, [1.0, 0.05]))
@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
def test_there_and_back(rate: float, steps: int, adjacency: str) -> None:
    settings = {"sample_rate": rate, "n_steps": steps, "adjacency": adjacency}
    noise = solve(epsilon=2.0, sigma=None, delta=1e-5, **settings).sigma  # type: ignore[arg-type]
    assert solve(epsilon=None, sigma=noise, delta=1e-5, **settings).epsilon == pytest.approx(2.0, abs=2e-3)  # type: ignore[arg-type]
    assert solve(epsilon=2.0, sigma=noise, delta=None, **settings).delta == pytest.approx(1e-5, rel=0.05)  # type: ignore[arg-type]


def test_ten_releases_of_one_person() -> None:
    sigma = gaussian.sigma(1.0, 1e-5)
    assert solve(epsilon=None, sigma=sigma, delta=1e-5, n_steps=10).epsilon == pytest.approx(3.6186, abs=1e-4)


def test_published_noise_multipliers() -> None:
    assert solve(epsilon=8.0, sigma=None, delta=1e-5, sample_rate=0.1, n_steps=400).sigma == pytest.approx(1.423, abs=2e-3)
    assert solve(epsilon=1.0, sigma=None, delta=1e-5, sample_rate=1.0, n_steps=40).sigma == pytest.approx(23.595, abs=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 1.0, "sigma": None, "delta": None},
        {"epsilon": 1.0, "sigma": 1.0, "delta": 1e-5},
        {"epsilon": 0.0, "sigma": None, "delta": 1e-5},
        {"epsilon": math.inf, "sigma": None, "delta": 1e-5},
        {"epsilon": None, "sigma": -1.0, "delta": 1e-5},
        {"epsilon": None, "sigma": 0.009, "delta": 1e-5},
        {"epsilon": 1.1e6, "sigma": None, "delta": 1e-5},
        {"epsilon": 1.0, "sigma": None, "delta": 1.0},
        {"epsilon": 1.0, "sigma": None, "delta": 9e-13, "sample_rate": 0.5},
        {"epsilon": None, "sigma": 1.0, "delta": 9e-13, "sample_rate": 0.5},
        {"epsilon": 1.0, "sigma": None, "delta": 1e-5, "sample_rate": 1.5},
        {"epsilon": 1.0, "sigma": None, "delta": 1e-5, "n_steps": 0},
        {"epsilon": 1e-300, "sigma": None, "delta": 1e-300},
        {"epsilon": 1.0, "sigma": None, "delta": 1e-300},
        {"epsilon": None, "sigma": 1.0, "delta": 1e-320},
        {"epsilon": 1.0, "sigma": None, "delta": 1e-5, "sample_rate": 0.1, "n_steps": 1_000_000_000},
    ],
)
def test_impossible_questions_are_refused(given: dict[str, float | None]) -> None:
    with pytest.raises(BadInput):
        solve(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [1, 0.1])
def test_whole_numbers_are_numbers(rate: float) -> None:
    assert solve(epsilon=1, sigma=None, delta=1e-5, sample_rate=rate) == solve(
        epsilon=1.0, sigma=None, delta=1e-5, sample_rate=rate
    )
    assert solve(epsilon=None, sigma=4, delta=1e-5, sample_rate=rate).epsilon > 0
    assert 0 < solve(epsilon=1, sigma=4, delta=None, sample_rate=rate).delta < 1


def test_the_smallest_numbers_that_are_allowed_have_an_answer() -> None:
    noise = solve(epsilon=1e-6, sigma=None, delta=1e-100).sigma
    assert solve(epsilon=None, sigma=noise, delta=1e-100).epsilon == pytest.approx(1e-6, rel=1e-3)
    assert solve(epsilon=None, sigma=1.0, delta=1e-100).epsilon == pytest.approx(21.8, abs=1)
