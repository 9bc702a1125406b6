"""Audits of methods of clients play the learner itself, stay below what is accounted, and notice sabotage."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dpcl_core import checks
from dpcl_core.attacks import catalog as audits
from dpcl_core.attacks import federated_games
from dpcl_core.methods import catalog
from dpcl_core.methods.federated.client_release import WeightedSlots
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec
from tests.attacks import mutants
from tests.support.tiers import quick

# What is released once a task, and the module that draws its noise.
DRAWN_IN = {
    "label-means": "dpcl_core.methods.federated.release_schedule",
    "cslr-server-head": "dpcl_core.methods.federated.release_schedule",
    "local-list": "dpcl_core.methods.federated.local_list",
}
SUMS = ["label-means", "cslr-server-head"]


def asked(method: str, adjacency: str = "add-remove", **params: Any) -> RunSpec:
    raw = {
        "method": method,
        "labels": "prior",
        "scenario": {"kind": "federated", "clients": 20},
        "privacy": {"epsilons": [1.0], "adjacency": adjacency},
        "seeds": [0],
        "params": params,
    }
    return checks.parse(raw)


def audited(spec: RunSpec, trials: int, *, is_natural: bool = False) -> Audited:
    game = federated_games.release_game(spec, 1.0, is_natural=is_natural)
    return game.audited(1.0, trials // len(game.takes_part(0)))


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_client_is_found_in_class_means_and_no_more_than_is_accounted(adjacency: str) -> None:
    """The noise is the same every time here; with any, mu has a standard error of 0.05 at 1,000 a side."""
    found = audited(asked("label-means", adjacency), 1200)
    assert found.accounted == pytest.approx(1.0, rel=1e-3)
    assert 0.3 <= found.lower_bound <= found.accounted
    assert (found.through, found.trials) == ("learner", 1080)
    assert found.detects is not None


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("method", quick(1, DRAWN_IN))
def test_both_clients_are_looked_for_in_every_method_of_releases(method: str) -> None:
    for is_natural in (False, True):
        found = audited(asked(method), 300, is_natural=is_natural)
        assert 0 <= found.lower_bound <= found.accounted
        assert "real digits" in found.attack if is_natural else "longest" in found.attack


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("method", quick(1, DRAWN_IN))
def test_a_fifth_of_the_noise_is_caught(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants.scaled_noise(monkeypatch, DRAWN_IN[method], 0.2)
    found = audited(asked(method), 300)
    assert found.exceeds
    assert found.accounted == pytest.approx(1.0, rel=1e-3)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("method", SUMS)
def test_clients_that_are_not_clipped_are_caught(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics ten times as long as they should be, in a sum whose noise is for the length that is written down."""
    honest = WeightedSlots.vectors
    monkeypatch.setattr(WeightedSlots, "vectors", lambda self, slotted: 10 * honest(self, slotted))
    monkeypatch.setattr("dpcl_core.privacy.mechanisms.clipped_rows", lambda vectors, bound: np.asarray(vectors, np.float64))
    monkeypatch.setattr("dpcl_core.privacy.mechanisms.grid_rows", lambda vectors, bound: vectors, raising=False)
    assert audited(asked(method), 300).exceeds


@pytest.mark.usefixtures("fixed_noise")
def test_one_noise_for_both_tasks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference of the two releases has none of it."""
    mutants.noise_of_all_tasks(monkeypatch, DRAWN_IN["label-means"])
    spec = asked("label-means")
    in_one_task = {"partition": "domain", "protocol": "domain-incremental"}
    spec = replace(spec, scenario=replace(spec.scenario, **in_one_task))
    assert audited(spec, 300).exceeds


def rounds_audited(method: str, n_learners: int, epsilon: float = 8.0, **params: Any) -> Audited:
    return federated_games.round_game(asked(method, rounds=4, **params), epsilon).audited(epsilon, n_learners)


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_clients_are_found_in_rounds_and_too_little_noise_is_called_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 290 clients a side mu, about 1.1 here, has a standard error of 0.09."""
    found = rounds_audited("dp-fedavg", 20)
    assert 1.0 < found.lower_bound <= found.accounted == pytest.approx(8.0, rel=1e-3)
    mutants.scaled_noise(monkeypatch, "dpcl_core.methods.federated.client_training", 0.25)
    assert rounds_audited("dp-fedavg", 16, 1.0).exceeds


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.slow
def test_of_rounds_with_inventions_an_audit_shows_rather_that_there_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rounds_audited("fedcil-dp", 20)
    assert 0 <= found.lower_bound <= found.accounted == pytest.approx(8.0, rel=1e-3)
    mutants.scaled_noise(monkeypatch, "dpcl_core.methods.federated.fedcil_dp", 1e-4)
    assert rounds_audited("fedcil-dp", 24, 1.0, participation=1.0).exceeds


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_of_rounds_both_clients_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federated_games, "_MOST_NATURAL", 10)
    found = audits.auditor("dp-fedavg")(asked("dp-fedavg", "replace", rounds=2), 100)
    assert ["real digits" in one.attack for one in found] == [False, True]
    assert all(0 <= one.lower_bound <= one.accounted for one in found)


@pytest.mark.slow
def test_ten_audits_in_three_minutes_each_prove_point_three_nine_times() -> None:
    found = [audited(asked("label-means"), audits.trials("label-means")).lower_bound for _ in range(10)]
    print("class means of clients, epsilon 1:", " ".join(f"{one:.2f}" for one in found))
    assert sorted(found)[1] >= 0.3


def test_every_method_of_clients_that_says_proved_has_an_audit_through_its_learner() -> None:
    for name, card in catalog.CARDS.items():
        if card.scenarios == ("federated",) and card.guarantee == "proved":
            assert import_module(audits.MODULES[name]).__name__.startswith("dpcl_core.attacks."), name
            assert "learner" in audits.audit_of(name).attacks, name
