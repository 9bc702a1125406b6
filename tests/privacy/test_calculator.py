"""The calculator: any two of epsilon, sigma, delta give the third; and one training by three accountants."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpcl_core.errors import BadInput
from dpcl_core.privacy import accounting, gaussian, text_mechanisms
from dpcl_core.privacy.calculator import accounts, solve
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


# Three accountants on the same steps: the reference values of the field, agreement, and a disagreement that is seen.


DELTA = 1e-5
# Noise multipliers for 40 epochs, found once by another implementation: sampling rate, steps, epsilon, multiplier.
REFERENCE = [(0.1, 400, 1.0, 7.576), (0.1, 400, 8.0, 1.423), (0.5, 80, 1.0, 16.79), (0.5, 80, 8.0, 2.810)]


@pytest.mark.parametrize(("sample_rate", "n_steps", "epsilon", "multiplier"), REFERENCE)
def test_reference_multipliers_before_three_accountants(
    sample_rate: float, n_steps: int, epsilon: float, multiplier: float
) -> None:
    """Ours is the reference's to 0.1 % and never larger: that one was rounded up. PRV agrees; RDP is 9 % above."""
    ours = accounting.noise_multiplier(epsilon, DELTA, sample_rate, n_steps, "add-remove")
    assert multiplier * (1 - 1e-3) < ours <= multiplier
    found = accounts(ours, DELTA, sample_rate, n_steps, "add-remove")
    assert found.agree
    assert epsilon - 1e-3 < found.pld <= epsilon
    assert 0 < found.prv - found.pld < 3e-3 * max(1.0, epsilon)  # its own error bound is part of what it reports
    low, high = {1.0: (1.09, 1.10), 8.0: (8.6, 8.73)}[epsilon]
    assert low < found.rdp < high
    assert accounting.Pld().epsilon(
        [accounting.subsampled_gaussian(ours * 0.999, sample_rate, n_steps)], DELTA, "add-remove"
    ) > epsilon, "a thousandth less noise does not do"  # fmt: skip


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 23.595), (8.0, 3.796)])
def test_without_sampling_the_closed_form_is_the_third(epsilon: float, multiplier: float) -> None:
    ours = accounting.noise_multiplier(epsilon, DELTA, 1.0, 40, "add-remove")
    assert ours == pytest.approx(multiplier, abs=6e-4)
    assert ours == pytest.approx(gaussian.sigma(epsilon, DELTA) * math.sqrt(40), abs=1.1e-4)
    found = accounts(ours, DELTA, 1.0, 40, "add-remove")
    assert found.prv is None
    assert found.exact == pytest.approx(epsilon, abs=1e-4)
    assert found.pld == pytest.approx(found.exact, abs=1e-5)
    assert found.agree
    assert found.rdp > found.pld * 1.05


def test_without_sampling_replace_takes_twice_the_noise_and_meets_its_budget() -> None:
    ours = accounting.noise_multiplier(1.0, DELTA, 1.0, 40, "replace")
    assert ours == pytest.approx(2 * gaussian.sigma(1.0, DELTA) * math.sqrt(40), abs=1.1e-4)
    event = accounting.subsampled_gaussian(ours, 1.0, 40)
    assert 1 - 1e-4 < accounting.Pld().epsilon([event], DELTA, "replace") <= 1.0


def test_under_replace_the_exact_value_doubles_the_sensitivity_and_sampled_steps_are_known_to_one() -> None:
    whole = accounts(10.0, DELTA, 1.0, 9, "replace")
    assert whole.exact == pytest.approx(gaussian.epsilon(10.0, DELTA, 6.0))
    assert whole.pld == pytest.approx(whole.exact, abs=1e-4)
    assert whole.agree
    assert whole.pld < whole.rdp < 1.2 * whole.pld
    sampled = accounts(3.0, DELTA, 0.2, 10, "replace")
    assert sampled.prv is None
    assert sampled.exact is None
    assert sampled.rdp is None
    assert "no other one" in sampled.sentence()


def test_a_wrong_number_is_called_one() -> None:
    found = accounts(2.0, DELTA, 0.05, 100, "add-remove")
    assert found.agree
    assert found.rdp is not None
    assert not replace(found, prv=found.prv * 1.1).agree
    assert not replace(found, rdp=found.pld * 0.9).agree
    assert "contradict" in replace(found, pld=found.pld * 0.9).sentence()
    assert found.document()["agree"] is True


def test_noise_too_little_for_an_accountant_contradicts_no_other() -> None:
    """Opacus' grid holds no epsilon of thousands; where ours has no bound either, the sentence says so."""
    little = accounts(0.02, DELTA, 0.1, 10, "add-remove")
    assert (little.prv, little.agree) == (None, True)
    assert "only the loose one has a bound" in little.sentence()
    assert accounts(0.01, DELTA, 0.5, 1000, "add-remove").prv is None, "not even infinity: an error of its own"
    none = accounts(0.01, DELTA, 0.5, 100_000, "add-remove")
    assert (none.pld, none.agree) == (math.inf, True)
    assert "hides nobody" in none.sentence()


REFUSED: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    *((gaussian.sigma, (epsilon, DELTA), "epsilon") for epsilon in (0, -1, math.nan)),
    *((gaussian.sigma, (1, delta), "delta") for delta in (0, 1)),
    (gaussian.epsilon, (-1, DELTA), "sigma"),
    (gaussian.delta, (-1, 1), "epsilon"),
    (accounting.subsampled_gaussian, (0.0, 0.1, 10), "noise_multiplier"),
    *((accounting.subsampled_gaussian, (1.0, rate, 10), "sample_rate") for rate in (0.0, 1.5)),
    (accounting.subsampled_gaussian, (1.0, 0.1, 0), "n_steps"),
    (accounts, (1.0, DELTA, 1.5, 10, "add-remove"), "sample_rate"),
    (accounts, (0.0, DELTA, 0.5, 10, "add-remove"), "noise_multiplier"),
    (accounts, (1.0, 1.0, 0.5, 10, "add-remove"), "delta"),
    (text_mechanisms.scale_epsilon, (0, 1, 64, DELTA), "sigma"),
    *(
        (of, (*given, delta), "delta")
        for of, given in (
            (text_mechanisms.printed_ratio, (1.0,)), (text_mechanisms.true_epsilon, (1.0,)),
            (text_mechanisms.ratio_for, (1.0,)),
            (text_mechanisms.true_epsilons, (np.ones(1),)), (text_mechanisms.printed_ratios, (np.ones(1),)),
            (text_mechanisms.remark_1, ([1.0],)), (text_mechanisms.scale_epsilon, (1, 2, 64)),
        )
        for delta in (0.0, 1.0, -1.0, math.nan)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("of", "given", "field"), REFUSED)
def test_impossible_numbers_are_refused_by_name(of: Callable[..., object], given: tuple[Any, ...], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        of(*given)
    assert caught.value.field == field
