"""The attack on a whole life with replays stays below what is accounted, has power, and sees what is left out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpcl_core.attacks import catalog, lifelong_games
from dpcl_core.methods.lifelong import odometer
from dpcl_core.privacy.audit_bounds import Audited
from tests.attacks.asked import asked
from tests.support.tiers import quick


def life_audited(
    *epsilons: float, trials: int = 2000, kind: str = "split", adjacency: str = "add-remove", **params: Any
) -> list[Audited]:
    scenario, params = {"kind": kind, "tasks": 5}, {"memory_size": 100, **params}
    spec = asked("dp-agem", *epsilons or (8.0,), adjacency=adjacency, scenario=scenario, params=params)
    return list(catalog.auditor("dp-agem", "life")(spec, trials))


@pytest.mark.parametrize("scenario", quick(1, ["split", "permuted"]))
@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
def test_the_attack_finds_something_and_stays_below_the_accounted_epsilon(scenario: str, adjacency: str) -> None:
    """Measured over 15 audits each: 0 to 0.9 at epsilon 2, 1.8 to 3.1 at epsilon 8, with a standard deviation of at most
    0.35, so that the limits are five of them away."""
    two, eight = life_audited(2.0, 8.0, kind=scenario, adjacency=adjacency)
    assert two.lower_bound < two.accounted <= 2.0
    assert 0.5 < eight.lower_bound < eight.accounted <= 8.0


def test_without_noise_everyone_is_found_out() -> None:
    (result,) = life_audited(math.inf, trials=1000)
    assert result.accounted == math.inf
    assert result.lower_bound > 4


def test_a_rule_that_forgets_the_replays_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 steps of small batches cost a person little; 41 replays of the whole sample cost far more, and that is measured."""
    settings = {"sample_rate": 0.05, "replay_rate": 1.0, "epochs": 1}
    monkeypatch.setattr(odometer, "noises", lambda plan, epsilon: odometer.Noises(4.0, 4.0))
    own = life_audited(trials=1000, **settings, projection="never")[0].accounted
    (result,) = life_audited(**settings)
    assert own < 0.3 < 0.5 < result.lower_bound < result.accounted  # measured: 2.3, as at epsilon 8 above


def test_a_long_life_is_attacked_in_part_and_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured over 500 audits: 1.9 with a standard deviation of 0.3. With 2,000 trials one audit in 300 proves nothing."""
    monkeypatch.setattr(lifelong_games, "_MOST_STEPS", 50)
    (whole,) = life_audited(trials=10_000)
    assert 0 < whole.lower_bound < whole.accounted
