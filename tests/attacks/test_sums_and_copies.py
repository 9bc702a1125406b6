"""The audits of the coefficient memory and of noise for every record, through their learners."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpcl_core import checks
from dpcl_core.attacks import catalog, lifelong_games
from dpcl_core.errors import BadInput
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec
from tests.attacks import mutants
from tests.support.tiers import quick

PERMUTED = {"kind": "permuted", "tasks": 4}


def spec(method: str, adjacency: str = "replace", **changes: Any) -> RunSpec:
    privacy = {"epsilons": [8.0], "adjacency": adjacency, **changes.pop("privacy", {})}
    return checks.parse({"method": method, "privacy": privacy, **changes})


def sums(chosen: RunSpec, trials: int = 300) -> list[Audited]:
    return list(catalog.auditor("dp-coeff-memory")(chosen, trials))


def copies(chosen: RunSpec, trials: int = 400) -> list[Audited]:
    return list(catalog.auditor("independent-laplace")(chosen, trials))


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
@pytest.mark.parametrize("backbone", quick(1, ["pixels", "vit-cifar100"]))
def test_an_example_in_the_sums_is_found_to_a_part_and_stays_below(adjacency: str, backbone: str) -> None:
    """mu is 1.6 at epsilon 8, with a standard error of 0.1 at 300 releases a side."""
    for result in sums(spec("dp-coeff-memory", adjacency, data={"backbone": backbone})):
        assert result.accounted == pytest.approx(8.0, rel=2e-5)
        assert 1.5 < result.lower_bound <= result.accounted
        assert result.through == "learner"


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.slow
def test_the_sums_of_a_lifelong_run_are_added_up() -> None:
    for result in sums(spec("dp-coeff-memory", scenario=PERMUTED), 200):
        assert 1.5 < result.lower_bound <= result.accounted == pytest.approx(8.0, rel=1e-4)


@pytest.mark.usefixtures("fixed_noise")
def test_sabotage_of_the_sums_is_called_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    game = lifelong_games.sum_game(spec("dp-coeff-memory", "add-remove"), 8.0, is_natural=False)
    with monkeypatch.context() as patch:
        mutants.scaled_noise(patch, "dpcl_core.methods.lifelong.quadratic", 0.4)
        assert game.audited(8.0, 150).exceeds
    with monkeypatch.context() as patch:
        mutants.noise_of_all_tasks(patch, "dpcl_core.methods.lifelong.quadratic")
        assert game.known.n_tasks == 2
        assert game.audited(8.0, 150).lower_bound > 4


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("params", quick(1, [{}, {"project_to": 0}]))
def test_of_one_copy_something_is_found_and_stays_below(params: dict[str, Any]) -> None:
    worst, _natural = copies(spec("independent-laplace", params=params))
    assert 1.5 < worst.lower_bound <= worst.accounted <= 8.0
    assert (worst.through, worst.bound) == ("learner", "counting")
    none = copies(spec("independent-laplace", params=params, privacy={"epsilons": [math.inf]}), 200)[0]
    assert none.lower_bound > 2.5
    assert none.accounted == math.inf


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_copies_of_a_lifelong_run_are_added_up_and_too_little_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = spec("independent-laplace", scenario=PERMUTED)
    assert 0 < copies(chosen)[0].lower_bound <= 8.0
    mutants.scaled_noise(monkeypatch, "dpcl_core.methods.lifelong.quadratic", 0.02)
    one = spec("independent-laplace", privacy={"epsilons": [1.0]})
    assert lifelong_games.record_game(one, 1.0, is_natural=False).audited(1.0, 200).exceeds


def test_without_replacement_there_is_nothing_to_audit() -> None:
    with pytest.raises(BadInput, match="must be replace"):
        copies(spec("independent-laplace", "add-remove"), 100)
